/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cerrno>
#include <string>
#include <thread>

#include <sys/wait.h>

/*
 * What a test can do with the emulated driver: make calls fail, hold them and
 * the work of streams, and read counts.
 */

/* Only newer headers declare it */
extern "C" CUresult cuStreamGetDevice(CUstream, CUdevice *);

class cuda_switches : public cuda_test {
protected:
    static constexpr CUresult injected = CUDA_ERROR_SYSTEM_NOT_READY;
    static constexpr size_t size       = megabyte;

    void SetUp() override
    {
        REQUIRE_EMULATOR();
        cuda_test::SetUp();
        m_memory = allocate(size);
        m_stream = make_stream();
        m_event  = make_event();
    }

    void TearDown() override
    {
        if (emul_get() == nullptr) {
            return;
        }

        EXPECT_OK(cuEventDestroy(m_event));
        EXPECT_OK(cuStreamDestroy(m_stream));
        release(m_memory);
        cuda_test::TearDown();
    }

    bool reached()
    {
        return cuEventQuery(m_event) == CUDA_SUCCESS;
    }

    CUdeviceptr m_memory;
    CUstream    m_stream;
    CUevent     m_event;
};

/* Every function that has a hook, with arguments that it refuses or that do no
 * harm: an injected failure comes before it looks at them. */
