/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include <time.h>

/*
 * Async signal handlers and the thread that calls them.
 */

class handlers : public emul_test {
protected:
    /* What a handler was called with, and what it is to return */
    struct record {
        std::atomic<int>                calls{0};
        std::atomic<hsa_signal_value_t> value{-999};
        std::atomic<int>                keep{0};   /* return true so often */
        std::atomic<bool>               inside{false};
    };

    static bool note(hsa_signal_value_t value, void *argument)
    {
        record &r = *(record*)argument;

        r.value = value;
        ++r.calls;
        return r.keep.fetch_sub(1) > 0;
    }

    static void arm(hsa_signal_t s, record *r, hsa_signal_value_t value = 0)
    {
        EXPECT_OK(hsa_amd_signal_async_handler(s, HSA_SIGNAL_CONDITION_EQ,
                                               value, note, r));
    }

    static bool called(const record &r, int times = 1)
    {
        return eventually([&] { return r.calls == times; });
    }

    static bool none_armed()
    {
        return eventually([] { return count(EMUL_COUNT_HANDLERS) == 0; });
    }

    /* Long enough for a handler that should not run to run anyhow */
    static void some_naps()
    {
        for (int i = 0; i < 20; ++i) {
            test_nap();
        }
    }

    /* An IPC signal of the peer, attached here */
    struct attached {
        uint64_t     at_peer;
        hsa_signal_t here;
    };

    static attached attach(peer &other, hsa_signal_value_t value)
    {
        attached a   = {};
        reply answer = other.ask(verb::ipc_create, value);

        a.at_peer = answer.value;
        EXPECT_OK(hsa_amd_ipc_signal_attach(
                (hsa_amd_ipc_signal_t*)answer.bytes, &a.here));
        return a;
    }
};

TEST_F(handlers, is_called_once_when_it_returns_false)
{
    hsa_signal_t s = signal(1);
    record r;

    arm(s, &r);
    EXPECT_EQ(1, count(EMUL_COUNT_HANDLERS));
    some_naps();
    EXPECT_EQ(0, r.calls);

    hsa_signal_store_screlease(s, 0);
    EXPECT_TRUE(called(r));
    EXPECT_EQ(0, r.value);
    EXPECT_TRUE(none_armed());

    hsa_signal_store_screlease(s, 1);
    hsa_signal_store_screlease(s, 0);
    some_naps();
    EXPECT_EQ(1, r.calls);
    EXPECT_OK(hsa_signal_destroy(s));
}

TEST_F(handlers, is_armed_again_when_it_returns_true)
{
    hsa_signal_t s = signal(0);
    record r;

    r.keep = 3;
    arm(s, &r);
    EXPECT_TRUE(called(r, 4));
    EXPECT_TRUE(none_armed());
    EXPECT_OK(hsa_signal_destroy(s));
}

TEST_F(handlers, is_called_for_a_value_that_was_there_before)
{
    hsa_signal_t s = signal(0);
    record r;

    arm(s, &r);
    EXPECT_TRUE(called(r));
    EXPECT_OK(hsa_signal_destroy(s));
}

TEST_F(handlers, one_thread_calls_all)
{
    static std::mutex mutex;
    static std::set<std::thread::id> threads;
    static std::atomic<int> calls;
    std::vector<hsa_signal_t> all;

    threads.clear();
    calls = 0;
    for (int i = 0; i < 50; ++i) {
        all.push_back(signal(1));
        EXPECT_OK(hsa_amd_signal_async_handler(
                all.back(), HSA_SIGNAL_CONDITION_LT, 1,
                [](hsa_signal_value_t, void *) {
                    std::lock_guard<std::mutex> guard(mutex);

                    threads.insert(std::this_thread::get_id());
                    ++calls;
                    return false;
                }, nullptr));
    }
    for (hsa_signal_t s : all) {
        hsa_signal_subtract_screlease(s, 1);
    }

    EXPECT_TRUE(eventually([] { return calls == 50; }));
    EXPECT_EQ(1u, threads.size());
    EXPECT_EQ(0u, threads.count(std::this_thread::get_id()));
    for (hsa_signal_t s : all) {
        EXPECT_OK(hsa_signal_destroy(s));
    }
}

