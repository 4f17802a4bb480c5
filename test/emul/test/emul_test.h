/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_H_
#define EMUL_TEST_H_

#include "hsa_objects.h"
#include "node_test.h"
#include "peer.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#define EXPECT_OK(_call) EXPECT_EQ(HSA_STATUS_SUCCESS, (_call))
#define ASSERT_OK(_call) ASSERT_EQ(HSA_STATUS_SUCCESS, (_call))
#define EXPECT_INVALID(_call) \
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, (_call))
#define EXPECT_NO_ROOM(_call) \
    EXPECT_EQ(HSA_STATUS_ERROR_OUT_OF_RESOURCES, (_call))

/* The statement ends the process by a fault. A sanitizer's handler would turn
 * the signal into an exit. */
#define EXPECT_FAULT(_statement) \
    EXPECT_EXIT({ \
        ::signal(SIGSEGV, SIG_DFL); \
        _statement; \
    }, ::testing::KilledBySignal(SIGSEGV), "")

/** A test on the common node, with default settings. At its end nothing must be
 *  held any more by this process nor charged on the node. */
class emul_test : public node_test {
protected:
    void SetUp() override;
    void TearDown() override;

    /** Allocate on a GPU; fails the test if it cannot. */
    static uint64_t *allocate(size_t size, unsigned gpu_number = 0);
    static hsa_amd_ipc_memory_t export_memory(void *pointer, size_t size);
    static hsa_amd_pointer_info_t info_of(const void *pointer);
    static hsa_signal_t signal(hsa_signal_value_t value);
    static hsa_signal_t ipc_signal(hsa_signal_value_t value);
    static hsa_amd_ipc_signal_t export_signal(hsa_signal_t signal);
};

#endif
