/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The node: who is on it, what it counts, and what becomes of it.
 */

class node : public emul_test {
protected:
    static std::string path_of(const std::string &variable)
    {
        return variable.substr(variable.find('=') + 1);
    }

    static bool exists(const std::string &path)
    {
        struct stat file;

        return stat(path.c_str(), &file) == 0;
    }

    static std::string own_node()
    {
        return "EMUL_NODE=" + new_node();
    }
};

TEST_F(node, goes_with_its_last_process)
{
    std::string variable = own_node();

    {
        peer first({variable});
        peer second({variable});

        first.ask(verb::allocate, megabyte);
        first.exit();
        EXPECT_TRUE(exists(path_of(variable) + "/node"));
        EXPECT_TRUE(second.ask(verb::allocate, megabyte).ok());
    }
    EXPECT_FALSE(exists(path_of(variable)));
}

TEST_F(node, leaves_a_directory_that_it_has_not_made)
{
    std::string variable = own_node();

    ASSERT_EQ(0, mkdir(path_of(variable).c_str(), 0700));
    {
        peer process({variable});

        process.ask(verb::allocate, megabyte);
    }
    EXPECT_TRUE(exists(path_of(variable)));
    EXPECT_EQ(0, rmdir(path_of(variable).c_str())); /* and it is empty */
}

TEST_F(node, starts_anew_after_all_were_killed)
{
    std::string variable = own_node();

    {
        peer process({variable});

        process.ask(verb::allocate, megabyte);
        process.kill();
        EXPECT_TRUE(exists(path_of(variable) + "/node"));
    }
    {
        /* does not find what the dead one has used up */
        peer process({variable, "EMUL_GPU_MEMORY=1m"});

        EXPECT_TRUE(process.ask(verb::allocate, megabyte).ok());
    }
    EXPECT_FALSE(exists(path_of(variable)));
}

TEST_F(node, is_created_once_by_many_that_start_at_a_time)
{
    for (int round = 0; round < 5; ++round) {
        std::string variable = own_node();
        std::vector<std::unique_ptr<peer>> peers(12);
        std::vector<std::thread> starters;
        reply answer;

        for (auto &p : peers) {
            starters.emplace_back([&p, &variable] {
                p = std::make_unique<peer>(
                        std::initializer_list<std::string>{variable});
            });
        }
        for (auto &starter : starters) {
            starter.join();
        }

        /* all are on the same node */
        answer = peers[0]->ask(verb::ipc_create, 5);
        ASSERT_TRUE(answer.ok());
        for (auto &p : peers) {
            EXPECT_TRUE(p->ask(verb::ipc_attach, 0, 0, answer.bytes).ok());
        }

        /* and leave it at a time */
        starters.clear();
        for (auto &p : peers) {
            starters.emplace_back([&p] { p.reset(); });
        }
        for (auto &starter : starters) {
            starter.join();
        }
        EXPECT_FALSE(exists(path_of(variable)));
    }
}

TEST_F(node, shares_nothing_with_another_node)
{
    peer elsewhere({own_node()});
    hsa_signal_t s              = ipc_signal(1);
    hsa_amd_ipc_signal_t handle = export_signal(s);

    EXPECT_FALSE(elsewhere.ask(verb::ipc_attach, 0, 0, handle.handle).ok());
    EXPECT_OK(hsa_signal_destroy(s));
}

TEST_F(node, counts_each_process_and_all)
{
    peer other;
    hsa_signal_t mine = signal(1);

    other.ask(verb::signal_create, 1);
    other.ask(verb::signal_create, 1);
    EXPECT_EQ(1, count(EMUL_COUNT_SIGNALS));
    EXPECT_EQ(2, count(EMUL_COUNT_SIGNALS, other.pid()));
    EXPECT_EQ(3, count(EMUL_COUNT_SIGNALS, EMUL_ANY_PROCESS));

    other.kill();
    EXPECT_EQ(1, count(EMUL_COUNT_SIGNALS, EMUL_ANY_PROCESS));
    EXPECT_OK(hsa_signal_destroy(mine));
}

TEST_F(node, a_process_that_is_not_on_it_holds_nothing)
{
    EXPECT_EQ(0, count(EMUL_COUNT_SIGNALS, 1));
}

TEST_F(node, counts_calls_also_failed_ones)
{
    peer other;
    int64_t before = calls("hsa_signal_destroy");

    other.ask(verb::signal_destroy, 77);
    other.ask(verb::signal_destroy, 78);
    EXPECT_EQ(2, calls("hsa_signal_destroy", other.pid()));
    EXPECT_EQ(before, calls("hsa_signal_destroy"));
    EXPECT_EQ(before + 2, calls("hsa_signal_destroy", EMUL_ANY_PROCESS));

    other.exit();
    EXPECT_EQ(before, calls("hsa_signal_destroy", EMUL_ANY_PROCESS));
}