TEST_F(handlers, a_handler_may_call_the_runtime)
{
    static hsa_signal_t signals[3];
    static std::atomic<int> calls;

    /* arms the next one, destroys its own signal, allocates */
    struct chain {
        static bool step(hsa_signal_value_t, void *argument)
        {
            uintptr_t i = uintptr_t(argument);
            void *pointer;

            EXPECT_OK(hsa_amd_memory_pool_allocate(gpu_pool(0), 4096, 0,
                                                   &pointer));
            EXPECT_OK(hsa_amd_memory_pool_free(pointer));
            EXPECT_OK(hsa_signal_destroy(signals[i]));
            if (i < 2) {
                EXPECT_OK(hsa_amd_signal_async_handler(
                        signals[i + 1], HSA_SIGNAL_CONDITION_EQ, 0, step,
                        (void*)(i + 1)));
            }
            ++calls;
            return false;
        }
    };

    calls = 0;
    for (auto &s : signals) {
        s = signal(0);
    }
    EXPECT_OK(hsa_amd_signal_async_handler(signals[0], HSA_SIGNAL_CONDITION_EQ,
                                           0, chain::step, nullptr));
    EXPECT_TRUE(eventually([] { return calls == 3; }));
    EXPECT_TRUE(none_armed());
    EXPECT_EQ(0, count(EMUL_COUNT_HANDLERS_DROPPED));
}

TEST_F(handlers, fires_for_an_attached_signal_of_another_process)
{
    peer other;
    attached a = attach(other, 1);
    record r;

    arm(a.here, &r);
    other.ask(verb::signal_store, a.at_peer, 0);
    EXPECT_TRUE(called(r));
    EXPECT_TRUE(none_armed());
    EXPECT_OK(hsa_signal_destroy(a.here));
}

TEST_F(handlers, none_is_missed_in_many_rounds)
{
    peer other;
    attached a = attach(other, 1);

    for (int i = 0; i < 500; ++i) {
        record r;

        other.ask(verb::signal_store, a.at_peer, 1);
        other.start(verb::signal_store, a.at_peer, 0);
        arm(a.here, &r);
        ASSERT_TRUE(called(r)) << "round " << i;
        other.finish();
        ASSERT_TRUE(none_armed());
    }
    EXPECT_OK(hsa_signal_destroy(a.here));
}

TEST_F(handlers, the_thread_sleeps_while_nothing_happens)
{
    peer other;
    attached a = attach(other, 1);
    record r;
    timespec before, after;

    arm(a.here, &r);
    some_naps();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (int i = 0; i < 10; ++i) {
        some_naps();
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);

    /* 200 ms passed: a polling thread would have used most of it */
    EXPECT_LT((after.tv_sec - before.tv_sec) * 1000 +
              (after.tv_nsec - before.tv_nsec) / 1000000, 100);

    hsa_signal_store_screlease(a.here, 0);
    EXPECT_TRUE(called(r));
    EXPECT_OK(hsa_signal_destroy(a.here));
}

TEST_F(handlers, are_refused_for_signals_without_interrupts)
{
    peer other;
    attached a           = attach(other, 1);
    hsa_signal_t created = ipc_signal(1);
    hsa_signal_t gpu_only;
    record r;
    auto status = [&](hsa_signal_t s) {
        return hsa_amd_signal_async_handler(s, HSA_SIGNAL_CONDITION_EQ, 0, note,
                                            &r);
    };

    ASSERT_OK(hsa_amd_signal_create(1, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY,
                                    &gpu_only));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, status(created));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, status(gpu_only));
    EXPECT_INVALID(status(hsa_signal_t{0}));
    EXPECT_INVALID(hsa_amd_signal_async_handler(
            a.here, HSA_SIGNAL_CONDITION_EQ, 0, nullptr, &r));

    set("EMUL_IPC_HANDLER", "refuse");
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, status(a.here));
    EXPECT_EQ(0, count(EMUL_COUNT_HANDLERS));

    EXPECT_OK(hsa_signal_destroy(a.here));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL, status(a.here));
    EXPECT_OK(hsa_signal_destroy(created));
    EXPECT_OK(hsa_signal_destroy(gpu_only));
}