#define EMUL_CALLS(_f) \
    _f(cuInit, 0) \
    _f(cuDriverGetVersion, nullptr) \
    _f(cuGetErrorName, CUDA_SUCCESS, nullptr) \
    _f(cuGetErrorString, CUDA_SUCCESS, nullptr) \
    _f(cuGetProcAddress, nullptr, nullptr, 0, 0, nullptr) \
    _f(cuDeviceGet, nullptr, 0) \
    _f(cuDeviceGetCount, nullptr) \
    _f(cuDeviceGetName, nullptr, 0, 0) \
    _f(cuDeviceGetUuid, nullptr, 0) \
    _f(cuDeviceTotalMem, nullptr, 0) \
    _f(cuDeviceGetAttribute, nullptr, none_attribute, 0) \
    _f(cuDeviceComputeCapability, nullptr, nullptr, 0) \
    _f(cuDeviceGetPCIBusId, nullptr, 0, 0) \
    _f(cuDeviceGetByPCIBusId, nullptr, nullptr) \
    _f(cuDeviceCanAccessPeer, nullptr, 0, 0) \
    _f(cuDeviceGetP2PAttribute, nullptr, none_p2p, 0, 0) \
    _f(cuDeviceGetDefaultMemPool, nullptr, 0) \
    _f(cuDeviceGetMemPool, nullptr, 0) \
    _f(cuDevicePrimaryCtxRetain, nullptr, 0) \
    _f(cuDevicePrimaryCtxRelease, -1) \
    _f(cuDevicePrimaryCtxReset, -1) \
    _f(cuDevicePrimaryCtxSetFlags, -1, 0) \
    _f(cuDevicePrimaryCtxGetState, -1, nullptr, nullptr) \
    _f(cuCtxDestroy, nullptr) \
    _f(cuCtxDetach, nullptr) \
    _f(cuCtxPushCurrent, nullptr) \
    _f(cuCtxPopCurrent, nullptr) \
    _f(cuCtxSetCurrent, nullptr) \
    _f(cuCtxGetCurrent, nullptr) \
    _f(cuCtxGetDevice, nullptr) \
    _f(cuCtxGetFlags, nullptr) \
    _f(cuCtxSetFlags, 0x1000) \
    _f(cuCtxGetId, nullptr, nullptr) \
    _f(cuCtxGetApiVersion, nullptr, nullptr) \
    _f(cuCtxSynchronize) \
    _f(cuCtxGetStreamPriorityRange, nullptr, nullptr) \
    _f(cuCtxEnablePeerAccess, nullptr, 0) \
    _f(cuCtxDisablePeerAccess, nullptr) \
    _f(cuStreamCreate, nullptr, 0) \
    _f(cuStreamCreateWithPriority, nullptr, 0, 0) \
    _f(cuStreamDestroy, nullptr) \
    _f(cuStreamSynchronize, nullptr) \
    _f(cuStreamQuery, nullptr) \
    _f(cuStreamWaitEvent, nullptr, nullptr, 0) \
    _f(cuStreamAddCallback, nullptr, nullptr, nullptr, 0) \
    _f(cuStreamGetFlags, nullptr, nullptr) \
    _f(cuStreamGetPriority, nullptr, nullptr) \
    _f(cuStreamGetId, nullptr, nullptr) \
    _f(cuStreamGetCtx, nullptr, nullptr) \
    _f(cuStreamGetDevice, nullptr, nullptr) \
    _f(cuStreamIsCapturing, nullptr, nullptr) \
    _f(cuLaunchHostFunc, nullptr, nullptr, nullptr) \
    _f(cuEventCreate, nullptr, 0) \
    _f(cuEventRecord, nullptr, nullptr) \
    _f(cuEventRecordWithFlags, nullptr, nullptr, 0) \
    _f(cuEventQuery, nullptr) \
    _f(cuEventSynchronize, nullptr) \
    _f(cuEventDestroy, nullptr) \
    _f(cuEventElapsedTime, nullptr, nullptr, nullptr) \
    _f(cuMemGetInfo, nullptr, nullptr) \
    _f(cuMemAlloc, nullptr, 0) \
    _f(cuMemAllocPitch, nullptr, nullptr, 0, 0, 0) \
    _f(cuMemAllocManaged, nullptr, 0, 0) \
    _f(cuMemAllocHost, nullptr, 0) \
    _f(cuMemHostAlloc, nullptr, 0, 0) \
    _f(cuMemFree, 0) \
    _f(cuMemFreeHost, nullptr) \
    _f(cuMemHostRegister, nullptr, 0, 0) \
    _f(cuMemHostUnregister, nullptr) \
    _f(cuMemHostGetDevicePointer, nullptr, nullptr, 0) \
    _f(cuMemHostGetFlags, nullptr, nullptr) \
    _f(cuMemGetAddressRange, nullptr, nullptr, 0) \
    _f(cuMemAllocAsync, nullptr, 0, nullptr) \
    _f(cuMemAllocFromPoolAsync, nullptr, 0, nullptr, nullptr) \
    _f(cuMemFreeAsync, 0, nullptr) \
    _f(cuMemPoolCreate, nullptr, nullptr) \
    _f(cuMemPoolDestroy, nullptr) \
    _f(cuMemPoolSetAccess, nullptr, nullptr, 0) \
    _f(cuMemPoolSetAttribute, nullptr, none_pool, nullptr) \
    _f(cuMemPoolTrimTo, nullptr, 0) \
    _f(cuMemPoolExportToShareableHandle, nullptr, nullptr, none_type, 0) \
    _f(cuMemPoolImportFromShareableHandle, nullptr, nullptr, none_type, 0) \
    _f(cuMemPoolExportPointer, nullptr, 0) \
    _f(cuMemPoolImportPointer, nullptr, nullptr, nullptr) \
    _f(cuMemAddressReserve, nullptr, 0, 0, 0, 0) \
    _f(cuMemAddressFree, 0, 0) \
    _f(cuMemCreate, nullptr, 0, nullptr, 0) \
    _f(cuMemRelease, 0) \
    _f(cuMemMap, 0, 0, 0, 0, 0) \
    _f(cuMemUnmap, 0, 0) \
    _f(cuMemSetAccess, 0, 0, nullptr, 0) \
    _f(cuMemGetAllocationGranularity, nullptr, nullptr, none_granularity) \
    _f(cuMemGetAllocationPropertiesFromHandle, nullptr, 0) \
    _f(cuMemRetainAllocationHandle, nullptr, nullptr) \
    _f(cuMemExportToShareableHandle, nullptr, 0, none_type, 0) \
    _f(cuMemImportFromShareableHandle, nullptr, nullptr, none_type) \
    _f(cuMemGetHandleForAddressRange, nullptr, 0, 0, none_range, 0) \
    _f(cuMemRangeGetAttribute, nullptr, 0, none_location, 0, 0) \
    _f(cuPointerGetAttribute, nullptr, none_pointer, 0) \
    _f(cuPointerGetAttributes, 0, nullptr, nullptr, 0) \
    _f(cuPointerSetAttribute, nullptr, none_pointer, 0) \
    _f(cuMemcpy, 0, 0, 1) \
    _f(cuMemcpyAsync, 0, 0, 1, nullptr) \
    _f(cuMemcpyPeer, 0, nullptr, 0, nullptr, 1) \
    _f(cuMemcpyPeerAsync, 0, nullptr, 0, nullptr, 1, nullptr) \
    _f(cuMemcpyHtoD, 0, nullptr, 1) \
    _f(cuMemcpyDtoH, nullptr, 0, 1) \
    _f(cuMemcpyDtoD, 0, 0, 1) \
    _f(cuMemcpyHtoDAsync, 0, nullptr, 1, nullptr) \
    _f(cuMemcpyDtoHAsync, nullptr, 0, 1, nullptr) \
    _f(cuMemcpyDtoDAsync, 0, 0, 1, nullptr) \
    _f(cuMemsetD8, 0, 0, 1) \
    _f(cuMemsetD16, 0, 0, 1) \
    _f(cuMemsetD32, 0, 0, 1) \
    _f(cuMemsetD8Async, 0, 0, 1, nullptr) \
    _f(cuMemsetD16Async, 0, 0, 1, nullptr) \
    _f(cuMemsetD32Async, 0, 0, 1, nullptr) \
    _f(cuIpcGetMemHandle, nullptr, 0) \
    _f(cuIpcOpenMemHandle, nullptr, none_handle, 0) \
    _f(cuIpcCloseMemHandle, 0) \
    _f(cuModuleGetGlobal, nullptr, nullptr, nullptr, nullptr) \
    _f(cuLibraryGetGlobal, nullptr, nullptr, nullptr, nullptr)

