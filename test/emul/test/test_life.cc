/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

/*
 * The beginning and the end of the runtime in a process.
 */

class life : public emul_test {
protected:
    /* A peer, with its report in a file; then what it says */
    static std::string report_of(peer &p, const std::string &file)
    {
        std::stringstream text;

        p.exit();
        text << std::ifstream(file).rdbuf();
        unlink(file.c_str());
        return text.str();
    }

    static std::string report_file()
    {
        return std::string(getenv("EMUL_NODE")) + "-leaks";
    }

    static size_t lines(const std::string &text)
    {
        return std::count(text.begin(), text.end(), '\n');
    }

    static bool has(const std::string &text, const char *what)
    {
        return text.find(what) != std::string::npos;
    }
};

TEST_F(life, init_and_shut_down_are_counted)
{
    hsa_signal_t s;

    EXPECT_OK(hsa_init());
    EXPECT_OK(hsa_shut_down());
    EXPECT_OK(hsa_signal_create(1, 0, nullptr, &s));
    EXPECT_OK(hsa_signal_destroy(s));

    peer other;
    EXPECT_TRUE(other.ask(verb::shut_down).ok());
    EXPECT_EQ(HSA_STATUS_ERROR_NOT_INITIALIZED,
              other.ask(verb::shut_down).status);
    EXPECT_EQ(HSA_STATUS_ERROR_NOT_INITIALIZED,
              other.ask(verb::signal_create, 1).status);
    EXPECT_TRUE(other.ask(verb::ready).ok());
    EXPECT_TRUE(other.ask(verb::signal_create, 1).ok());
}

TEST_F(life, the_last_shut_down_gives_everything_back)
{
    peer other, third;
    uint64_t s;
    reply shared = third.ask(verb::ipc_create, 1);

    ASSERT_TRUE(other.ask(verb::allocate, megabyte).ok());
    ASSERT_TRUE(other.ask(verb::ipc_create, 1).ok());
    ASSERT_TRUE(other.ask(verb::ipc_attach, 0, 0, shared.bytes).ok());
    s = other.ask(verb::signal_create, 1).value;
    ASSERT_TRUE(other.ask(verb::arm, s, 0).ok());
    ASSERT_TRUE(other.ask(verb::shut_down).ok());

    for (int what = 0; what < EMUL_COUNT_LAST; ++what) {
        EXPECT_EQ(0, count(emul_count_t(what), other.pid())) << what;
    }
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
}

TEST_F(life, a_leak_report_lists_what_is_held_at_exit)
{
    std::string file = report_file();
    peer owner;
    peer leaker({"EMUL_LEAK_REPORT=" + file});
    uint64_t at_owner = owner.ask(verb::allocate, 4096).value;
    reply memory      = owner.ask(verb::export_memory, at_owner, 4096);
    reply shared      = owner.ask(verb::ipc_create, 1);
    uint64_t s;
    std::string report;

    ASSERT_TRUE(leaker.ask(verb::allocate, 8192).ok());
    ASSERT_TRUE(leaker.ask(verb::attach, 4096, 0, memory.bytes).ok());
    ASSERT_TRUE(leaker.ask(verb::ipc_create, 1).ok());
    ASSERT_TRUE(leaker.ask(verb::ipc_attach, 0, 0, shared.bytes).ok());
    s = leaker.ask(verb::signal_create, 1).value;
    ASSERT_TRUE(leaker.ask(verb::arm, s, 0).ok());

    report = report_of(leaker, file);
    EXPECT_TRUE(has(report, "leak: allocation of 8192 bytes")) << report;
    EXPECT_TRUE(has(report, "leak: attach of 4096 bytes")) << report;
    EXPECT_TRUE(has(report, "leak: IPC signal ")) << report;
    EXPECT_TRUE(has(report, "leak: attached IPC signal ")) << report;
    EXPECT_TRUE(has(report, "leak: signal ")) << report;
    EXPECT_TRUE(has(report, "leak: armed handler of signal ")) << report;
    EXPECT_EQ(6u, lines(report)) << report;
}

TEST_F(life, a_clean_process_has_no_leak_report)
{
    std::string file = report_file();
    peer clean({"EMUL_LEAK_REPORT=" + file});
    uint64_t s = clean.ask(verb::signal_create, 1).value;

    clean.ask(verb::signal_destroy, s);
    clean.exit();
    EXPECT_NE(0, access(file.c_str(), F_OK));

    peer loud({"EMUL_LEAK_REPORT=stderr"});
    loud.ask(verb::signal_create, 1);
    loud.exit();
    EXPECT_EQ(1u, lines(loud.errors())) << loud.errors();
}

