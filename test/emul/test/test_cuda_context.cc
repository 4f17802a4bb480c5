/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cstdlib>
#include <cstring>
#include <thread>

/*
 * Devices and contexts.
 */

class cuda_context : public cuda_test {
protected:
    static CUcontext current()
    {
        CUcontext context = nullptr;

        EXPECT_OK(cuCtxGetCurrent(&context));
        return context;
    }

    static bool primary_is_active(int device = 0)
    {
        unsigned flags = 0;
        int active     = -1;

        EXPECT_OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
        return active != 0;
    }
};

using cuda_context_death = cuda_context;

TEST_F(cuda_context, devices)
{
    int count = 0, version = 0, value = 0, major = 0, minor = -1;
    char name[64] = "", bus[32] = "";
    CUdevice device;
    CUuuid uuid;
    size_t memory = 0;

    EXPECT_OK(cuDeviceGetCount(&count));
    ASSERT_GT(count, 0);
    EXPECT_OK(cuDeviceGet(&device, 0));
    EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
    EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    EXPECT_OK(cuDriverGetVersion(&version));
    EXPECT_GE(version, 12000);

    EXPECT_OK(cuDeviceGetName(name, sizeof(name), 0));
    EXPECT_NE('\0', name[0]);
    EXPECT_OK(cuDeviceTotalMem(&memory, 0));
    EXPECT_GT(memory, 0u);
    EXPECT_OK(cuDeviceGetUuid(&uuid, 0));
    EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    EXPECT_EQ(32, value);
    EXPECT_OK(cuDeviceGetAttribute(
            &value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    EXPECT_EQ(1, value);
    EXPECT_OK(cuDeviceGetAttribute(
            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_GE(major, 7);
    EXPECT_OK(cuDeviceGetAttribute(
            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    EXPECT_INVALID(cuDeviceGetAttribute(&value, CUdevice_attribute(9999), 0));

    EXPECT_OK(cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
    EXPECT_OK(cuDeviceGetByPCIBusId(&device, bus));
    EXPECT_EQ(0, device);
    EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
    EXPECT_EQ(value, int(strtol(bus + 5, nullptr, 16)));
}

TEST_F(cuda_context, two_devices)
{
    CUuuid uuid[2];
    int value = 0;

    REQUIRE_DEVICES(2);
    EXPECT_OK(cuDeviceCanAccessPeer(&value, 0, 1));
    EXPECT_EQ(1, value);
    EXPECT_OK(cuDeviceGetP2PAttribute(
            &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    EXPECT_EQ(1, value);
    EXPECT_OK(cuDeviceGetUuid(&uuid[0], 0));
    EXPECT_OK(cuDeviceGetUuid(&uuid[1], 1));
    EXPECT_NE(0, memcmp(&uuid[0], &uuid[1], sizeof(uuid[0])));

    CUcontext own    = make_context(1);
    CUdeviceptr here = allocate(kilobyte);
    int device       = -1;

    write(here, 5);
    EXPECT_OK(cuCtxGetDevice(&device));
    EXPECT_EQ(1, device);
    EXPECT_OK(cuPointerGetAttribute(
            &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here));
    EXPECT_EQ(1, device);

    /* from one device to the other */
    EXPECT_OK(cuCtxSetCurrent(primary()));
    CUdeviceptr there = allocate(kilobyte);
    EXPECT_OK(cuCtxEnablePeerAccess(own, 0));
    EXPECT_OK(cuMemcpyPeer(there, primary(), here, own, 8));
    EXPECT_EQ(5u, read(there));
    EXPECT_OK(cuCtxDisablePeerAccess(own));
    release(there);

    EXPECT_OK(cuCtxSetCurrent(own));
    release(here);
    EXPECT_OK(cuCtxDestroy(own));
}

TEST_F(cuda_context, stack)
{
    CUcontext popped;
    CUcontext own = make_context(); /* pushes it */

    EXPECT_EQ(own, current());
    EXPECT_OK(cuCtxPushCurrent(primary()));
    EXPECT_EQ(primary(), current());
    EXPECT_OK(cuCtxPopCurrent(&popped));
    EXPECT_EQ(primary(), popped);
    EXPECT_EQ(own, current());

    EXPECT_OK(cuCtxDestroy(own)); /* pops it */
    EXPECT_EQ(primary(), current());
    EXPECT_OK(cuCtxSetCurrent(nullptr));
    EXPECT_EQ(nullptr, current());
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&popped));
}

TEST_F(cuda_context, is_each_threads_own)
{
    std::thread([] {
        CUdeviceptr pointer;
        CUdevice device;

        EXPECT_EQ(nullptr, current());
        EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&pointer, kilobyte));
        EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
        EXPECT_OK(cuCtxSetCurrent(primary()));
        release(allocate(kilobyte));
    }).join();
}

TEST_F(cuda_context, primary_one_is_counted)
{
    CUcontext first = nullptr, second = nullptr;

    REQUIRE_DEVICES(2);
    EXPECT_FALSE(primary_is_active(1));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&first, 1));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&second, 1));
    EXPECT_EQ(first, second);
    EXPECT_TRUE(primary_is_active(1));
    EXPECT_OK(cuDevicePrimaryCtxRelease(1));
    EXPECT_TRUE(primary_is_active(1));
    EXPECT_OK(cuDevicePrimaryCtxRelease(1));
    EXPECT_FALSE(primary_is_active(1));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1));
}