TEST_F(node, refuses_wrong_names_and_values)
{
    int64_t value;

    EXPECT_EQ(-EINVAL, api().count(0, EMUL_COUNT_LAST, &value));
    EXPECT_EQ(-EINVAL, api().calls(0, "hsa_frobnicate", &value));
    EXPECT_EQ(-EINVAL, api().calls(0, "copy", &value));
    EXPECT_EQ(-EINVAL, api().gate_close(0, "hsa_frobnicate"));
    EXPECT_EQ(-EINVAL, api().gate_waiters(0, "hsa_frobnicate", &value));
    EXPECT_EQ(-EINVAL, api().fail(0, "hsa_frobnicate", 1, 1, 1));
    EXPECT_EQ(-EINVAL, api().fail(0, "hsa_signal_load_relaxed", 1, 1, 1));
    EXPECT_EQ(-EINVAL, api().fail(0, "hsa_init", 0, 1, 1));
    EXPECT_EQ(-EINVAL, api().set("EMUL_NONSENSE", "1"));
    EXPECT_EQ(-EINVAL, api().set("EMUL_FREE", "sometimes"));
    EXPECT_EQ(-EINVAL, api().set("EMUL_COPY_LATENCY", "-1"));
    EXPECT_EQ(-EINVAL, api().set("EMUL_GPU_MEMORY", "12x"));
    EXPECT_EQ(-EPERM, api().set("EMUL_GPUS", "3"));
}

TEST_F(node, takes_settings_from_the_environment_of_its_creator)
{
    std::string variable = own_node();
    peer first({variable, "EMUL_GPUS=1", "EMUL_GPU_MEMORY=8k"});

    EXPECT_TRUE(first.ask(verb::allocate, 4096).ok());
    EXPECT_FALSE(first.ask(verb::allocate, 8192).ok());

    /* who joins later is told that it comes too late */
    peer second({variable, "EMUL_GPU_MEMORY=1m"});
    EXPECT_FALSE(second.ask(verb::allocate, 8192).ok());
    second.exit();
    EXPECT_NE(std::string::npos,
              second.errors().find("EMUL_GPU_MEMORY=1m has no effect"));
}

TEST_F(node, can_have_no_gpu)
{
    peer process({own_node(), "EMUL_GPUS=0"});

    /* gpu_pool() of the peer throws, so it must be the first one to say so */
    EXPECT_TRUE(process.ask(verb::signal_create, 1).ok());
}

TEST_F(node, allocations_can_begin_at_the_same_address_in_two_processes)
{
    /* where even a sanitizer leaves room */
    peer first({"EMUL_ADDRESS_START=0x7e9000000000"});
    peer second({"EMUL_ADDRESS_START=0x7e9000000000"});

    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(first.ask(verb::allocate, megabyte).value,
                  second.ask(verb::allocate, megabyte).value);
    }
}

TEST_F(node, tells_processes_of_other_pid_namespaces_apart)
{
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root makes PID namespaces";
    }

    /* both have the same pid, each in its own namespace */
    peer first(peer::in_pid_namespace, {});
    peer second(peer::in_pid_namespace, {});
    reply shared = first.ask(verb::ipc_create, 4);

    EXPECT_EQ(first.ask(verb::own_pid).value, second.ask(verb::own_pid).value);
    EXPECT_TRUE(second.ask(verb::ipc_attach, 0, 0, shared.bytes).ok());
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNALS, first.pid()));
    EXPECT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS, second.pid()));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES, second.pid()));

    first.kill();
    EXPECT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS, EMUL_ANY_PROCESS));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES, EMUL_ANY_PROCESS));
}

TEST_F(node, switches_set_before_a_process_joins_wait_for_it)
{
    /* the pid is known before the program has started */
    pid_t pid = fork();

    if (pid == 0) {
        raise(SIGSTOP);
        execl("/proc/self/exe", "emul-test", "--exit-with-init", nullptr);
        _exit(99);
    }

    int status;
    ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
    fail("hsa_init", 1, 1, 7, pid);
    kill(pid, SIGCONT);
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(7, WEXITSTATUS(status));
}

TEST_F(node, survives_processes_killed_at_any_moment)
{
    for (int i = 0; i < 40; ++i) {
        peer victim;

        victim.start(verb::churn);
        usleep(i * 150);
        victim.kill();

        /* the lock is free, what it had is gone */
        ASSERT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
        ASSERT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS, EMUL_ANY_PROCESS));
    }
}

TEST_F(node, can_be_looked_at_with_a_program)
{
    char self[PATH_MAX] = {};
    std::string output, tool;
    uint64_t *pointer;

    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    tool    = self;
    tool    = tool.substr(0, tool.rfind('/')) + "/emul-node";
    pointer = allocate(megabyte);
    EXPECT_EQ(0, run_program({tool}, {}, &output));
    EXPECT_NE(std::string::npos, output.find(std::to_string(getpid())));
    EXPECT_NE(std::string::npos,
              output.find("1048576 bytes of device memory charged"));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));

    EXPECT_NE(0, run_program({tool}, {own_node()}, &output));
    EXPECT_NE(std::string::npos, output.find("no process"));
}
