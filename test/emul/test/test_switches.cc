/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <functional>
#include <thread>

/*
 * Gates and fault rules, on every function that can fail.
 */

class switches : public emul_test {
protected:
    static constexpr int injected = 0x1fff; /* no status of HSA */

    struct function {
        const char                    *name;
        std::function<hsa_status_t()> call;
        bool                          tries_again = false;
    };

    /* Each of them succeeds when nothing interferes */
    std::vector<function> functions();

    void SetUp() override
    {
        emul_test::SetUp();
        m_memory = allocate(4096);
        m_handle = export_memory(m_memory, 4096);
        m_signal = signal(0);
        m_shared = ipc_signal(1);
        m_signal_handle = export_signal(m_shared);
    }

    void TearDown() override
    {
        EXPECT_OK(hsa_signal_destroy(m_signal));
        EXPECT_OK(hsa_signal_destroy(m_shared));
        EXPECT_OK(hsa_amd_memory_pool_free(m_memory));
        emul_test::TearDown();
    }

    uint64_t             *m_memory;
    hsa_amd_ipc_memory_t m_handle;
    hsa_signal_t         m_signal;
    hsa_signal_t         m_shared;
    hsa_amd_ipc_signal_t m_signal_handle;
    char                 m_host[64];
};

std::vector<switches::function> switches::functions()
{
    /* "and then": the second call undoes the first one */
    auto pair = [](hsa_status_t first, auto second) {
        return (first == HSA_STATUS_SUCCESS) ? second() : first;
    };

    return {
        {"hsa_init", [=] { return pair(hsa_init(), hsa_shut_down); }},
        {"hsa_shut_down", [=] { return pair(hsa_init(), [] {
            hsa_status_t status = hsa_shut_down();

            return (status == injected) ? (hsa_shut_down(), status) : status;
        }); }, true},
        {"hsa_status_string", [] {
            const char *text;
            return hsa_status_string(HSA_STATUS_SUCCESS, &text);
        }},
        {"hsa_system_get_info", [] {
            uint64_t value;
            return hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &value);
        }},
        {"hsa_iterate_agents", [] {
            return hsa_iterate_agents([](hsa_agent_t, void*) {
                return HSA_STATUS_SUCCESS;
            }, nullptr);
        }},
        {"hsa_agent_get_info", [a = gpu(0)] {
            uint32_t value;
            return hsa_agent_get_info(a, HSA_AGENT_INFO_NODE, &value);
        }},
        {"hsa_amd_agent_iterate_memory_pools", [a = gpu(0)] {
            return hsa_amd_agent_iterate_memory_pools(
                    a, [](hsa_amd_memory_pool_t, void*) {
                        return HSA_STATUS_SUCCESS;
                    }, nullptr);
        }},
        {"hsa_amd_memory_pool_get_info", [p = gpu_pool(0)] {
            size_t value;
            return hsa_amd_memory_pool_get_info(
                    p, HSA_AMD_MEMORY_POOL_INFO_SIZE, &value);
        }},
        {"hsa_amd_agent_memory_pool_get_info", [a = gpu(0), p = gpu_pool(1)] {
            uint32_t value;
            return hsa_amd_agent_memory_pool_get_info(
                    a, p, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &value);
        }},
        {"hsa_amd_memory_pool_allocate", [=, p = gpu_pool(0)] {
            void *pointer;
            return pair(hsa_amd_memory_pool_allocate(p, 8, 0, &pointer),
                        [&] { return hsa_amd_memory_pool_free(pointer); });
        }},
        {"hsa_amd_memory_pool_free", [] {
            return hsa_amd_memory_pool_free(nullptr);
        }},
        {"hsa_amd_agents_allow_access", [this, a = gpu(0)] {
            return hsa_amd_agents_allow_access(1, &a, nullptr, m_memory);
        }},
        {"hsa_amd_ipc_memory_create", [this] {
            return hsa_amd_ipc_memory_create(m_memory, 4096, &m_handle);
        }},
        {"hsa_amd_ipc_memory_attach", [=] {
            void *mapped;
            return pair(hsa_amd_ipc_memory_attach(&m_handle, 4096, 0, nullptr,
                                                  &mapped),
                        [&] { return hsa_amd_ipc_memory_detach(mapped); });
        }},
        {"hsa_amd_ipc_memory_detach", [=] {
            void *mapped;
            return pair(hsa_amd_ipc_memory_attach(&m_handle, 4096, 0, nullptr,
                                                  &mapped), [&] {
                hsa_status_t status = hsa_amd_ipc_memory_detach(mapped);

                return (status == injected) ?
                       (hsa_amd_ipc_memory_detach(mapped), status) : status;
            });
        }, true},
        {"hsa_amd_memory_lock", [=] {
            void *pointer;
            return pair(hsa_amd_memory_lock(m_host, 64, nullptr, 0, &pointer),
                        [&] { return hsa_amd_memory_unlock(m_host); });
        }},
        {"hsa_amd_memory_unlock", [this] {
            return hsa_amd_memory_unlock(m_host);
        }},
        {"hsa_amd_pointer_info", [this] {
            hsa_amd_pointer_info_t info = {};
            info.size                   = sizeof(info);
            return hsa_amd_pointer_info(m_memory, &info, nullptr, nullptr,
                                        nullptr);
        }},
        {"hsa_memory_copy", [this] {
            return hsa_memory_copy(m_memory, m_host, 8);
        }},
        {"hsa_amd_memory_fill", [this] {
            return hsa_amd_memory_fill(m_memory, 1, 1);
        }},
        {"hsa_amd_memory_async_copy", [this, a = gpu(0)] {
            hsa_signal_store_relaxed(m_signal, 1);
            hsa_status_t status = hsa_amd_memory_async_copy(
                    m_memory, a, m_memory + 1, a, 8, 0, nullptr, m_signal);
            if (status == HSA_STATUS_SUCCESS) {
                hsa_signal_wait_scacquire(m_signal, HSA_SIGNAL_CONDITION_LT, 1,
                                          UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
            }
            return status;
        }},
        {"hsa_signal_create", [=] {
            hsa_signal_t s;
            return pair(hsa_signal_create(1, 0, nullptr, &s),
                        [&] { return hsa_signal_destroy(s); });
        }},
        {"hsa_amd_signal_create", [=] {
            hsa_signal_t s;
            return pair(hsa_amd_signal_create(1, 0, nullptr, HSA_AMD_SIGNAL_IPC,
                                              &s),
                        [&] { return hsa_signal_destroy(s); });
        }},
        {"hsa_signal_destroy", [=] {
            hsa_signal_t s;
            return pair(hsa_signal_create(1, 0, nullptr, &s), [&] {
                hsa_status_t status = hsa_signal_destroy(s);

                return (status == injected) ? (hsa_signal_destroy(s), status) :
                                              status;
            });
        }, true},
        {"hsa_amd_ipc_signal_create", [this] {
            return hsa_amd_ipc_signal_create(m_shared, &m_signal_handle);
        }},
        {"hsa_amd_ipc_signal_attach", [=] {
            hsa_signal_t s;
            return pair(hsa_amd_ipc_signal_attach(&m_signal_handle, &s),
                        [&] { return hsa_signal_destroy(s); });
        }},
        {"hsa_amd_signal_async_handler", [this] {
            hsa_signal_store_relaxed(m_signal, 0);
            return hsa_amd_signal_async_handler(
                    m_signal, HSA_SIGNAL_CONDITION_EQ, 0,
                    [](hsa_signal_value_t, void*) { return false; }, nullptr);
        }},
    };
}

