/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cstring>
#include <thread>
#include <vector>

/*
 * Allocating and freeing, and copying what was allocated.
 */

class cuda_memory : public cuda_test {
protected:
    /* Memory of one kind, by what it is allocated and freed with */
    struct kind {
        const char *name;
        CUdeviceptr pointer;
    };

    static constexpr size_t size = megabyte;

    void SetUp() override
    {
        void *host = nullptr;

        cuda_test::SetUp();
        m_device = allocate(size);
        EXPECT_OK(cuMemAllocManaged(&m_managed, size, CU_MEM_ATTACH_GLOBAL));
        EXPECT_OK(cuMemAllocHost(&host, size));
        m_host = CUdeviceptr(host);
        m_pageable.resize(size);
    }

    void TearDown() override
    {
        EXPECT_OK(cuMemFreeHost((void*)m_host));
        release(m_managed);
        release(m_device);
        cuda_test::TearDown();
    }

    std::vector<kind> kinds()
    {
        return {{"device", m_device}, {"managed", m_managed},
                {"host", m_host}, {"pageable", CUdeviceptr(m_pageable.data())}};
    }

    CUdeviceptr       m_device;
    CUdeviceptr       m_managed;
    CUdeviceptr       m_host;
    std::vector<char> m_pageable;
};

using cuda_memory_death = cuda_memory;

TEST_F(cuda_memory_death, device_memory_faults_on_the_host)
{
    EXPECT_FAULT(*(volatile char*)m_device);
}

TEST_F(cuda_memory_death, freed_memory_faults_on_the_host)
{
    CUdeviceptr freed = allocate(size);

    release(freed);
    EXPECT_FAULT(*(volatile char*)freed);
}

TEST_F(cuda_memory, managed_and_host_memory_is_the_hosts_too)
{
    for (CUdeviceptr pointer : {m_managed, m_host}) {
        memset((void*)pointer, 7, size);
        EXPECT_OK(cuMemcpy(m_device, pointer, size));
        EXPECT_OK(cuCtxSynchronize());
        memset((void*)pointer, 0, size);
        EXPECT_OK(cuMemcpy(pointer, m_device, size));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_EQ(7, ((char*)pointer)[size - 1]);
    }
}

