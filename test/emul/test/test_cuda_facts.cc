/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_peer.h"
#include "cuda_test.h"

#include <cstring>
#include <thread>

/*
 * How a real driver behaves where its documentation is silent. The emulator
 * follows what was found on hardware.
 */

class cuda_facts : public cuda_test {
protected:
    static constexpr size_t size = 4 * megabyte;

    /* Bytes that an attribute writes */
    static int answer_size(CUpointer_attribute what, CUdeviceptr pointer)
    {
        uint8_t first[16], second[16];
        int written = 0;

        memset(first, 0x55, sizeof(first));
        memset(second, 0xaa, sizeof(second));
        EXPECT_OK(cuPointerGetAttribute(first, what, pointer));
        EXPECT_OK(cuPointerGetAttribute(second, what, pointer));
        for (size_t i = 0; i < sizeof(first); ++i) {
            if (first[i] == second[i]) {
                written = i + 1;
            }
        }
        return written;
    }
};

TEST_F(cuda_facts, query_of_an_event_whose_context_is_destroyed)
{
    CUcontext own = make_context();
    CUevent event = make_event();

    EXPECT_OK(cuCtxDestroy(own));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventQuery(event));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventDestroy(event));
}

TEST_F(cuda_facts, destroying_a_context_waits_for_its_work)
{
    CUcontext own   = make_context();
    CUstream stream = make_stream();
    std::atomic<bool> destroyed{false};
    std::thread destroying;

    {
        blocker block(stream);

        EXPECT_TRUE(eventually([&block] { return block.entered(); }));
        destroying = std::thread([&destroyed, own] {
            EXPECT_OK(cuCtxDestroy(own));
            destroyed.store(true);
        });
        for (int i = 0; i < 100; ++i) {
            test_nap(); /* one that does not wait would be done by then */
        }
        EXPECT_FALSE(destroyed.load());
    }
    destroying.join();
    EXPECT_OK(cuCtxSetCurrent(primary()));
}

