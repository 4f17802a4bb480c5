/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cstdlib>
#include <cstring>

void CUDA_CB blocker::wait(void *arg)
{
    blocker &self = *static_cast<blocker*>(arg);

    self.m_entered.store(true);
    EXPECT_TRUE(eventually([&self] { return self.m_released.load(); }));
    self.m_left.store(true);
}

blocker::blocker(CUstream stream)
{
    EXPECT_OK(cuLaunchHostFunc(stream, wait, this));
}

blocker::~blocker()
{
    release();
    EXPECT_TRUE(eventually([this] { return m_left.load(); }));
}

CUcontext cuda_test::primary()
{
    static CUcontext context = [] {
        CUcontext retained = nullptr;

        EXPECT_OK(cuDevicePrimaryCtxRetain(&retained, 0));
        return retained;
    }();

    return context;
}

void cuda_test::SetUp()
{
    static const char *const defaults[][2] = {
        {"EMUL_GPU_MEMORY", "16g"},
        {"EMUL_ADDRESS_REUSE", "default"},
        {"EMUL_LATE_ATTACH", "error"},
        {"EMUL_COPY_BANDWIDTH", "0"},
        {"EMUL_COPY_LATENCY", "0"},
        {"EMUL_MAX_ATTACHES", "inf"},
        {"EMUL_ERROR_SCOPE", "process"}
    };

    CUcontext left = nullptr;

    ASSERT_OK(cuInit(0));
    /* what an earlier test has left on the stack */
    while (cuCtxPopCurrent(&left) == CUDA_SUCCESS) {
    }
    ASSERT_OK(cuCtxSetCurrent(primary()));
    if (emul_get() != nullptr) {
        for (auto &setting : defaults) {
            set(setting[0], setting[1]);
        }
    }
}

void cuda_test::TearDown()
{
    static const emul_count_t held[] = {
        EMUL_COUNT_ALLOCATIONS, EMUL_COUNT_BYTES_ALLOCATED, EMUL_COUNT_ATTACHES,
        EMUL_COUNT_STREAMS, EMUL_COUNT_EVENTS, EMUL_COUNT_COPIES,
        EMUL_COUNT_COPIES_HELD, EMUL_COUNT_CALLBACKS
    };

    if (emul_get() == nullptr) {
        return;
    }

    for (emul_count_t what : held) {
        /* streams that were destroyed may still be at work */
        EXPECT_TRUE(eventually([what] { return count(what) == 0; }))
                << "count " << what << " is " << count(what);
    }
    EXPECT_EQ(1, count(EMUL_COUNT_CONTEXTS));
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
}

CUdeviceptr cuda_test::allocate(size_t size)
{
    CUdeviceptr pointer = 0;

    EXPECT_OK(cuMemAlloc(&pointer, size));
    return pointer;
}

void cuda_test::release(CUdeviceptr pointer)
{
    EXPECT_OK(cuMemFree(pointer));
}

CUstream cuda_test::make_stream(unsigned flags)
{
    CUstream stream = nullptr;

    EXPECT_OK(cuStreamCreate(&stream, flags));
    return stream;
}

CUevent cuda_test::make_event(unsigned flags)
{
    CUevent event = nullptr;

    EXPECT_OK(cuEventCreate(&event, flags));
    return event;
}

CUcontext cuda_test::make_context(int device, unsigned flags)
{
    CUcontext context = nullptr;

#if CUDA_VERSION >= 13000
    EXPECT_OK(cuCtxCreate(&context, nullptr, flags, device));
#else
    EXPECT_OK(cuCtxCreate(&context, flags, device));
#endif
    return context;
}

uint64_t cuda_test::read(CUdeviceptr pointer)
{
    uint64_t value = 0;

    EXPECT_OK(cuMemcpyDtoH(&value, pointer, sizeof(value)));
    return value;
}

void cuda_test::write(CUdeviceptr pointer, uint64_t value)
{
    EXPECT_OK(cuMemcpyHtoD(pointer, &value, sizeof(value)));
    /* the host does not wait until it has arrived */
    EXPECT_OK(cuCtxSynchronize());
}

size_t cuda_test::free_memory()
{
    size_t available = 0;
    size_t total     = 0;

    EXPECT_OK(cuMemGetInfo(&available, &total));
    return available;
}

size_t cuda_test::memory_slack()
{
    return (emul_get() != nullptr) ? 0 : 32 * megabyte;
}

std::string cuda_test::gate_of(CUstream stream)
{
    unsigned long long id = 0;

    EXPECT_OK(cuStreamGetId(stream, &id));
    return "stream-" + std::to_string(uint32_t(id));
}

int main(int argc, char **argv)
{
    std::string node = "/dev/shm/cuda-test-" + std::to_string(getpid());

    if ((argc > 2) && !strcmp(argv[1], "--peer")) {
        return cuda_peer_main(atoi(argv[2]));
    }

    if ((argc > 2) && !strcmp(argv[1], "--program")) {
        return cuda_program_main(argv[2]);
    }

    /* peers and death tests are on the node of the process that began */
    setenv("EMUL_NODE", node.c_str(), 0);
    ::testing::InitGoogleTest(&argc, argv);
    /* a death test by fork would have no driver */
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    return RUN_ALL_TESTS();
}
