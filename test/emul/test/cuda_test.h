/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_CUDA_TEST_H_
#define EMUL_TEST_CUDA_TEST_H_

#include "child.h"
#include "node_test.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>

#include <unistd.h>

#define EXPECT_OK(_call) EXPECT_EQ(CUDA_SUCCESS, (_call))
#define ASSERT_OK(_call) ASSERT_EQ(CUDA_SUCCESS, (_call))
#define EXPECT_INVALID(_call) EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, (_call))

/* A real GPU runs the tests of what the runtime does, not those that need time,
 * order and failures under control. */
#define REQUIRE_EMULATOR() \
    do { \
        if (emul_get() == nullptr) { \
            GTEST_SKIP() << "needs the control API of the emulator"; \
        } \
    } while (0)

#define REQUIRE_DEVICES(_count) \
    do { \
        int found = 0; \
    \
        EXPECT_OK(cuDeviceGetCount(&found)); \
        if (found < (_count)) { \
            GTEST_SKIP() << "needs " << (_count) << " GPUs"; \
        } \
    } while (0)

/* The statement ends the process by a fault. A sanitizer's handler would turn
 * the signal into an exit. */
#define EXPECT_FAULT(_statement) \
    EXPECT_EXIT({ \
        ::signal(SIGSEGV, SIG_DFL); \
        _statement; \
    }, ::testing::KilledBySignal(SIGSEGV), "")

/* What leaves the process unfit for further tests */
#define EXPECT_IN_CHILD(_function) \
    EXPECT_EXIT({ \
        _function(); \
        _exit(::testing::Test::HasFailure()); \
    }, ::testing::ExitedWithCode(0), "")

/* What crashes a real driver */
#define EXPECT_ABORT(_statement, _message) \
    EXPECT_EXIT({ \
        ::signal(SIGABRT, SIG_DFL); \
        _statement; \
    }, ::testing::KilledBySignal(SIGABRT), _message)

/** Holds a stream by a host function that returns when it is told to, on a real
 *  GPU as well. One at a time: a real driver may have one thread for all. */
class blocker {
public:
    explicit blocker(CUstream stream);

    /** Releases, and waits until the function has returned. */
    ~blocker();

    blocker(const blocker&)            = delete;
    blocker &operator=(const blocker&) = delete;

    void release()
    {
        m_released.store(true);
    }

    bool entered() const
    {
        return m_entered.load();
    }

private:
    static void CUDA_CB wait(void *arg);

    std::atomic<bool> m_entered{false};
    std::atomic<bool> m_released{false};
    std::atomic<bool> m_left{false};
};

/** A test in the primary context of device 0, with default settings. At its end
 *  nothing must be held any more by this process nor charged on the node. */
class cuda_test : public node_test {
protected:
    void SetUp() override;
    void TearDown() override;

    /** These fail the test if they cannot. */
    static CUdeviceptr allocate(size_t size);
    static void release(CUdeviceptr pointer);
    static CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
    static CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING);
    static CUcontext make_context(int device = 0, unsigned flags = 0);
    static uint64_t read(CUdeviceptr pointer);
    static void write(CUdeviceptr pointer, uint64_t value);
    static size_t free_memory();

    /** By how much free memory may differ for reasons of its own: on a real GPU
     *  contexts take some, and other processes. */
    static size_t memory_slack();

    /** The name of the gate of a stream. */
    static std::string gate_of(CUstream stream);

    /** The context that is current in every test. */
    static CUcontext primary();
};

/** main() of a peer (cuda_peer.cc). */
int cuda_peer_main(int socket);

/** Programs of their own that main() runs (cuda_programs.cc).
 *  @return -1: there is none of this name. */
int cuda_program_main(const std::string &name);

#endif