#if CUDA_VERSION >= 13000
#define CREATE_CONTEXT() cuCtxCreate(nullptr, nullptr, 0, 0)
#else
#define CREATE_CONTEXT() cuCtxCreate(nullptr, 0, 0)
#endif

static const CUdevice_attribute none_attribute                = {};
static const CUdevice_P2PAttribute none_p2p                   = {};
static const CUmemPool_attribute none_pool                    = {};
static const CUmemAllocationHandleType none_type              = {};
static const CUmemAllocationGranularity_flags none_granularity = {};
static const CUmemRangeHandleType none_range                  = {};
static const CUmem_range_attribute none_location              = {};
static const CUpointer_attribute none_pointer                 = {};
static const CUipcMemHandle none_handle                       = {};

struct hooked_call {
    const char *name;
    CUresult   (*call)();
};

static const hooked_call hooked_calls[] = {
    {"cuCtxCreate", [] { return CREATE_CONTEXT(); }},
#define EMUL_CALL(_name, ...) \
    {#_name, []() -> CUresult { return _name(__VA_ARGS__); }},
    EMUL_CALLS(EMUL_CALL)
#undef EMUL_CALL
};

TEST_F(cuda_switches, every_function_fails_at_the_nth_call)
{
    for (auto &f : hooked_calls) {
        SCOPED_TRACE(f.name);
        fail(f.name, 2, 2, injected);
        EXPECT_NE(injected, f.call());
        EXPECT_EQ(injected, f.call());
        EXPECT_EQ(injected, f.call());
        EXPECT_OK(cuCtxSetCurrent(primary()));
        EXPECT_NE(injected, f.call());
        EXPECT_OK(cuCtxSetCurrent(primary()));
    }
}

TEST_F(cuda_switches, every_function_waits_at_its_gate)
{
    for (auto &f : hooked_calls) {
        SCOPED_TRACE(f.name);
        int64_t before = calls(f.name);

        close_gate(f.name);
        std::thread caller([&f] {
            EXPECT_NE(injected, f.call());
        });
        EXPECT_TRUE(eventually([&f] { return waiters(f.name) == 1; }));
        open_gate(f.name);
        caller.join();
        EXPECT_EQ(0, waiters(f.name));
        EXPECT_EQ(before + 1, calls(f.name));
    }
}

TEST_F(cuda_switches, an_injected_failure_does_nothing)
{
    CUdeviceptr pointer = 5;

    fail("cuMemAlloc", 1, 1, injected);
    EXPECT_EQ(injected, cuMemAlloc(&pointer, size));
    EXPECT_EQ(5u, pointer);
    EXPECT_EQ(1, count(EMUL_COUNT_ALLOCATIONS)); /* the fixture's */
}

TEST_F(cuda_switches, gate_of_a_stream_holds_its_work_and_nobody_else)
{
    std::string gate = gate_of(m_stream);
    CUstream second  = make_stream();
    CUevent other    = make_event();

    close_gate(gate);
    EXPECT_OK(cuMemsetD8Async(m_memory, 1, size, m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_OK(cuMemsetD8Async(m_memory, 2, size, second));
    EXPECT_OK(cuEventRecord(other, second));
    EXPECT_OK(cuEventSynchronize(other));

    EXPECT_TRUE(eventually([&gate] { return waiters(gate.c_str()) == 1; }));
    EXPECT_FALSE(reached());
    EXPECT_EQ(0x0202020202020202u, read(m_memory));
    open_gate(gate);
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(0x0101010101010101u, read(m_memory));
    EXPECT_OK(cuEventDestroy(other));
    EXPECT_OK(cuStreamDestroy(second));
}

TEST_F(cuda_switches, gate_of_a_stream_holds_even_an_event_of_an_idle_one)
{
    close_gate(gate_of(m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_FALSE(reached());
    open_gate(gate_of(m_stream));
    EXPECT_OK(cuEventSynchronize(m_event));
}

TEST_F(cuda_switches, exactly_so_many_operations_pass)
{
    std::string gate = gate_of(m_stream);
    CUevent events[4];

    close_gate(gate);
    for (CUevent &event : events) {
        event = make_event();
        EXPECT_OK(cuEventRecord(event, m_stream));
    }

    pass_gate(gate, 1);
    EXPECT_OK(cuEventSynchronize(events[0]));
    pass_gate(gate, 2);
    EXPECT_OK(cuEventSynchronize(events[2]));
    EXPECT_TRUE(eventually([&gate] { return waiters(gate.c_str()) == 1; }));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(events[3]));
    EXPECT_EQ(3, calls(gate.c_str()) - 1); /* the fourth has begun to wait */

    /* those that come later can be let through before */
    pass_gate(gate, 2);
    EXPECT_OK(cuEventSynchronize(events[3]));
    EXPECT_OK(cuEventRecord(events[0], m_stream));
    EXPECT_OK(cuEventRecord(events[1], m_stream));
    EXPECT_OK(cuEventSynchronize(events[0]));
    EXPECT_TRUE(eventually([&gate] { return waiters(gate.c_str()) == 1; }));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(events[1]));
    open_gate(gate);

    for (CUevent event : events) {
        EXPECT_OK(cuEventSynchronize(event));
        EXPECT_OK(cuEventDestroy(event));
    }
}

TEST_F(cuda_switches, nobody_passes_through_what_is_not_closed)
{
    EXPECT_EQ(-ENOENT, api().gate_pass(getpid(), "copy", 1));
    EXPECT_EQ(-EINVAL, api().gate_pass(getpid(), "nothing", 1));

    /* what is left is forgotten */
    close_gate("copy");
    pass_gate("copy", 5);
    open_gate("copy");
    close_gate("copy");
    EXPECT_OK(cuMemcpyAsync(m_memory, m_memory + 8, 8, m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_TRUE(eventually([] { return waiters("copy") == 1; }));
    EXPECT_FALSE(reached());
    open_gate("copy");
    EXPECT_OK(cuEventSynchronize(m_event));
}

TEST_F(cuda_switches, gates_for_one_and_for_all_are_both_passed)
{
    close_gate("copy");
    close_gate("copy", EMUL_ANY_PROCESS);
    EXPECT_OK(cuMemcpyAsync(m_memory, m_memory + 8, 8, m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    pass_gate("copy", 1);
    EXPECT_TRUE(eventually([] { return waiters("copy") == 1; }));
    EXPECT_FALSE(reached());
    EXPECT_EQ(0, api().gate_pass(EMUL_ANY_PROCESS, "copy", 1));
    EXPECT_OK(cuEventSynchronize(m_event));
    open_gate("copy");
    open_gate("copy", EMUL_ANY_PROCESS);
}

TEST_F(cuda_switches, gate_of_copies_lets_other_work_pass)
{
    CUstream second = make_stream();
    CUevent other   = make_event();

    close_gate("copy");
    EXPECT_OK(cuMemcpyAsync(m_memory, m_memory + 8, 8, m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_OK(cuMemsetD8Async(m_memory + 16, 0, 8, second));
    EXPECT_OK(cuEventRecord(other, second));
    EXPECT_OK(cuEventSynchronize(other));
    EXPECT_TRUE(eventually([] { return count(EMUL_COUNT_COPIES_HELD) == 1; }));
    EXPECT_EQ(1, count(EMUL_COUNT_COPIES));
    EXPECT_FALSE(reached());
    EXPECT_EQ(0u, read(m_memory + 16)); /* copies that are waited for pass */
    open_gate("copy");
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(0, count(EMUL_COUNT_COPIES));
    EXPECT_OK(cuEventDestroy(other));
    EXPECT_OK(cuStreamDestroy(second));
}

TEST_F(cuda_switches, gate_of_callbacks)
{
    static std::atomic<int> called;

    called.store(0);
    close_gate("callback");
    EXPECT_OK(cuLaunchHostFunc(m_stream, [](void *) { ++called; }, nullptr));
    EXPECT_OK(cuStreamAddCallback(
            m_stream, [](CUstream, CUresult, void *) { ++called; }, nullptr,
            0));
    EXPECT_EQ(2, count(EMUL_COUNT_CALLBACKS));
    EXPECT_TRUE(eventually([] { return waiters("callback") == 1; }));
    EXPECT_EQ(0, called.load());
    pass_gate("callback", 1);
    EXPECT_TRUE(eventually([] { return waiters("callback") == 1; }));
    EXPECT_TRUE(eventually([] { return called.load() == 1; }));
    EXPECT_TRUE(eventually([] { return count(EMUL_COUNT_CALLBACKS) == 1; }));
    open_gate("callback");
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ(2, called.load());
}

TEST_F(cuda_switches, default_streams_have_a_gate_too)
{
    close_gate("stream-0");
    EXPECT_OK(cuMemcpyAsync(m_memory, m_memory + 8, 8, nullptr));
    EXPECT_OK(cuEventRecord(m_event, nullptr));
    EXPECT_FALSE(reached());
    open_gate("stream-0");
    EXPECT_OK(cuEventSynchronize(m_event));
}

TEST_F(cuda_switches, operations_of_a_stream_are_counted)
{
    std::string gate = gate_of(m_stream);

    EXPECT_EQ(0, calls(gate.c_str()));
    EXPECT_OK(cuMemsetD8Async(m_memory, 0, 8, m_stream));
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ(2, calls(gate.c_str()));
}

/* Nothing can be called any more, in no context; but what there is can be asked
 * for */
static void expect_broken(CUresult error)
{
    CUdeviceptr pointer;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdevice device;

    EXPECT_EQ(error, cuCtxSynchronize());
    EXPECT_EQ(error, cuMemAlloc(&pointer, 8));
    EXPECT_EQ(error, cuMemFree(1));
    EXPECT_EQ(error, cuStreamCreate(&stream, 0));
    EXPECT_EQ(error, cuStreamQuery(nullptr));
    EXPECT_EQ(error, cuEventCreate(&event, 0));
#if CUDA_VERSION >= 13000
    EXPECT_EQ(error, cuCtxCreate(&context, nullptr, 0, 0));
#else
    EXPECT_EQ(error, cuCtxCreate(&context, 0, 0));
#endif
    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT_OK(cuCtxPushCurrent(context));
    EXPECT_OK(cuCtxGetDevice(&device));
}

using cuda_switches_death = cuda_switches;

TEST_F(cuda_switches_death, copy_that_fails_breaks_the_process)
{
    EXPECT_IN_CHILD([this] {
        CUcontext own = make_context();

        EXPECT_OK(cuCtxSetCurrent(primary()));
        fail("copy", 1, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
        EXPECT_OK(cuEventRecord(m_event, m_stream));
        EXPECT_OK(cuMemcpyAsync(m_memory, m_memory + 8, 8, m_stream));
        EXPECT_TRUE(eventually([this] {
            return cuEventQuery(m_event) == CUDA_ERROR_ECC_UNCORRECTABLE;
        }));
        EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuEventDestroy(m_event));
        EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuStreamDestroy(m_stream));
        expect_broken(CUDA_ERROR_ECC_UNCORRECTABLE);
        EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuCtxDestroy(own));
        EXPECT_OK(cuCtxSetCurrent(own));
        expect_broken(CUDA_ERROR_ECC_UNCORRECTABLE);
    });
}

TEST_F(cuda_switches_death, memory_that_is_gone_when_a_copy_comes_to_it)
{
    EXPECT_IN_CHILD([this] {
        CUstream second     = make_stream();
        CUdeviceptr pointer = 0;

        EXPECT_OK(cuMemAllocAsync(&pointer, size, second));
        close_gate(gate_of(m_stream));
        EXPECT_OK(cuMemcpyAsync(m_memory, pointer, 8, m_stream));
        EXPECT_OK(cuMemsetD8Async(pointer, 0, 8, m_stream));
        EXPECT_OK(cuEventRecord(m_event, m_stream));
        EXPECT_OK(cuMemFreeAsync(pointer, second));
        EXPECT_OK(cuStreamSynchronize(second));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
        open_gate(gate_of(m_stream));
        EXPECT_TRUE(eventually([this] {
            return cuEventQuery(m_event) == CUDA_ERROR_ILLEGAL_ADDRESS;
        }));
        expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

TEST_F(cuda_switches, errors_can_be_kept_to_their_context)
{
    set("EMUL_ERROR_SCOPE", "context");
    CUcontext own      = make_context();
    CUstream stream    = make_stream();
    CUevent event      = make_event();
    CUdeviceptr memory = allocate(size);
    static std::atomic<int> told;
    static std::atomic<bool> called;

    told.store(0);
    called.store(false);
    fail("copy", 2, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
    close_gate(gate_of(stream));
    EXPECT_OK(cuMemcpyAsync(memory, memory + 8, 8, stream));
    EXPECT_OK(cuMemcpyAsync(memory, memory + 8, 8, stream));
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuStreamAddCallback(
            stream,
            [](CUstream, CUresult status, void *) { told.store(status); },
            nullptr, 0));
    EXPECT_OK(cuLaunchHostFunc(
            stream, [](void *) { called.store(true); }, nullptr));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    open_gate(gate_of(stream));

    EXPECT_TRUE(eventually([event] {
        return cuEventQuery(event) == CUDA_ERROR_ECC_UNCORRECTABLE;
    }));
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuEventSynchronize(event));
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuStreamSynchronize(stream));
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, cuMemFree(memory));
    EXPECT_TRUE(eventually([] { return count(EMUL_COUNT_CALLBACKS) == 0; }));
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, told.load());
    EXPECT_FALSE(called.load());
    EXPECT_OK(cuCtxDestroy(own));
    EXPECT_OK(cuCtxSynchronize());
}

TEST_F(cuda_switches, operation_of_a_stream_that_fails_breaks_its_context)
{
    set("EMUL_ERROR_SCOPE", "context");
    CUcontext own   = make_context();
    CUstream stream = make_stream();
    CUevent event   = make_event();

    fail(gate_of(stream).c_str(), 2, 1, CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_TRUE(eventually([event] {
        return cuEventQuery(event) == CUDA_ERROR_LAUNCH_FAILED;
    }));
    EXPECT_OK(cuCtxDestroy(own));
}

TEST_F(cuda_switches, host_functions_cannot_call_the_driver)
{
    static std::atomic<int> status;

    status.store(-1);
    EXPECT_OK(cuLaunchHostFunc(
            m_stream, [](void *) { status.store(cuStreamQuery(nullptr)); },
            nullptr));
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, status.load());
}

TEST_F(cuda_switches, slow_link)
{
    CUevent from = make_event(CU_EVENT_DEFAULT);
    CUevent to   = make_event(CU_EVENT_DEFAULT);
    float milliseconds = 0;

    set("EMUL_COPY_BANDWIDTH", "100m");
    set("EMUL_COPY_LATENCY", "2000");
    EXPECT_OK(cuEventRecord(from, m_stream));
    EXPECT_OK(cuMemcpyAsync(m_memory, m_memory, size, m_stream));
    EXPECT_OK(cuEventRecord(to, m_stream));
    EXPECT_OK(cuEventSynchronize(to));
    EXPECT_OK(cuEventElapsedTime(&milliseconds, from, to));
    EXPECT_GE(milliseconds, 11.5);
    EXPECT_OK(cuEventDestroy(from));
    EXPECT_OK(cuEventDestroy(to));
}

TEST_F(cuda_switches, leak_report)
{
    static const char *const things[] = {
        "context", "allocation", "managed allocation", "host allocation",
        "stream-ordered allocation", "stream", "event"
    };
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "leaks"},
                             {"EMUL_LEAK_REPORT=stderr"}, &output));
    for (const char *thing : things) {
        EXPECT_NE(std::string::npos,
                  output.find(std::string(": leak: ") + thing))
                << thing << " in: " << output;
    }

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "leaks-nothing"},
                             {"EMUL_LEAK_REPORT=stderr"}, &output));
    EXPECT_EQ("", output);
}

