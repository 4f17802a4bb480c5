/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_peer.h"
#include "cuda_test.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>
#include <vector>

/*
 * The runtime, on top of the driver.
 */

#define EXPECT_RT(_call) EXPECT_EQ(cudaSuccess, (_call))

class cudart : public cuda_test {
protected:
    static constexpr size_t size = megabyte;

    void SetUp() override
    {
        cuda_test::SetUp();
        EXPECT_RT(cudaSetDevice(0));
        EXPECT_RT(cudaMalloc(&m_memory, size));
    }

    void TearDown() override
    {
        EXPECT_RT(cudaFree(m_memory));
        cudaGetLastError();
        cuda_test::TearDown();
    }

    static cudaPointerAttributes attributes(const void *pointer)
    {
        cudaPointerAttributes a = {};

        EXPECT_RT(cudaPointerGetAttributes(&a, pointer));
        return a;
    }

    void *m_memory;
};

TEST_F(cudart, devices)
{
    int count = 0, drivers = 0, device = -1, version = 0, value = 0;
    cudaDeviceProp properties;
    char bus[32] = "";

    EXPECT_RT(cudaGetDeviceCount(&count));
    EXPECT_OK(cuDeviceGetCount(&drivers));
    EXPECT_EQ(drivers, count);
    EXPECT_RT(cudaGetDevice(&device));
    EXPECT_EQ(0, device);
    EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(count));
    EXPECT_RT(cudaDriverGetVersion(&version));
    EXPECT_GE(version, 12000);
    EXPECT_RT(cudaRuntimeGetVersion(&version));
    EXPECT_EQ(CUDART_VERSION / 1000, version / 1000);

    EXPECT_RT(cudaGetDeviceProperties(&properties, 0));
    EXPECT_EQ(32, properties.warpSize);
    EXPECT_GT(properties.totalGlobalMem, 0u);
    EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrUnifiedAddressing, 0));
    EXPECT_EQ(1, value);
    EXPECT_RT(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0));
    EXPECT_RT(cudaDeviceGetByPCIBusId(&device, bus));
    EXPECT_EQ(0, device);
}

TEST_F(cudart, uses_the_primary_context_of_the_driver)
{
    CUcontext current = nullptr;

    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(primary(), current);
    std::thread([] {
        CUcontext here = nullptr;

        EXPECT_RT(cudaFree(nullptr));
        EXPECT_OK(cuCtxGetCurrent(&here));
        EXPECT_EQ(primary(), here);
    }).join();
}

TEST_F(cudart, uses_a_context_that_is_current_already)
{
    CUcontext own   = make_context();
    CUcontext owner = nullptr;
    void *pointer   = nullptr;

    EXPECT_RT(cudaMalloc(&pointer, size));
    EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    CUdeviceptr(pointer)));
    EXPECT_EQ(own, owner);
    EXPECT_RT(cudaFree(pointer));
    EXPECT_OK(cuCtxDestroy(own));
}

TEST_F(cudart, begins_without_anything)
{
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "runtime-is-lazy"},
                             {}, &output)) << output;
}

TEST_F(cudart, last_error_is_kept_until_it_is_asked_for)
{
    void *pointer = m_memory;

    EXPECT_EQ(cudaErrorInvalidValue, cudaMalloc(nullptr, size));
    EXPECT_RT(cudaMemset(pointer, 0, 8));
    EXPECT_EQ(cudaErrorInvalidValue, cudaPeekAtLastError());
    EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
    EXPECT_STREQ("invalid argument", cudaGetErrorString(cudaErrorInvalidValue));
    EXPECT_STREQ("out of memory",
                 cudaGetErrorString(cudaErrorMemoryAllocation));
    EXPECT_STREQ("unrecognized error code",
                 cudaGetErrorString(cudaError_t(123456)));
}

