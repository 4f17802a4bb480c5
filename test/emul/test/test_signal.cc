/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <cstring>
#include <thread>

/*
 * Values of signals, waiting for them, and sharing them.
 */

class signals : public emul_test {
protected:
    static hsa_signal_value_t load(hsa_signal_t s)
    {
        return hsa_signal_load_scacquire(s);
    }

    static void destroy(hsa_signal_t s)
    {
        EXPECT_OK(hsa_signal_destroy(s));
    }

    static hsa_signal_value_t
    wait(hsa_signal_t s, hsa_signal_condition_t condition,
         hsa_signal_value_t value, uint64_t timeout = UINT64_MAX)
    {
        return hsa_signal_wait_scacquire(s, condition, value, timeout,
                                         HSA_WAIT_STATE_BLOCKED);
    }

    static hsa_signal_t attach(const hsa_amd_ipc_signal_t &handle)
    {
        hsa_signal_t attached = {0};

        EXPECT_OK(hsa_amd_ipc_signal_attach(&handle, &attached));
        return attached;
    }

    static hsa_status_t attach_status(const hsa_amd_ipc_signal_t &handle)
    {
        hsa_signal_t attached;

        return hsa_amd_ipc_signal_attach(&handle, &attached);
    }

    static hsa_amd_ipc_signal_t handle_of(const reply &answer)
    {
        hsa_amd_ipc_signal_t handle;

        memcpy(&handle, answer.bytes, sizeof(handle));
        return handle;
    }
};

TEST_F(signals, hold_a_value_that_every_operation_changes)
{
    hsa_signal_t s = signal(10);

    EXPECT_EQ(10, load(s));
    hsa_signal_store_relaxed(s, 20);
    EXPECT_EQ(20, hsa_signal_load_relaxed(s));
    hsa_signal_store_screlease(s, 30);
    hsa_signal_add_relaxed(s, 5);
    hsa_signal_subtract_scacq_screl(s, 1);
    EXPECT_EQ(34, load(s));
    EXPECT_EQ(34, hsa_signal_exchange_scacq_screl(s, 6));
    EXPECT_EQ(6, hsa_signal_cas_scacq_screl(s, 5, 9));
    EXPECT_EQ(6, hsa_signal_cas_scacq_screl(s, 6, 12));
    hsa_signal_and_relaxed(s, 8);
    hsa_signal_or_relaxed(s, 3);
    hsa_signal_xor_relaxed(s, 1);
    EXPECT_EQ((((12 & 8) | 3) ^ 1), load(s));
    hsa_signal_silent_store_relaxed(s, -1);
    EXPECT_EQ(-1, load(s));
    destroy(s);
}

TEST_F(signals, count_until_destroyed)
{
    hsa_signal_t local = signal(0);
    hsa_signal_t ipc   = ipc_signal(0);

    EXPECT_EQ(1, count(EMUL_COUNT_SIGNALS));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNALS));
    destroy(local);
    destroy(ipc);
    EXPECT_EQ(0, count(EMUL_COUNT_SIGNALS));
    EXPECT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS));
}

TEST_F(signals, wait_for_each_condition)
{
    hsa_signal_t s = signal(5);

    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_EQ, 5));
    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_NE, 4));
    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_LT, 6));
    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_GTE, 5));
    destroy(s);
}

TEST_F(signals, a_wait_returns_the_value_after_its_timeout)
{
    hsa_signal_t s = signal(5);
    uint64_t before, after;

    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before);
    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_EQ, 6, 2000000));
    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after);
    EXPECT_GE(after - before, 2000000u);
    EXPECT_EQ(5, wait(s, HSA_SIGNAL_CONDITION_LT, 5, 0));
    destroy(s);
}

TEST_F(signals, a_sleeping_waiter_sees_every_kind_of_change)
{
    for (int i = 0; i < 200; ++i) {
        hsa_signal_t s = signal(1);
        std::thread waiter([s] {
            EXPECT_EQ(0, wait(s, HSA_SIGNAL_CONDITION_LT, 1));
        });

        if (i & 1) {
            test_nap();
        }

        if (i & 2) {
            hsa_signal_subtract_screlease(s, 1);
        } else {
            hsa_signal_store_screlease(s, 0);
        }
        waiter.join();
        destroy(s);
    }
}

