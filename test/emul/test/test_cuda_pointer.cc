/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <vector>

/*
 * What the driver tells about pointers.
 */

class cuda_pointer : public cuda_test {
protected:
    static constexpr size_t size = megabyte;

    void SetUp() override
    {
        cuda_test::SetUp();
        m_device = allocate(size);
    }

    void TearDown() override
    {
        release(m_device);
        cuda_test::TearDown();
    }

    /* Longer than any answer, and zero where nothing is written */
    static uint64_t attribute(CUpointer_attribute what, CUdeviceptr pointer)
    {
        uint64_t value = 0;

        EXPECT_OK(cuPointerGetAttribute(&value, what, pointer)) << what;
        return value;
    }

    static void expect_none(CUpointer_attribute what, CUdeviceptr pointer)
    {
        uint64_t value = 0;

        EXPECT_INVALID(cuPointerGetAttribute(&value, what, pointer)) << what;
    }

    CUdeviceptr m_device;
    int         m_variable;
};

TEST_F(cuda_pointer, device_memory)
{
    CUdeviceptr inside = m_device + 100;

    EXPECT_EQ(uint64_t(CU_MEMORYTYPE_DEVICE),
              attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    EXPECT_EQ(uint64_t(primary()),
              attribute(CU_POINTER_ATTRIBUTE_CONTEXT, inside));
    EXPECT_EQ(0u, attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside));
    EXPECT_EQ(inside, attribute(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside));
    EXPECT_EQ(0u, attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside));
    EXPECT_EQ(m_device, attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                  inside));
    EXPECT_EQ(size, attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
    EXPECT_EQ(1u, attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                            inside));
    EXPECT_EQ(1u, attribute(CU_POINTER_ATTRIBUTE_MAPPED, inside));
    EXPECT_EQ(0u, attribute(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, inside));
    expect_none(CU_POINTER_ATTRIBUTE_HOST_POINTER, inside);
}

TEST_F(cuda_pointer, buffer_id_is_of_the_allocation_and_never_again)
{
    uint64_t first     = attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, m_device);
    CUdeviceptr second = allocate(size);
    uint64_t other     = attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, second);

    EXPECT_EQ(first, attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, m_device + 8));
    EXPECT_NE(first, other);
    release(second);
    second = allocate(size);
    EXPECT_NE(other, attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
    release(second);
}

TEST_F(cuda_pointer, host_memory)
{
    void *host = nullptr;

    EXPECT_OK(cuMemAllocHost(&host, size));
    CUdeviceptr pointer = CUdeviceptr(host);
    EXPECT_EQ(uint64_t(CU_MEMORYTYPE_HOST),
              attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    EXPECT_EQ(pointer, attribute(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer));
    EXPECT_EQ(pointer, attribute(CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 pointer));
    EXPECT_EQ(0u, attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                            pointer));
    EXPECT_OK(cuMemFreeHost(host));
    expect_none(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
}

TEST_F(cuda_pointer, managed_memory)
{
    CUdeviceptr managed = 0;
    int location        = 0;

    EXPECT_OK(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(uint64_t(CU_MEMORYTYPE_DEVICE),
              attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed));
    EXPECT_EQ(1u, attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    EXPECT_EQ(managed, attribute(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed));
    EXPECT_OK(cuMemRangeGetAttribute(
            &location, sizeof(location),
            CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, size));
    EXPECT_EQ(int(CU_DEVICE_INVALID), location);
    EXPECT_INVALID(cuMemRangeGetAttribute(
            &location, sizeof(location),
            CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, m_device, size));
    release(managed);
}

TEST_F(cuda_pointer, stream_ordered_memory_has_a_pool)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = 0;
    CUmemoryPool pool   = nullptr;

    EXPECT_OK(cuMemAllocAsync(&pointer, size, stream));
    EXPECT_OK(cuDeviceGetMemPool(&pool, 0));
    EXPECT_EQ(uint64_t(pool), attribute(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                        pointer));
    EXPECT_EQ(0u, attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                            pointer));
    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_pointer, unknown_pointers)
{
    CUdeviceptr unknown          = CUdeviceptr(&m_variable);
    uint32_t type                = 9;
    uint64_t managed             = 0;
    int device                   = 9;
    CUcontext context            = primary();
    CUpointer_attribute what[]   = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_CONTEXT};
    void *data[]                 = {&type, &managed, &device, &context};

    expect_none(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown);
    expect_none(CU_POINTER_ATTRIBUTE_CONTEXT, unknown);

    EXPECT_OK(cuPointerGetAttributes(4, what, data, unknown));
    EXPECT_EQ(0u, type);
    EXPECT_EQ(0u, managed);
    EXPECT_EQ(int(CU_DEVICE_INVALID), device);
    EXPECT_EQ(nullptr, context);
}

TEST_F(cuda_pointer, many_at_once)
{
    uint32_t type              = 0;
    CUcontext context          = nullptr;
    void *host                 = &m_variable;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_CONTEXT,
                                  CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[]               = {&type, &context, &host};

    EXPECT_OK(cuPointerGetAttributes(3, what, data, m_device));
    EXPECT_EQ(uint32_t(CU_MEMORYTYPE_DEVICE), type);
    EXPECT_EQ(primary(), context);
    EXPECT_EQ(nullptr, host);
    EXPECT_INVALID(cuPointerGetAttributes(0, what, data, m_device));
}

TEST_F(cuda_pointer, sync_memops_can_be_set)
{
    unsigned on = 1;
    CUdeviceptr managed;

    ASSERT_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    for (CUdeviceptr pointer : {m_device, managed}) {
        EXPECT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                        pointer));
        EXPECT_EQ(1u, attribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    }
    EXPECT_OK(cuMemFree(managed));
    EXPECT_INVALID(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT,
                                         m_device));
    EXPECT_INVALID(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                         CUdeviceptr(&m_variable)));
}

TEST_F(cuda_pointer, is_no_handle_of_virtual_memory)
{
    CUmemGenericAllocationHandle handle;

    EXPECT_INVALID(cuMemRetainAllocationHandle(&handle, (void*)m_device));
}

TEST_F(cuda_pointer, what_is_not_emulated_says_so)
{
    static const CUdevice_attribute attributes[] = {
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
    };
    CUmemAllocationProp properties = {};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr reserved;
    int value, fd;
    size_t length;

    REQUIRE_EMULATOR();
    for (CUdevice_attribute attribute : attributes) {
        EXPECT_OK(cuDeviceGetAttribute(&value, attribute, 0));
        EXPECT_EQ(0, value) << attribute;
    }
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemAddressReserve(&reserved, size, 0, 0, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemAddressFree(m_device, size));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemCreate(&handle, size, &properties, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemRelease(0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(m_device, size, 0, 0, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemUnmap(m_device, size));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemSetAccess(m_device, size, nullptr, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemGetAllocationGranularity(
                      &length, &properties,
                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemGetAllocationPropertiesFromHandle(&properties, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemExportToShareableHandle(
                      &fd, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemImportFromShareableHandle(
                      &handle, nullptr,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuMemGetHandleForAddressRange(
                      &fd, m_device, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                      0));
}