TEST_F(cuda_memory, copies_between_all_kinds)
{
    std::vector<char> pattern(size, 'x'), result(size);
    CUstream stream = make_stream();

    for (auto &from : kinds()) {
        for (auto &to : kinds()) {
            SCOPED_TRACE(std::string(from.name) + " to " + to.name);
            pattern.assign(size, from.name[0] ^ to.name[0] ^ 'x');
            EXPECT_OK(cuMemcpy(from.pointer, CUdeviceptr(pattern.data()),
                               size));
            EXPECT_OK(cuCtxSynchronize());
            EXPECT_OK(cuMemcpyAsync(to.pointer, from.pointer, size, stream));
            EXPECT_OK(cuStreamSynchronize(stream));
            EXPECT_OK(cuMemcpy(CUdeviceptr(result.data()), to.pointer, size));
            EXPECT_OK(cuCtxSynchronize());
            EXPECT_EQ(pattern, result);
        }
    }
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, copies_by_direction)
{
    CUdeviceptr second = allocate(size);
    CUstream stream    = make_stream();
    uint64_t in = 1, out = 0;

    EXPECT_OK(cuMemcpyHtoD(m_device, &in, 8));
    EXPECT_OK(cuMemcpyDtoD(second, m_device, 8));
    EXPECT_OK(cuMemcpyDtoH(&out, second, 8));
    EXPECT_EQ(1u, out);

    in = 2;
    EXPECT_OK(cuMemcpyHtoDAsync(m_device, &in, 8, stream));
    EXPECT_OK(cuMemcpyDtoDAsync(second, m_device, 8, stream));
    EXPECT_OK(cuMemcpyDtoHAsync(&out, second, 8, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(2u, out);

    write(m_device, 3);
    EXPECT_OK(cuMemcpyPeer(second, primary(), m_device, primary(), 8));
    EXPECT_EQ(3u, read(second));
    write(m_device, 4);
    EXPECT_OK(cuMemcpyPeerAsync(second, primary(), m_device, primary(), 8,
                                stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(4u, read(second));

    EXPECT_OK(cuStreamDestroy(stream));
    release(second);
}

TEST_F(cuda_memory, fills)
{
    CUstream stream = make_stream();

    EXPECT_OK(cuMemsetD8(m_device, 0x11, 8));
    EXPECT_EQ(0x1111111111111111u, read(m_device));
    EXPECT_OK(cuMemsetD16(m_device, 0x1234, 4));
    EXPECT_EQ(0x1234123412341234u, read(m_device));
    EXPECT_OK(cuMemsetD32(m_device, 0x12345678, 2));
    EXPECT_EQ(0x1234567812345678u, read(m_device));

    EXPECT_OK(cuMemsetD8Async(m_device, 0x22, 8, stream));
    EXPECT_OK(cuMemsetD16Async(m_device + 8, 0x2345, 4, stream));
    EXPECT_OK(cuMemsetD32Async(m_device + 16, 0x23456789, 2, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(0x2222222222222222u, read(m_device));
    EXPECT_EQ(0x2345234523452345u, read(m_device + 8));
    EXPECT_EQ(0x2345678923456789u, read(m_device + 16));
    EXPECT_INVALID(cuMemsetD32(m_device + 1, 0, 1));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, copy_beyond_an_allocation_is_refused)
{
    CUstream stream   = make_stream();
    CUdeviceptr freed = allocate(size);
    uint64_t value    = 0;

    release(freed);
    EXPECT_INVALID(cuMemcpyDtoH(m_pageable.data(), m_device + 8, size));
    EXPECT_INVALID(cuMemcpyAsync(m_device + 8, m_host, size, stream));
    EXPECT_INVALID(cuMemsetD8(m_device + 8, 0, size));
    EXPECT_INVALID(cuMemcpyDtoHAsync(&value, freed, 8, stream));
    EXPECT_OK(cuStreamSynchronize(stream)); /* nothing is broken */
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, copy_of_nothing_is_fine)
{
    EXPECT_OK(cuMemcpy(m_device, m_host, 0));
    EXPECT_OK(cuMemcpyAsync(m_device, m_host, 0, nullptr));
    EXPECT_OK(cuMemsetD8(m_device, 0, 0));
}

TEST_F(cuda_memory, arguments_are_checked)
{
    CUdeviceptr pointer;
    void *host;

    EXPECT_INVALID(cuMemAlloc(nullptr, size));
    EXPECT_INVALID(cuMemAlloc(&pointer, 0));
    EXPECT_INVALID(cuMemAllocManaged(&pointer, size, 0));
    EXPECT_INVALID(cuMemAllocHost(nullptr, size));
    EXPECT_INVALID(cuMemHostAlloc(&host, size, 0x80));
    EXPECT_OK(cuMemFree(0));
}

TEST_F(cuda_memory, only_the_base_can_be_freed_and_only_once)
{
    CUdeviceptr pointer = allocate(size);

    EXPECT_INVALID(cuMemFree(pointer + 8));
    EXPECT_INVALID(cuMemFree(CUdeviceptr(m_pageable.data())));
    release(pointer);
    EXPECT_INVALID(cuMemFree(pointer));
}

TEST_F(cuda_memory, no_more_than_there_is)
{
    size_t available = free_memory();
    CUdeviceptr pointer;

    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&pointer, available * 2));
    EXPECT_GE(free_memory() + memory_slack(), available);
}

TEST_F(cuda_memory, free_memory_goes_down_and_up)
{
    constexpr size_t large = 256 * megabyte;
    size_t before          = free_memory();
    CUdeviceptr pointer    = allocate(large);

    EXPECT_LE(free_memory() + large, before + memory_slack());
    release(pointer);
    EXPECT_GE(free_memory() + memory_slack(), before);
}

TEST_F(cuda_memory, address_range_of_a_pointer_into_it)
{
    CUdeviceptr base = 0;
    size_t length    = 0;

    EXPECT_OK(cuMemGetAddressRange(&base, &length, m_device + 100));
    EXPECT_EQ(m_device, base);
    EXPECT_EQ(size, length);
    EXPECT_OK(cuMemGetAddressRange(nullptr, &length, m_device));
    EXPECT_EQ(CUDA_ERROR_NOT_FOUND,
              cuMemGetAddressRange(&base, &length,
                                   CUdeviceptr(m_pageable.data())));
    EXPECT_OK(cuMemGetAddressRange(nullptr, nullptr,
                                   CUdeviceptr(m_pageable.data())));
}

TEST_F(cuda_memory, pitched)
{
    size_t pitch        = 0;
    CUdeviceptr pointer = 0;

    EXPECT_OK(cuMemAllocPitch(&pointer, &pitch, 100, 10, 4));
    EXPECT_GE(pitch, 100u);
    EXPECT_OK(cuMemsetD8(pointer, 1, pitch * 10));
    release(pointer);
    EXPECT_INVALID(cuMemAllocPitch(&pointer, &pitch, 100, 10, 3));
    EXPECT_INVALID(cuMemAllocPitch(&pointer, &pitch, 0, 10, 4));
}

TEST_F(cuda_memory, registered_host_memory)
{
    char *base        = m_pageable.data();
    CUdeviceptr mapped = 0;
    unsigned flags;

    EXPECT_OK(cuMemHostRegister(base, size, CU_MEMHOSTREGISTER_PORTABLE));
    EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              cuMemHostRegister(base, size, 0));
    EXPECT_OK(cuMemHostGetDevicePointer(&mapped, base + 8, 0));
    EXPECT_EQ(CUdeviceptr(base + 8), mapped);
    EXPECT_OK(cuMemHostGetFlags(&flags, base));
    EXPECT_TRUE(flags & CU_MEMHOSTALLOC_PORTABLE);
    EXPECT_OK(cuMemHostUnregister(base));
    EXPECT_EQ(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(base));
    EXPECT_INVALID(cuMemHostGetDevicePointer(&mapped, base, 0));
    EXPECT_INVALID(cuMemHostRegister(nullptr, size, 0));
}

TEST_F(cuda_memory, allocated_host_memory)
{
    CUdeviceptr mapped = 0;
    void *host         = nullptr;

    EXPECT_OK(cuMemHostAlloc(&host, size, CU_MEMHOSTALLOC_DEVICEMAP));
    EXPECT_OK(cuMemHostGetDevicePointer(&mapped, host, 0));
    EXPECT_EQ(CUdeviceptr(host), mapped);
    EXPECT_OK(cuMemFreeHost(host));
    EXPECT_INVALID(cuMemFreeHost(host));
}

TEST_F(cuda_memory, free_waits_for_work_of_the_context)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = allocate(size);
    std::atomic<bool> freed{false};
    std::thread freeing;

    {
        blocker block(stream);

        EXPECT_OK(cuMemcpyAsync(pointer, m_device, 8, stream));
        EXPECT_TRUE(eventually([&block] { return block.entered(); }));
        freeing = std::thread([&] {
            EXPECT_OK(cuCtxSetCurrent(primary()));
            release(pointer);
            freed.store(true);
        });
        for (int i = 0; i < 50; ++i) {
            test_nap(); /* a free that does not wait would be done by then */
        }
        EXPECT_FALSE(freed.load());
    }
    freeing.join();
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, stream_ordered)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = 0;
    CUipcMemHandle handle;

    EXPECT_OK(cuMemAllocAsync(&pointer, size, stream));
    EXPECT_OK(cuMemsetD8Async(pointer, 5, size, stream));
    EXPECT_OK(cuMemcpyAsync(m_device, pointer, size, stream));
    EXPECT_INVALID(cuIpcGetMemHandle(&handle, pointer));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(0x0505050505050505u, read(m_device));
    EXPECT_INVALID(cuMemFreeAsync(CUdeviceptr(m_pageable.data()), stream));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, stream_ordered_memory_lives_until_the_stream_frees_it)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = 0;

    EXPECT_OK(cuMemAllocAsync(&pointer, size, stream));
    {
        blocker block(stream);

        EXPECT_OK(cuMemsetD8Async(pointer, 6, size, stream));
        EXPECT_OK(cuMemcpyAsync(m_device, pointer, size, stream));
        EXPECT_OK(cuMemFreeAsync(pointer, stream));
    }
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(0x0606060606060606u, read(m_device));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, pools)
{
    CUmemPoolProps properties = {};
    CUstream stream           = make_stream();
    CUmemoryPool usual        = nullptr;
    CUmemoryPool own          = nullptr;
    CUdeviceptr pointer       = 0;

    EXPECT_OK(cuDeviceGetDefaultMemPool(&usual, 0));
    EXPECT_OK(cuMemAllocFromPoolAsync(&pointer, size, usual, stream));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));

    properties.allocType     = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id   = 0;
    EXPECT_OK(cuMemPoolCreate(&own, &properties));
    EXPECT_NE(usual, own);
    EXPECT_OK(cuMemAllocFromPoolAsync(&pointer, size, own, stream));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolDestroy(own));
    EXPECT_INVALID(cuMemPoolCreate(nullptr, &properties));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_memory, pools_refuse_what_they_cannot_do)
{
    CUmemPoolProps properties = {};
    CUmemPoolPtrExportData exported;
    CUmemoryPool usual  = nullptr;
    CUmemoryPool own    = nullptr;
    CUdeviceptr pointer = 0;
    unsigned on         = 1;
    int fd;

    EXPECT_OK(cuDeviceGetDefaultMemPool(&usual, 0));
    EXPECT_INVALID(cuMemPoolDestroy(usual));
    EXPECT_INVALID(cuMemPoolExportToShareableHandle(
            &fd, usual, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_INVALID(cuMemPoolExportPointer(&exported, m_device));

    REQUIRE_EMULATOR(); /* a real driver can, or crashes */
    EXPECT_INVALID(cuMemAllocAsync(&pointer, 0, nullptr));
    EXPECT_INVALID(cuMemFreeAsync(m_managed, nullptr));
    EXPECT_INVALID(cuMemPoolTrimTo(CUmemoryPool(&fd), 0));
    EXPECT_INVALID(cuMemPoolSetAccess(CUmemoryPool(&fd), nullptr, 0));
    EXPECT_INVALID(cuMemAllocFromPoolAsync(&pointer, size, CUmemoryPool(&fd),
                                           nullptr));
    EXPECT_INVALID(cuMemPoolImportPointer(&pointer, usual, &exported));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemPoolImportFromShareableHandle(
                      &own, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                      0));
    properties.allocType     = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.handleTypes   = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&own, &properties));

    EXPECT_OK(cuMemAllocAsync(&pointer, size, nullptr));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                    pointer));
    EXPECT_OK(cuMemFreeAsync(pointer, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
}

TEST_F(cuda_memory, freed_twice_by_a_stream)
{
    CUdeviceptr pointer = 0;

    REQUIRE_EMULATOR(); /* a real driver may crash */
    CUstream stream = make_stream();
    EXPECT_OK(cuMemAllocAsync(&pointer, size, stream));
    close_gate(gate_of(stream));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    open_gate(gate_of(stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamDestroy(stream));
}