TEST_F(cuda_switches, trace)
{
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "leaks-nothing"},
                             {"EMUL_TRACE=y"}, &output));
    EXPECT_NE(std::string::npos, output.find("cuInit called"));
    EXPECT_NE(std::string::npos, output.find("cuInit -> 0"));
}

TEST_F(cuda_switches, what_is_not_emulated_ends_the_program)
{
    std::string output;

    EXPECT_NE(0, run_program({"/proc/self/exe", "--program", "not-emulated"},
                             {}, &output));
    EXPECT_NE(std::string::npos,
              output.find("cuProfilerStop is not emulated"));
}

TEST_F(cuda_switches, other_numbers_of_gpus)
{
    std::string output;

    EXPECT_EQ(CUDA_ERROR_NO_DEVICE,
              WEXITSTATUS(run_program(
                      {"/proc/self/exe", "--program", "leaks-nothing"},
                      {"EMUL_NODE=" + new_node(), "EMUL_GPUS=0"},
                      &output))) << output;
}

TEST_F(cuda_switches, unknown_names_are_refused)
{
    int64_t value;

    EXPECT_EQ(-EINVAL, api().fail(getpid(), "cuMemAlloc_v2", 1, 1, 1));
    EXPECT_EQ(-EINVAL, api().gate_close(getpid(), "stream-99999"));
    EXPECT_EQ(-EINVAL, api().calls(getpid(), "copy", &value));
    EXPECT_EQ(-EINVAL, api().gate_waiters(getpid(), "stream-", &value));
}