TEST_F(switches, every_function_fails_at_the_nth_call_and_count_times)
{
    for (auto &f : functions()) {
        SCOPED_TRACE(f.name);
        EXPECT_OK(f.call());

        /* those that give something back do so themselves when it failed, and
         * that call must not fail as well */
        unsigned times = f.tries_again ? 1 : 2;

        fail(f.name, 3, times, injected);
        EXPECT_OK(f.call());
        EXPECT_OK(f.call());
        for (unsigned i = 0; i < times; ++i) {
            EXPECT_EQ(injected, f.call());
        }
        EXPECT_OK(f.call());
    }
}

TEST_F(switches, an_injected_failure_does_nothing)
{
    void *pointer = nullptr;

    fail("hsa_amd_memory_pool_allocate", 1, 1, injected);
    EXPECT_EQ(injected, hsa_amd_memory_pool_allocate(gpu_pool(0), 8, 0,
                                                     &pointer));
    EXPECT_EQ(nullptr, pointer);
    EXPECT_EQ(1, count(EMUL_COUNT_ALLOCATIONS)); /* the fixture's */
}

TEST_F(switches, every_function_waits_at_its_gate)
{
    for (auto &f : functions()) {
        SCOPED_TRACE(f.name);
        close_gate(f.name);
        close_gate(f.name);

        std::thread caller([&f] { EXPECT_OK(f.call()); });
        EXPECT_TRUE(eventually([&f] { return waiters(f.name) == 1; }));
        open_gate(f.name);
        open_gate(f.name);
        caller.join();
        EXPECT_EQ(0, waiters(f.name));
    }
}