TEST_F(signals, destroying_ends_a_wait)
{
    hsa_signal_t s = signal(1);
    int64_t before = calls("hsa_signal_wait_scacquire");
    std::thread waiter([s] {
        EXPECT_EQ(0, wait(s, HSA_SIGNAL_CONDITION_EQ, 77));
    });

    /* the call has passed its hook and found the signal alive some nap later */
    ASSERT_TRUE(eventually([&] {
        return calls("hsa_signal_wait_scacquire") == before + 1;
    }));
    for (int i = 0; i < 20; ++i) {
        test_nap();
    }
    destroy(s);
    waiter.join();
}

TEST_F(signals, wrong_handles_are_refused)
{
    hsa_signal_t s = signal(1);
    hsa_amd_ipc_signal_t handle;

    EXPECT_INVALID(hsa_signal_destroy(hsa_signal_t{0}));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL,
              hsa_signal_destroy(hsa_signal_t{12345}));
    EXPECT_INVALID(hsa_signal_create(1, 0, nullptr, nullptr));
    EXPECT_INVALID(hsa_amd_ipc_signal_create(s, &handle));

    destroy(s);
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, hsa_signal_destroy(s));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL,
              hsa_amd_ipc_signal_create(s, &handle));
}

TEST_F(signals, using_a_destroyed_signal_aborts_with_the_call_s_name)
{
    hsa_signal_t s = signal(1);
    hsa_signal_t other;

    destroy(s);
    other = signal(1); /* takes the same slot, and is not mistaken for s */

    EXPECT_DEATH(hsa_signal_load_scacquire(s),
                 "hsa_signal_load_scacquire: signal .* destroyed");
    EXPECT_DEATH(hsa_signal_load_relaxed(s),
                 "hsa_signal_load_relaxed: signal .* destroyed");
    EXPECT_DEATH(hsa_signal_store_screlease(s, 0),
                 "hsa_signal_store_screlease: signal .* destroyed");
    EXPECT_DEATH(hsa_signal_subtract_relaxed(s, 1),
                 "hsa_signal_subtract_relaxed: signal .* destroyed");
    EXPECT_DEATH(wait(s, HSA_SIGNAL_CONDITION_EQ, 1),
                 "hsa_signal_wait_scacquire: signal .* destroyed");
    destroy(other);
}

TEST_F(signals, ipc_signals_are_shared)
{
    peer other;
    reply answer      = other.ask(verb::ipc_create, 3);
    hsa_signal_t here = attach(handle_of(answer));

    EXPECT_EQ(3, load(here));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
    EXPECT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNALS, other.pid()));

    hsa_signal_store_screlease(here, 4);
    EXPECT_EQ(4u, other.ask(verb::signal_load, answer.value).value);
    destroy(here);
}

TEST_F(signals, a_wait_works_across_processes_both_ways)
{
    peer other;
    reply answer      = other.ask(verb::ipc_create, 1);
    hsa_signal_t here = attach(handle_of(answer));

    other.start(verb::signal_wait, answer.value, 2);
    test_nap();
    hsa_signal_store_screlease(here, 2);
    EXPECT_EQ(2u, other.finish().value);

    std::thread waiter([here] {
        EXPECT_EQ(5, wait(here, HSA_SIGNAL_CONDITION_EQ, 5));
    });
    test_nap();
    other.ask(verb::signal_store, answer.value, 5);
    waiter.join();
    destroy(here);
}

TEST_F(signals, attaching_twice_gives_the_same_signal_with_a_count)
{
    peer other;
    hsa_amd_ipc_signal_t handle = handle_of(other.ask(verb::ipc_create, 1));
    hsa_signal_t first          = attach(handle);
    hsa_signal_t second         = attach(handle);

    EXPECT_EQ(first.handle, second.handle);
    EXPECT_EQ(2, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
    destroy(first);
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
    EXPECT_EQ(1, load(second));
    destroy(second);
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, hsa_signal_destroy(second));
}