TEST_F(cuda_context, primary_one_can_be_reset)
{
    CUcontext context = nullptr;
    CUdeviceptr pointer;

    REQUIRE_DEVICES(2);
    EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 1));
    EXPECT_OK(cuCtxPushCurrent(context));
    allocate(kilobyte);
    make_stream();
    make_event();
    EXPECT_OK(cuDevicePrimaryCtxReset(1));
    EXPECT_FALSE(primary_is_active(1));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&pointer, kilobyte));
    EXPECT_OK(cuCtxPopCurrent(&context));
}

TEST_F(cuda_context, flags)
{
    CUcontext own  = make_context(0, CU_CTX_SCHED_YIELD);
    unsigned flags = 0;
    int active;

    EXPECT_OK(cuCtxGetFlags(&flags));
    EXPECT_EQ(unsigned(CU_CTX_SCHED_YIELD), flags & CU_CTX_SCHED_MASK);
    EXPECT_OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
    EXPECT_OK(cuCtxGetFlags(&flags));
    EXPECT_TRUE(flags & CU_CTX_SYNC_MEMOPS);
    EXPECT_INVALID(cuCtxSetFlags(0x1000));
    EXPECT_OK(cuCtxDestroy(own));

    EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(1, active);
}

TEST_F(cuda_context, id_and_version)
{
    CUcontext own = make_context();
    unsigned long long first = 0, second = 0;
    unsigned version = 0;

    EXPECT_OK(cuCtxGetId(own, &first));
    EXPECT_OK(cuCtxGetId(nullptr, &second));
    EXPECT_EQ(first, second);
    EXPECT_OK(cuCtxGetId(primary(), &second));
    EXPECT_NE(first, second);
    EXPECT_OK(cuCtxGetApiVersion(own, &version));
    EXPECT_GE(version, 3010u);
    EXPECT_OK(cuCtxDestroy(own));
}

TEST_F(cuda_context, destroyed_with_all_that_it_has)
{
    constexpr size_t size = 256 * megabyte;
    size_t before         = free_memory();
    CUcontext own         = make_context();
    CUstream stream       = make_stream();

    EXPECT_OK(cuMemcpyAsync(allocate(size), allocate(size), size, stream));
    make_event();
    EXPECT_OK(cuCtxDestroy(own));
    EXPECT_GE(free_memory() + memory_slack(), before);
}

TEST_F(cuda_context, destroyed_one_is_known_as_such)
{
    CUcontext own = make_context();
    unsigned long long id;
    unsigned version;

    EXPECT_OK(cuCtxDestroy(own));
    REQUIRE_EMULATOR(); /* a real driver may use its memory again */
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(own));
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxGetId(own, &id));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(own, &version));
}

TEST_F(cuda_context_death, destroyed_one_cannot_be_pushed)
{
    REQUIRE_EMULATOR(); /* a real driver crashes */
    EXPECT_ABORT({
        CUcontext own = make_context();

        cuCtxDestroy(own);
        cuCtxPushCurrent(own);
    }, "was destroyed");
}

TEST_F(cuda_context, destroyed_one_of_another_thread)
{
    CUcontext own = make_context();

    std::thread([own] { EXPECT_OK(cuCtxDestroy(own)); }).join();

    CUdeviceptr pointer;
    EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&pointer, kilobyte));
}

