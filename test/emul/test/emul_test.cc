/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <cstdlib>
#include <cstring>

#include <unistd.h>

void emul_test::SetUp()
{
    static const char *const defaults[][2] = {
        {"EMUL_GPU_MEMORY", "16g"},
        {"EMUL_ADDRESS_REUSE", "default"},
        {"EMUL_LATE_ATTACH", "error"},
        {"EMUL_FREE", "block"},
        {"EMUL_IPC_OWNER_VISIBLE", "y"},
        {"EMUL_IPC_HANDLER", "accept"},
        {"EMUL_DESTROYED_HANDLER", "drop"},
        {"EMUL_HANDLER_WAKEUP", "prompt"},
        {"EMUL_COPY_BANDWIDTH", "0"},
        {"EMUL_COPY_LATENCY", "0"},
        {"EMUL_MAX_IPC_SIGNALS", "inf"},
        {"EMUL_MAX_ATTACHES", "inf"}
    };

    ASSERT_NE(nullptr, emul_get());
    ASSERT_OK(hsa_init());
    for (auto &setting : defaults) {
        set(setting[0], setting[1]);
    }
}

void emul_test::TearDown()
{
    static const emul_count_t held[] = {
        EMUL_COUNT_ALLOCATIONS, EMUL_COUNT_BYTES_ALLOCATED,
        EMUL_COUNT_ATTACHES, EMUL_COUNT_SIGNALS, EMUL_COUNT_IPC_SIGNALS,
        EMUL_COUNT_IPC_SIGNAL_ATTACHES, EMUL_COUNT_HANDLERS,
        EMUL_COUNT_COPIES, EMUL_COUNT_COPIES_HELD, EMUL_COUNT_FREES_BLOCKED
    };

    for (emul_count_t what : held) {
        /* the handler thread may still be on its way */
        EXPECT_TRUE(eventually([what] { return count(what) == 0; }))
                << "count " << what << " is " << count(what);
    }
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    EXPECT_OK(hsa_shut_down());
}

uint64_t *emul_test::allocate(size_t size, unsigned gpu_number)
{
    void *pointer = nullptr;

    EXPECT_OK(hsa_amd_memory_pool_allocate(gpu_pool(gpu_number), size, 0,
                                           &pointer));
    return (uint64_t*)pointer;
}

hsa_amd_ipc_memory_t emul_test::export_memory(void *pointer, size_t size)
{
    hsa_amd_ipc_memory_t handle = {};

    EXPECT_OK(hsa_amd_ipc_memory_create(pointer, size, &handle));
    return handle;
}

hsa_amd_pointer_info_t emul_test::info_of(const void *pointer)
{
    hsa_amd_pointer_info_t info = {};

    info.size = sizeof(info);
    EXPECT_OK(hsa_amd_pointer_info(pointer, &info, nullptr, nullptr, nullptr));
    return info;
}

hsa_signal_t emul_test::signal(hsa_signal_value_t value)
{
    hsa_signal_t created = {0};

    EXPECT_OK(hsa_signal_create(value, 0, nullptr, &created));
    return created;
}

hsa_signal_t emul_test::ipc_signal(hsa_signal_value_t value)
{
    hsa_signal_t created = {0};

    EXPECT_OK(hsa_amd_signal_create(value, 0, nullptr, HSA_AMD_SIGNAL_IPC,
                                    &created));
    return created;
}

hsa_amd_ipc_signal_t emul_test::export_signal(hsa_signal_t signal)
{
    hsa_amd_ipc_signal_t handle = {};

    EXPECT_OK(hsa_amd_ipc_signal_create(signal, &handle));
    return handle;
}

int main(int argc, char **argv)
{
    std::string node = "/dev/shm/emul-test-" + std::to_string(getpid());

    if ((argc > 2) && !strcmp(argv[1], "--peer")) {
        return peer_main(atoi(argv[2]));
    }

    if ((argc > 1) && !strcmp(argv[1], "--exit-with-init")) {
        return hsa_init();
    }

    /* peers and death tests are on the node of the process that began */
    setenv("EMUL_NODE", node.c_str(), 0);
    ::testing::InitGoogleTest(&argc, argv);
    /* a death test by fork would have no runtime */
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    return RUN_ALL_TESTS();
}