TEST_F(handlers, of_a_destroyed_signal_is_dropped_and_counted)
{
    hsa_signal_t s = signal(1);
    int64_t before = count(EMUL_COUNT_HANDLERS_DROPPED);
    record r;

    arm(s, &r);
    EXPECT_OK(hsa_signal_destroy(s));
    EXPECT_TRUE(none_armed());
    EXPECT_EQ(before + 1, count(EMUL_COUNT_HANDLERS_DROPPED));
    EXPECT_EQ(0, r.calls);
}

TEST_F(handlers, of_a_destroyed_attached_signal_does_not_see_its_last_value)
{
    peer other;
    attached a = attach(other, 1);
    record r;

    arm(a.here, &r);
    EXPECT_OK(hsa_signal_destroy(a.here));
    EXPECT_TRUE(none_armed());
    other.ask(verb::signal_store, a.at_peer, 0);
    some_naps();
    EXPECT_EQ(0, r.calls);
}

TEST_F(handlers, of_a_destroyed_signal_can_be_called_once_more)
{
    hsa_signal_t s = signal(17);
    record r;

    set("EMUL_DESTROYED_HANDLER", "call");
    r.keep = 5;
    arm(s, &r);
    EXPECT_OK(hsa_signal_destroy(s));
    EXPECT_TRUE(none_armed());
    EXPECT_EQ(1, r.calls);
    EXPECT_EQ(17, r.value);
}

TEST_F(handlers, wait_at_their_gate)
{
    hsa_signal_t s = signal(1);
    record r;

    close_gate("handler");
    arm(s, &r);
    hsa_signal_store_screlease(s, 0);
    ASSERT_TRUE(eventually([] { return waiters("handler") == 1; }));
    EXPECT_EQ(0, r.calls);
    EXPECT_EQ(1, count(EMUL_COUNT_HANDLERS));

    open_gate("handler");
    EXPECT_TRUE(called(r));
    EXPECT_EQ(0, waiters("handler"));
    EXPECT_TRUE(none_armed());
    EXPECT_OK(hsa_signal_destroy(s));
}

TEST_F(handlers, late_ones_need_an_unrelated_event)
{
    peer other;
    attached a         = attach(other, 1);
    hsa_signal_t event = signal(1);
    record r, unrelated;

    set("EMUL_HANDLER_WAKEUP", "late");
    arm(a.here, &r);
    other.ask(verb::signal_store, a.at_peer, 0);
    some_naps();
    EXPECT_EQ(0, r.calls);

    arm(event, &unrelated);
    EXPECT_TRUE(called(r));

    set("EMUL_HANDLER_WAKEUP", "prompt");
    hsa_signal_store_screlease(event, 0);
    EXPECT_TRUE(called(unrelated));
    EXPECT_OK(hsa_signal_destroy(a.here));
    EXPECT_OK(hsa_signal_destroy(event));
}

TEST_F(handlers, lost_ones_are_never_noticed)
{
    hsa_signal_t s     = signal(1);
    hsa_signal_t other = signal(1);
    record r, never;

    set("EMUL_HANDLER_WAKEUP", "lost");
    arm(s, &r);
    hsa_signal_store_screlease(s, 0);
    arm(other, &never);
    hsa_signal_store_screlease(other, 0);
    some_naps();
    EXPECT_EQ(0, r.calls + never.calls);

    /* until the setting is changed, to leave nothing behind */
    set("EMUL_HANDLER_WAKEUP", "prompt");
    EXPECT_TRUE(called(r));
    EXPECT_TRUE(called(never));
    EXPECT_OK(hsa_signal_destroy(s));
    EXPECT_OK(hsa_signal_destroy(other));
}

TEST_F(handlers, plain_functions_are_called_by_the_same_thread)
{
    static std::atomic<bool> ran;

    ran = false;
    EXPECT_OK(hsa_amd_async_function([](void *) { ran = true; }, nullptr));
    EXPECT_TRUE(eventually([] { return ran.load(); }));
}

TEST_F(handlers, exit_does_not_wait_for_a_held_handler)
{
    peer other;
    uint64_t s = other.ask(verb::signal_create, 0).value;
    std::string errors;

    close_gate("handler", other.pid());
    other.ask(verb::arm, s, 0);
    ASSERT_TRUE(eventually([&] {
        return waiters("handler", other.pid()) == 1;
    }));
    EXPECT_EQ(0, other.exit());
}