TEST_F(cudart, kinds_of_memory)
{
    void *managed = nullptr, *host = nullptr, *pinned = nullptr;
    size_t pitch = 0;
    void *pitched = nullptr;
    std::vector<char> pageable(size);

    EXPECT_EQ(cudaMemoryTypeDevice, attributes(m_memory).type);
    EXPECT_EQ(m_memory, attributes(m_memory).devicePointer);
    EXPECT_EQ(nullptr, attributes(m_memory).hostPointer);

    EXPECT_RT(cudaMallocManaged(&managed, size, cudaMemAttachGlobal));
    EXPECT_EQ(cudaMemoryTypeManaged, attributes(managed).type);
    EXPECT_RT(cudaFree(managed));

    EXPECT_RT(cudaMallocHost(&host, size));
    EXPECT_EQ(cudaMemoryTypeHost, attributes(host).type);
    EXPECT_EQ(host, attributes(host).hostPointer);
    EXPECT_RT(cudaFreeHost(host));

    EXPECT_RT(cudaHostAlloc(&pinned, size, cudaHostAllocMapped));
    EXPECT_RT(cudaHostGetDevicePointer(&host, pinned, 0));
    EXPECT_EQ(pinned, host);
    EXPECT_RT(cudaFreeHost(pinned));

    EXPECT_RT(cudaMallocPitch(&pitched, &pitch, 100, 10));
    EXPECT_GE(pitch, 100u);
    EXPECT_RT(cudaFree(pitched));

    EXPECT_EQ(cudaMemoryTypeUnregistered, attributes(pageable.data()).type);
    EXPECT_RT(cudaHostRegister(pageable.data(), size, cudaHostRegisterDefault));
    EXPECT_EQ(cudaMemoryTypeHost, attributes(pageable.data()).type);
    EXPECT_RT(cudaHostUnregister(pageable.data()));
}

TEST_F(cudart, nothing_is_no_memory)
{
    void *pointer = &pointer;

    EXPECT_RT(cudaMalloc(&pointer, 0));
    EXPECT_EQ(nullptr, pointer);
    EXPECT_RT(cudaFree(nullptr));
    EXPECT_RT(cudaFreeHost(nullptr));
}

TEST_F(cudart, copies_and_fills)
{
    std::vector<char> in(size, 'i'), out(size);
    cudaStream_t stream;

    EXPECT_RT(cudaStreamCreate(&stream));
    EXPECT_RT(cudaMemcpy(m_memory, in.data(), size, cudaMemcpyHostToDevice));
    EXPECT_RT(cudaMemcpy(out.data(), m_memory, size, cudaMemcpyDefault));
    EXPECT_EQ(in, out);
    EXPECT_RT(cudaMemset(m_memory, 'x', size));
    EXPECT_RT(cudaMemcpy(out.data(), m_memory, size, cudaMemcpyDeviceToHost));
    EXPECT_EQ('x', out[size - 1]);

    EXPECT_RT(cudaMemcpyAsync(m_memory, in.data(), size, cudaMemcpyDefault,
                              stream));
    EXPECT_RT(cudaMemsetAsync(m_memory, 'y', 1, stream));
    EXPECT_RT(cudaMemcpyAsync(out.data(), m_memory, size,
                              cudaMemcpyDeviceToHost, stream));
    EXPECT_RT(cudaStreamSynchronize(stream));
    EXPECT_EQ('y', out[0]);
    EXPECT_EQ('i', out[1]);
    EXPECT_EQ(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy(m_memory, in.data(), 1, cudaMemcpyKind(77)));
    EXPECT_RT(cudaStreamDestroy(stream));
}

TEST_F(cudart, streams_and_events)
{
    cudaStream_t stream;
    cudaEvent_t event, timed;
    float milliseconds = -1;
    unsigned flags     = 0;
    static cudaStream_t seen;

    seen = nullptr;
    EXPECT_RT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    EXPECT_RT(cudaStreamGetFlags(stream, &flags));
    EXPECT_EQ(unsigned(cudaStreamNonBlocking), flags);
    EXPECT_RT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    EXPECT_RT(cudaEventCreate(&timed));
    EXPECT_RT(cudaEventRecord(timed, stream));
    {
        blocker block(stream);

        EXPECT_RT(cudaEventRecord(event, stream));
        EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event));
        EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(stream));
    }
    EXPECT_RT(cudaEventSynchronize(event));
    EXPECT_RT(cudaEventQuery(event));
    EXPECT_RT(cudaStreamWaitEvent(stream, event, 0));
    EXPECT_RT(cudaStreamAddCallback(
            stream,
            [](cudaStream_t s, cudaError_t status, void *) {
                EXPECT_EQ(cudaSuccess, status);
                seen = s;
            }, nullptr, 0));
    EXPECT_RT(cudaDeviceSynchronize());
    EXPECT_EQ(stream, seen);
    EXPECT_RT(cudaEventElapsedTime(&milliseconds, timed, timed));
    EXPECT_EQ(0, milliseconds);
    EXPECT_RT(cudaEventDestroy(event));
    EXPECT_RT(cudaEventDestroy(timed));
    EXPECT_RT(cudaStreamDestroy(stream));
}