TEST_F(life, a_forked_child_has_no_runtime_and_touches_nothing)
{
    volatile uint64_t *memory = allocate(4096);
    hsa_signal_t s            = signal(5);
    hsa_signal_t shared       = ipc_signal(5);
    int64_t signals           = count(EMUL_COUNT_SIGNALS);
    int status;
    pid_t child;

    *memory = 1;
    child   = fork();
    if (child == 0) {
        hsa_signal_t none;
        int64_t value;
        bool right = true;

        right &= hsa_init() == HSA_STATUS_ERROR_NOT_INITIALIZED;
        right &= hsa_signal_create(1, 0, nullptr, &none) ==
                 HSA_STATUS_ERROR_NOT_INITIALIZED;
        right &= hsa_signal_destroy(s) == HSA_STATUS_ERROR_NOT_INITIALIZED;
        right &= hsa_amd_memory_pool_free((void*)memory) ==
                 HSA_STATUS_ERROR_NOT_INITIALIZED;
        right &= api().count(0, EMUL_COUNT_SIGNALS, &value) != 0;
        hsa_signal_store_screlease(shared, 99);
        exit(right ? 0 : 1); /* with all exit handlers */
    }

    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
    EXPECT_EQ(signals, count(EMUL_COUNT_SIGNALS));
    EXPECT_EQ(5, hsa_signal_load_scacquire(shared));
    EXPECT_EQ(5, hsa_signal_load_scacquire(s));
    EXPECT_EQ(1u, *memory);
    EXPECT_OK(hsa_signal_destroy(s));
    EXPECT_OK(hsa_signal_destroy(shared));
    EXPECT_OK(hsa_amd_memory_pool_free((void*)memory));
}

/* Whether an address of this process is device memory: that is a file of the
 * node. To touch it would not tell, since something else may lie there. */
static bool is_device_memory(const volatile void *address)
{
    std::ifstream maps("/proc/self/maps");
    std::string node = getenv("EMUL_NODE");
    uintptr_t start, end;
    std::string line;

    while (std::getline(maps, line)) {
        if ((sscanf(line.c_str(), "%lx-%lx", &start, &end) == 2) &&
            ((uintptr_t)address >= start) && ((uintptr_t)address < end)) {
            return line.find(node) != std::string::npos;
        }
    }

    return false;
}

TEST_F(life, device_memory_is_not_there_in_a_forked_child)
{
    volatile uint64_t *memory = allocate(4096);
    int status;

    EXPECT_TRUE(is_device_memory(memory));
    pid_t child = fork();
    if (child == 0) {
        _exit(is_device_memory(memory) ? 1 : 0);
    }

    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
    EXPECT_EQ(0u, *memory);
    EXPECT_OK(hsa_amd_memory_pool_free((void*)memory));
}

TEST_F(life, calls_before_init_say_so)
{
    peer other;

    EXPECT_TRUE(other.ask(verb::shut_down).ok());
    EXPECT_EQ(HSA_STATUS_ERROR_NOT_INITIALIZED,
              other.ask(verb::signal_destroy, 1).status);
}

TEST_F(life, what_is_not_emulated_says_its_name)
{
    hsa_queue_t *queue;

    EXPECT_DEATH(hsa_queue_create(gpu(0), 64, HSA_QUEUE_TYPE_MULTI, nullptr,
                                  nullptr, 0, 0, &queue),
                 "hsa_queue_create is not emulated");
}

TEST_F(life, a_trace_has_each_call)
{
    peer traced({"EMUL_TRACE=y"});

    traced.ask(verb::signal_destroy, 1234);
    traced.exit();
    EXPECT_TRUE(has(traced.errors(), "hsa_init -> 0")) << traced.errors();
    EXPECT_TRUE(has(traced.errors(), "hsa_signal_destroy -> 0x1006"))
            << traced.errors();
}

TEST_F(life, exit_does_not_wait_for_a_blocked_free)
{
    peer owner;
    uint64_t at_owner = owner.ask(verb::allocate, 4096).value;
    reply memory      = owner.ask(verb::export_memory, at_owner, 4096);
    void *mapped;

    ASSERT_OK(hsa_amd_ipc_memory_attach((hsa_amd_ipc_memory_t*)memory.bytes,
                                        4096, 0, nullptr, &mapped));
    owner.ask(verb::free_in_thread, at_owner);
    ASSERT_TRUE(eventually([&] {
        return count(EMUL_COUNT_FREES_BLOCKED, owner.pid()) == 1;
    }));

    EXPECT_EQ(0, owner.exit());
    EXPECT_EQ(4096, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    EXPECT_OK(hsa_amd_ipc_memory_detach(mapped));
}