TEST_F(switches, a_closed_gate_lets_so_many_pass)
{
    std::atomic<int> passed{0};

    EXPECT_EQ(-ENOENT, api().gate_pass(getpid(), "hsa_system_get_info", 1));
    close_gate("hsa_system_get_info");
    std::thread caller([&passed] {
        uint64_t value;

        for (int i = 0; i < 4; ++i) {
            EXPECT_OK(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &value));
            ++passed;
        }
    });
    EXPECT_EQ(0, api().gate_pass(getpid(), "hsa_system_get_info", 3));
    EXPECT_TRUE(eventually([&passed] { return passed.load() == 3; }));
    EXPECT_TRUE(eventually([] {
        return waiters("hsa_system_get_info") == 1;
    }));
    EXPECT_EQ(3, passed.load());
    open_gate("hsa_system_get_info");
    caller.join();
}

TEST_F(switches, plain_functions_have_gates_too)
{
    close_gate("hsa_signal_store_screlease");
    std::thread caller([this] { hsa_signal_store_screlease(m_signal, 9); });
    EXPECT_TRUE(eventually([] {
        return waiters("hsa_signal_store_screlease") == 1;
    }));
    EXPECT_EQ(0, hsa_signal_load_scacquire(m_signal));
    open_gate("hsa_signal_store_screlease");
    caller.join();
    EXPECT_EQ(9, hsa_signal_load_scacquire(m_signal));
}

TEST_F(switches, are_addressed_to_one_process_or_all)
{
    peer first, second;

    fail("hsa_signal_create", 1, 1, injected, first.pid());
    EXPECT_TRUE(second.ask(verb::signal_create, 1).ok());
    EXPECT_EQ(injected, first.ask(verb::signal_create, 1).status);

    fail("hsa_signal_create", 2, 1, injected, EMUL_ANY_PROCESS);
    EXPECT_TRUE(first.ask(verb::signal_create, 1).ok());
    EXPECT_EQ(injected, second.ask(verb::signal_create, 1).status);

    close_gate("hsa_signal_create", EMUL_ANY_PROCESS);
    first.start(verb::signal_create, 1);
    second.start(verb::signal_create, 1);
    EXPECT_TRUE(eventually([] {
        return waiters("hsa_signal_create", EMUL_ANY_PROCESS) == 2;
    }));
    EXPECT_EQ(1, waiters("hsa_signal_create", first.pid()));
    open_gate("hsa_signal_create", EMUL_ANY_PROCESS);
    EXPECT_TRUE(first.finish().ok());
    EXPECT_TRUE(second.finish().ok());
}

TEST_F(switches, a_killed_process_leaves_its_gate)
{
    peer victim;

    close_gate("hsa_signal_create", EMUL_ANY_PROCESS);
    victim.start(verb::signal_create, 1);
    EXPECT_TRUE(eventually([] {
        return waiters("hsa_signal_create", EMUL_ANY_PROCESS) == 1;
    }));
    victim.kill();
    EXPECT_EQ(0, waiters("hsa_signal_create", EMUL_ANY_PROCESS));
    open_gate("hsa_signal_create", EMUL_ANY_PROCESS);
}

TEST_F(switches, a_new_rule_replaces_the_old_one)
{
    hsa_signal_t s;

    fail("hsa_signal_create", 1, 100, injected);
    fail("hsa_signal_create", 2, 1, injected + 1);
    EXPECT_OK(hsa_signal_create(1, 0, nullptr, &s));
    EXPECT_EQ(injected + 1, hsa_signal_create(1, 0, nullptr, &s));
    fail("hsa_signal_create", 1, 1, injected);
    fail("hsa_signal_create", 1, 0, injected);
    EXPECT_OK(hsa_signal_destroy(s));
    EXPECT_OK(hsa_signal_create(1, 0, nullptr, &s));
    EXPECT_OK(hsa_signal_destroy(s));
}