TEST_F(cudart, stream_ordered_memory)
{
    cudaStream_t stream;
    cudaMemPool_t pool = nullptr;
    void *pointer      = nullptr;

    EXPECT_RT(cudaStreamCreate(&stream));
    EXPECT_RT(cudaMallocAsync(&pointer, size, stream));
    EXPECT_RT(cudaFreeAsync(pointer, stream));
    EXPECT_RT(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_RT(cudaMallocFromPoolAsync(&pointer, size, pool, stream));
    EXPECT_RT(cudaFreeAsync(pointer, stream));
    EXPECT_RT(cudaStreamSynchronize(stream));
    EXPECT_RT(cudaStreamDestroy(stream));
}

TEST_F(cudart, sharing_between_processes)
{
    cuda_peer peer;
    cudaIpcMemHandle_t handle;
    CUipcMemHandle bytes;
    uint64_t value = 42;
    void *opened;

    EXPECT_RT(cudaMemcpy(m_memory, &value, 8, cudaMemcpyDefault));
    EXPECT_RT(cudaIpcGetMemHandle(&handle, m_memory));
    memcpy(&bytes, &handle, sizeof(bytes));
    uint64_t there = peer.ask(cuda_verb::open, 0, 0, &bytes).value;
    EXPECT_EQ(42u, peer.ask(cuda_verb::read, there).value);
    EXPECT_OK(peer.ask(cuda_verb::close, there).status);

    uint64_t at_peer = peer.ask(cuda_verb::allocate, size).value;
    bytes            = peer.ask(cuda_verb::export_ipc, at_peer).handle;
    memcpy(&handle, &bytes, sizeof(handle));
    EXPECT_RT(cudaIpcOpenMemHandle(&opened, handle,
                                   cudaIpcMemLazyEnablePeerAccess));
    EXPECT_RT(cudaIpcCloseMemHandle(opened));
    EXPECT_EQ(cudaErrorInvalidValue, cudaIpcCloseMemHandle(opened));
}

TEST_F(cudart, reset_takes_all_away)
{
    void *pointer;

    REQUIRE_DEVICES(2);
    EXPECT_RT(cudaSetDevice(1));
    EXPECT_RT(cudaMalloc(&pointer, size));
    EXPECT_RT(cudaDeviceReset());
    EXPECT_RT(cudaMalloc(&pointer, size)); /* there is a context again */
    EXPECT_RT(cudaDeviceReset());
    EXPECT_RT(cudaSetDevice(0));
}

TEST_F(cudart, calls_the_exported_functions_of_the_driver)
{
    REQUIRE_EMULATOR();
    int64_t before = calls("cuMemAlloc");
    void *pointer;

    EXPECT_RT(cudaMalloc(&pointer, size));
    EXPECT_EQ(before + 1, calls("cuMemAlloc"));
    fail("cuMemFree", 1, 1, CUDA_ERROR_SYSTEM_NOT_READY);
    EXPECT_EQ(cudaErrorSystemNotReady, cudaFree(pointer));
    EXPECT_RT(cudaFree(pointer));
}

TEST_F(cudart, functions_fail_and_wait_as_they_are_told)
{
    REQUIRE_EMULATOR();
    int64_t before = calls("cudaMemGetInfo");
    size_t available, total;

    fail("cudaMemGetInfo", 2, 1, cudaErrorSystemNotReady);
    EXPECT_RT(cudaMemGetInfo(&available, &total));
    EXPECT_EQ(cudaErrorSystemNotReady, cudaMemGetInfo(&available, &total));
    EXPECT_EQ(cudaErrorSystemNotReady, cudaGetLastError());

    close_gate("cudaMemGetInfo");
    std::thread caller([&] { EXPECT_RT(cudaMemGetInfo(&available, &total)); });
    EXPECT_TRUE(eventually([] { return waiters("cudaMemGetInfo") == 1; }));
    open_gate("cudaMemGetInfo");
    caller.join();
    EXPECT_EQ(before + 3, calls("cudaMemGetInfo"));
}

TEST_F(cudart, knows_no_symbols)
{
    void *address;
    size_t length;
    int variable = 0;

    EXPECT_EQ(cudaErrorInvalidSymbol,
              cudaGetSymbolAddress(&address, &variable));
    EXPECT_EQ(cudaErrorInvalidSymbol, cudaGetSymbolSize(&length, &variable));
}