TEST_F(cuda_context, garbage_is_none)
{
    int variable;

    REQUIRE_EMULATOR(); /* a real driver crashes */
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
              cuCtxSetCurrent(CUcontext(&variable)));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(CUcontext(&variable)));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(primary()));
}

TEST_F(cuda_context, event_and_stream_must_be_of_the_same)
{
    CUevent event   = make_event();
    CUcontext own   = make_context();
    CUstream stream = make_stream();

    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));
    EXPECT_OK(cuStreamDestroy(stream));
    EXPECT_OK(cuCtxDestroy(own));
    EXPECT_OK(cuEventDestroy(event));
}

TEST_F(cuda_context, errors_have_names_and_texts)
{
    const char *text = nullptr;

    EXPECT_OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    EXPECT_STREQ("CUDA_ERROR_INVALID_VALUE", text);
    EXPECT_OK(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
    EXPECT_STREQ("invalid argument", text);
    EXPECT_OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    EXPECT_STREQ("an illegal memory access was encountered", text);
    EXPECT_INVALID(cuGetErrorName(CUresult(123456), &text));
    EXPECT_INVALID(cuGetErrorString(CUresult(123456), &text));
}

TEST_F(cuda_context, functions_by_name)
{
    CUdriverProcAddressQueryResult result;
    void *function = nullptr;

    EXPECT_OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0, &result));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, result);
    CUdeviceptr pointer = 0;
    EXPECT_OK(((CUresult(*)(CUdeviceptr*, size_t))function)(&pointer,
                                                            kilobyte));
    release(pointer);

    EXPECT_OK(cuGetProcAddress("cuCtxSetFlags", &function, 12010, 0, &result));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, result);
    EXPECT_NE(nullptr, function);
    EXPECT_OK(cuGetProcAddress("cuCtxSetFlags", &function, 11000, 0, &result));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, result);
    EXPECT_OK(cuGetProcAddress("cuNoSuchFunction", &function, 12000, 0,
                               &result));
    EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, result);
    EXPECT_EQ(nullptr, function);
    EXPECT_OK(cuGetProcAddress("cuNoSuchFunction", &function, 12000, 0,
                               nullptr));
    EXPECT_EQ(nullptr, function);
    REQUIRE_EMULATOR(); /* a real driver crashes */
    EXPECT_INVALID(cuGetProcAddress(nullptr, &function, 12000, 0, nullptr));
}

/* The names by which programs built with older toolkits call */
extern "C" {
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned,
                        CUdevice);
}

TEST_F(cuda_context, older_names)
{
    CUcontext context = nullptr;

    EXPECT_OK(cuCtxCreate_v2(&context, 0, 0));
    EXPECT_OK(cuCtxDestroy(context));
    EXPECT_OK(cuCtxCreate_v3(&context, nullptr, 0, 0, 0));
    EXPECT_OK(cuCtxDetach(context));
}

TEST_F(cuda_context, what_cannot_be_created)
{
    CUcontext context = nullptr;
    int count         = 0;

    EXPECT_OK(cuDeviceGetCount(&count));
    EXPECT_INVALID(cuCtxCreate_v2(nullptr, 0, 0));
    EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&context, 0, count));
    EXPECT_INVALID(cuCtxCreate_v2(&context, 0x1000, 0));
    EXPECT_INVALID(cuCtxCreate_v2(
            &context, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0));

    REQUIRE_EMULATOR(); /* a real GPU can do more */
    CUexecAffinityParam affinity = {};
    EXPECT_EQ(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
              cuCtxCreate_v3(&context, &affinity, 1, 0, 0));
#if CUDA_VERSION >= 12050
    CUctxCreateParams parameters = {};
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
              cuCtxCreate_v4(&context, &parameters, 0, 0));
#endif
}

TEST_F(cuda_context, nothing_works_before_init)
{
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "without-init"},
                             {}, &output)) << output;
}

TEST_F(cuda_context, nothing_works_in_a_forked_child)
{
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "forks"}, {},
                             &output)) << output;
}

TEST_F(cuda_context, works_in_exit_handlers)
{
    std::string output;

    EXPECT_EQ(0, run_program({"/proc/self/exe", "--program", "exit-handler"},
                             {}, &output)) << output;
}