TEST_F(cuda_facts, closing_imported_memory_waits_for_work)
{
    cuda_peer owner;
    CUstream stream    = make_stream();
    uint64_t at_peer   = owner.ask(cuda_verb::allocate, size).value;
    cuda_reply answer  = owner.ask(cuda_verb::export_ipc, at_peer);
    CUdeviceptr opened = 0;
    std::atomic<bool> closed{false};
    std::thread closing;

    EXPECT_OK(cuIpcOpenMemHandle(&opened, answer.handle,
                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    {
        blocker block(stream);

        EXPECT_TRUE(eventually([&block] { return block.entered(); }));
        closing = std::thread([&closed, opened] {
            EXPECT_OK(cuCtxSetCurrent(primary()));
            EXPECT_OK(cuIpcCloseMemHandle(opened));
            closed.store(true);
        });
        for (int i = 0; i < 100; ++i) {
            test_nap(); /* one that does not wait would be done by then */
        }
        EXPECT_FALSE(closed.load());
    }
    closing.join();
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, opening_again_what_was_freed_while_it_is_open)
{
    cuda_peer owner;
    uint64_t at_peer  = owner.ask(cuda_verb::allocate, size).value;
    cuda_reply answer = owner.ask(cuda_verb::export_ipc, at_peer);
    CUdeviceptr first = 0, second = 0;

    EXPECT_OK(cuIpcOpenMemHandle(&first, answer.handle,
                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_OK(owner.ask(cuda_verb::free, at_peer).status);
    EXPECT_OK(cuIpcOpenMemHandle(&second, answer.handle,
                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(first, second);
    EXPECT_OK(cuIpcCloseMemHandle(first));
    EXPECT_OK(cuIpcCloseMemHandle(first));
}

TEST_F(cuda_facts, handle_of_a_pointer_into_an_allocation_opens_its_base)
{
    cuda_peer owner;
    uint64_t at_peer   = owner.ask(cuda_verb::allocate, size).value;
    cuda_reply base    = owner.ask(cuda_verb::export_ipc, at_peer);
    cuda_reply inside  = owner.ask(cuda_verb::export_ipc, at_peer + kilobyte);
    CUdeviceptr opened = 0;
    CUdeviceptr start  = 0;
    size_t length      = 0;

    EXPECT_OK(inside.status);
    EXPECT_EQ(0, memcmp(&base.handle, &inside.handle, sizeof(base.handle)));
    owner.ask(cuda_verb::write, at_peer, 1);
    EXPECT_OK(cuIpcOpenMemHandle(&opened, inside.handle,
                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(1u, read(opened));
    EXPECT_OK(cuMemGetAddressRange(&start, &length, opened));
    EXPECT_EQ(opened, start);
    EXPECT_EQ(size, length);
    EXPECT_OK(cuIpcCloseMemHandle(opened));
}

TEST_F(cuda_facts, small_allocations_are_opened_each_by_itself)
{
    cuda_peer owner;
    CUdeviceptr opened[2] = {};
    uint64_t at_peer[2];

    for (int i = 0; i < 2; ++i) {
        at_peer[i] = owner.ask(cuda_verb::allocate, kilobyte).value;
        owner.ask(cuda_verb::write, at_peer[i], 100 + i);
        cuda_reply answer = owner.ask(cuda_verb::export_ipc, at_peer[i]);
        EXPECT_OK(cuIpcOpenMemHandle(&opened[i], answer.handle,
                                     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT_EQ(100u + i, read(opened[i]));
    }
    EXPECT_NE(opened[0], opened[1]);
    EXPECT_OK(cuIpcCloseMemHandle(opened[0]));
    EXPECT_EQ(101u, read(opened[1]));
    EXPECT_OK(cuIpcCloseMemHandle(opened[1]));
}

TEST_F(cuda_facts, flags_of_open)
{
    cuda_peer owner;
    uint64_t at_peer  = owner.ask(cuda_verb::allocate, size).value;
    cuda_reply answer = owner.ask(cuda_verb::export_ipc, at_peer);
    CUdeviceptr opened;

    EXPECT_INVALID(cuIpcOpenMemHandle(&opened, answer.handle, 0));
    EXPECT_INVALID(cuIpcOpenMemHandle(&opened, answer.handle, 2));
}

TEST_F(cuda_facts, imported_memory_is_like_device_memory)
{
    cuda_peer owner;
    uint64_t at_peer   = owner.ask(cuda_verb::allocate, size).value;
    cuda_reply answer  = owner.ask(cuda_verb::export_ipc, at_peer);
    CUdeviceptr opened = 0;
    CUcontext context  = nullptr;
    uint64_t capable   = 0;
    uint32_t type      = 0;
    CUipcMemHandle handle;

    EXPECT_OK(cuIpcOpenMemHandle(&opened, answer.handle,
                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    opened));
    EXPECT_EQ(uint32_t(CU_MEMORYTYPE_DEVICE), type);
    EXPECT_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    opened));
    EXPECT_EQ(primary(), context);
    EXPECT_OK(cuPointerGetAttribute(
            &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            opened));
    EXPECT_EQ(0u, capable);
    EXPECT_INVALID(cuIpcGetMemHandle(&handle, opened));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
}

TEST_F(cuda_facts, pointers_that_were_freed_are_unknown)
{
    CUdeviceptr pointer        = allocate(size);
    uint32_t type              = 9;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void *data[]               = {&type};
    CUdeviceptr base;
    size_t length;

    release(pointer);
    EXPECT_INVALID(cuPointerGetAttribute(
            &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    EXPECT_OK(cuPointerGetAttributes(1, what, data, pointer));
    EXPECT_EQ(0u, type);
    EXPECT_EQ(CUDA_ERROR_NOT_FOUND,
              cuMemGetAddressRange(&base, &length, pointer));
}

TEST_F(cuda_facts, sizes_of_answers)
{
    CUdeviceptr pointer = allocate(size);

    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                             pointer));
    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_MAPPED, pointer));
    EXPECT_EQ(4, answer_size(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    EXPECT_EQ(8, answer_size(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
    EXPECT_EQ(8, answer_size(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                             pointer));
    release(pointer);
}

TEST_F(cuda_facts, what_needs_no_current_context)
{
    CUdeviceptr pointer = allocate(size);
    CUevent event       = make_event();
    CUstream stream     = make_stream();
    uint32_t type       = 0;
    CUdeviceptr base;
    size_t length;

    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuCtxSetCurrent(nullptr));
    EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    pointer));
    EXPECT_EQ(uint32_t(CU_MEMORYTYPE_DEVICE), type);
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
              cuMemGetAddressRange(&base, &length, pointer));
    EXPECT_OK(cuMemGetAddressRange(nullptr, nullptr, pointer));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemcpyAsync(pointer, pointer + kilobyte, 8, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    release(pointer);
    EXPECT_OK(cuCtxSetCurrent(primary()));

    EXPECT_OK(cuEventDestroy(event));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, event_can_be_recorded_with_another_context_current)
{
    CUevent event   = make_event();
    CUstream stream = make_stream();
    CUcontext own   = make_context();

    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuCtxDestroy(own));
    EXPECT_OK(cuEventDestroy(event));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, host_functions_may_query_an_event)
{
    static std::atomic<int> status;
    CUstream stream = make_stream();
    CUevent event   = make_event();

    status.store(-1);
    EXPECT_OK(cuLaunchHostFunc(
            stream,
            [](void *arg) { status.store(cuEventQuery(CUevent(arg))); },
            event));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(CUDA_SUCCESS, status.load());
    EXPECT_OK(cuEventDestroy(event));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, a_callback_holds_what_comes_after_it)
{
    CUstream stream = make_stream();
    CUevent event   = make_event();

    {
        blocker block(stream);

        EXPECT_TRUE(eventually([&block] { return block.entered(); }));
        EXPECT_OK(cuEventRecord(event, stream));
        for (int i = 0; i < 50; ++i) {
            test_nap(); /* it would be reached by then */
        }
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    }
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventDestroy(event));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, address_range_of_other_kinds)
{
    CUdeviceptr managed = 0, base = 0;
    size_t length       = 0;
    void *host          = nullptr;

    EXPECT_OK(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
    EXPECT_OK(cuMemGetAddressRange(&base, &length, managed + 8));
    EXPECT_EQ(managed, base);
    EXPECT_EQ(size, length);
    release(managed);

    EXPECT_OK(cuMemAllocHost(&host, size));
    EXPECT_OK(cuMemGetAddressRange(&base, &length, CUdeviceptr(host) + 8));
    EXPECT_EQ(CUdeviceptr(host), base);
    EXPECT_EQ(size, length);
    EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(cuda_facts, odd_sizes_are_kept)
{
    CUdeviceptr pointer = allocate(1000), base = 0;
    size_t length       = 0;

    EXPECT_OK(cuMemGetAddressRange(&base, &length, pointer + 999));
    EXPECT_EQ(pointer, base);
    EXPECT_EQ(1000u, length);
    release(pointer);
}

TEST_F(cuda_facts, free_of_legacy_memory_by_a_stream)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = allocate(size);

    EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_INVALID(cuMemFree(pointer));
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, synchronous_free_of_stream_ordered_memory)
{
    CUstream stream     = make_stream();
    CUdeviceptr pointer = 0;

    EXPECT_OK(cuMemAllocAsync(&pointer, size, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    release(pointer);
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_facts, last_release_of_a_primary_context_forgets_its_flags)
{
    CUcontext context = nullptr;
    unsigned flags    = 0;
    int active        = -1;

    REQUIRE_DEVICES(2);
    EXPECT_OK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 1));
    EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(unsigned(CU_CTX_SCHED_YIELD), flags & CU_CTX_SCHED_MASK);
    EXPECT_OK(cuDevicePrimaryCtxRelease(1));
    EXPECT_OK(cuDevicePrimaryCtxSetFlags(1, 0));
}

TEST_F(cuda_facts, copies_between_device_memory_do_not_make_the_host_wait)
{
    CUdeviceptr first  = allocate(size);
    CUdeviceptr second = allocate(size);
    CUstream blocking  = make_stream(CU_STREAM_DEFAULT);

    {
        blocker block(blocking);

        EXPECT_OK(cuMemsetD8(first, 1, size));
        EXPECT_OK(cuMemcpyDtoD(second, first, size));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
    }
    EXPECT_EQ(0x0101010101010101u, read(second));
    EXPECT_OK(cuStreamDestroy(blocking));
    release(first);
    release(second);
}