TEST_F(signals, the_creator_can_attach_its_own)
{
    hsa_signal_t s = ipc_signal(8);
    hsa_signal_t a = attach(export_signal(s));

    EXPECT_EQ(s.handle, a.handle);
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNALS));
    EXPECT_EQ(1, count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
    destroy(a);
    EXPECT_EQ(8, load(s));
    destroy(s);
}

TEST_F(signals, attach_refuses_garbage)
{
    peer other;
    hsa_amd_ipc_signal_t handle = handle_of(other.ask(verb::ipc_create, 1));
    hsa_amd_ipc_signal_t garbage;

    memset(&garbage, 0, sizeof(garbage));
    EXPECT_INVALID(attach_status(garbage));
    for (unsigned bit = 0; bit < 8 * sizeof(garbage); ++bit) {
        garbage                        = handle;
        ((uint8_t*)&garbage)[bit / 8] ^= 1 << (bit % 8);
        EXPECT_INVALID(attach_status(garbage)) << "bit " << bit;
    }

    /* a handle of memory is not one of a signal */
    uint64_t *pointer           = allocate(4096);
    hsa_amd_ipc_memory_t memory = export_memory(pointer, 4096);
    memcpy(&garbage, &memory, sizeof(garbage));
    EXPECT_INVALID(attach_status(garbage));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));
}

TEST_F(signals, attach_after_the_creator_s_destroy_fails)
{
    peer other;
    reply answer = other.ask(verb::ipc_create, 1);

    other.ask(verb::signal_destroy, answer.value);
    EXPECT_INVALID(attach_status(handle_of(answer)));
}

TEST_F(signals, attach_after_the_creator_s_death_fails)
{
    peer other;
    reply answer = other.ask(verb::ipc_create, 1);

    other.kill();
    EXPECT_INVALID(attach_status(handle_of(answer)));
}

TEST_F(signals, an_attached_signal_outlives_its_creator)
{
    peer other;
    reply answer      = other.ask(verb::ipc_create, 6);
    hsa_signal_t here = attach(handle_of(answer));

    other.ask(verb::signal_destroy, answer.value);
    EXPECT_EQ(0, count(EMUL_COUNT_IPC_SIGNALS, other.pid()));
    EXPECT_EQ(6, load(here));

    other.kill();
    hsa_signal_store_screlease(here, 7);
    EXPECT_EQ(7, load(here));
    destroy(here);
}

TEST_F(signals, late_attach_can_block)
{
    peer other, late;
    reply answer = other.ask(verb::ipc_create, 1);

    set("EMUL_LATE_ATTACH", "block");
    other.ask(verb::signal_destroy, answer.value);
    late.start(verb::ipc_attach, 0, 0, answer.bytes);
    ASSERT_TRUE(eventually([&] {
        return calls("hsa_amd_ipc_signal_attach", late.pid()) == 1;
    }));
    for (int i = 0; i < 20; ++i) {
        ASSERT_FALSE(late.finished());
        test_nap();
    }

    set("EMUL_LATE_ATTACH", "error");
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, late.finish().status);
}

TEST_F(signals, ipc_signals_can_be_limited)
{
    peer other;
    hsa_amd_ipc_signal_t handle = handle_of(other.ask(verb::ipc_create, 1));
    hsa_signal_t first, second, none;

    set("EMUL_MAX_IPC_SIGNALS", "2");
    first  = ipc_signal(1);
    second = attach(handle);
    EXPECT_NO_ROOM(hsa_amd_signal_create(1, 0, nullptr, HSA_AMD_SIGNAL_IPC,
                                         &none));
    destroy(second);
    second = ipc_signal(1);
    EXPECT_NO_ROOM(attach_status(handle));
    EXPECT_OK(hsa_signal_create(1, 0, nullptr, &none));

    destroy(none);
    destroy(first);
    destroy(second);
}

TEST_F(signals, thousands_come_and_go)
{
    for (int round = 0; round < 3; ++round) {
        std::vector<hsa_signal_t> all;

        for (int i = 0; i < 3000; ++i) {
            all.push_back((i & 1) ? signal(i) : ipc_signal(i));
        }
        for (int i = 0; i < 3000; ++i) {
            EXPECT_EQ(i, load(all[i]));
            destroy(all[i]);
        }
    }
}
