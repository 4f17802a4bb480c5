/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "test_cuda.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#ifdef ENABLE_STATS
extern "C" {
#include <uct/base/uct_iface.h>
}
#endif

using namespace cuda_test;

/* What a flush answers, and when it completes. */
class test_cuda_flush : public test_cuda_base {
protected:
    /** When the completion is called, the copies were called before it, and
     *  their data is there. */
    void
    expect_arrived_at(completion &flushed, const std::vector<copy *> &copies)
    {
        flushed.action = [copies] {
            for (size_t i = 0; i < copies.size(); ++i) {
                EXPECT_EQ(1u, copies[i]->done.calls());
                EXPECT_TRUE(copies[i]->arrived());
            }
        };
    }

    std::vector<copy *> start_on_all_lanes()
    {
        std::vector<copy *> copies;

        for (unsigned i = 0; i < num_lanes(); ++i) {
            copies.push_back(&start(i));
        }
        return copies;
    }

    void waits_for_all(unsigned flags)
    {
        completion flushed;
        std::vector<copy*> copies;

        open();
        hold();
        copies = start_on_all_lanes();
        expect_arrived_at(flushed, copies);
        start_flush(flushed, flags);
        for (unsigned i = 0; emulated() && (i < 10); ++i) {
            EXPECT_EQ(0u, progress());
            expect_waiting(flushed);
        }

        release();
        EXPECT_TRUE(progress_until(flushed));
        expect_done(flushed);
        EXPECT_UCS_OK(flush(NULL));
        EXPECT_EQ(0u, progress());
        expect_done(flushed);
    }
};

UCS_TEST_P(test_cuda_flush, idle_is_done_and_calls_nothing)
{
    completion flushed;

    open();
    EXPECT_UCS_OK(flush(NULL));
    EXPECT_UCS_OK(flush(&flushed));
    EXPECT_EQ(0u, progress());
    expect_waiting(flushed);
}

UCS_TEST_P(test_cuda_flush, done_again_after_copies)
{
    completion flushed;

    open();
    copy &c = start(0);
    EXPECT_TRUE(progress_until(c.done));
    EXPECT_UCS_OK(flush(NULL));
    EXPECT_UCS_OK(flush(&flushed));
    EXPECT_EQ(0u, progress());
    expect_waiting(flushed);
}

UCS_TEST_P(test_cuda_flush, without_completion_says_in_progress)
{
    open();
    hold();
    copy &c = start(0);
    EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    expect_waiting(c.done);
    release();
    EXPECT_TRUE(progress_until(c.done));
    EXPECT_UCS_OK(flush(NULL));
}

UCS_TEST_P(test_cuda_flush, without_completion_queues_nothing)
{
    open();
    hold();
    copy &c = start(0);
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    }
    release();
    settle();
    EXPECT_EQ(1u, progress());
    expect_done(c.done);
    EXPECT_UCS_OK(flush(NULL));
}

/* What was done and not been seen to be is still outstanding. */
UCS_TEST_P(test_cuda_flush, says_in_progress_until_somebody_progresses)
{
    open();
    copy &c = start(0);
    settle();
    EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    EXPECT_TRUE(progress_until(c.done));
    EXPECT_UCS_OK(flush(NULL));
}

UCS_TEST_P(test_cuda_flush, waits_for_one_copy)
{
    completion flushed;

    open();
    hold();
    copy &c = start(0);
    expect_arrived_at(flushed, {&c});
    start_flush(flushed);
    if (emulated()) {
        EXPECT_EQ(0u, progress());
        expect_waiting(flushed);
        EXPECT_FALSE(c.arrived());
    }

    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(c.done);
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush, waits_for_copies_of_all_streams)
{
    waits_for_all(UCT_FLUSH_FLAG_LOCAL);
}

UCS_TEST_P(test_cuda_flush, to_cancel_waits_as_well)
{
    waits_for_all(UCT_FLUSH_FLAG_CANCEL);
}

UCS_TEST_P(test_cuda_flush, of_remote_side_waits_as_well)
{
    waits_for_all(CUDA_FLUSH_FLAG_REMOTE);
}

UCS_TEST_P(test_cuda_flush, flags_do_not_change_what_is_idle)
{
    completion flushed;

    open();
    EXPECT_UCS_OK(flush(&flushed, UCT_FLUSH_FLAG_CANCEL));
    EXPECT_UCS_OK(flush(&flushed, CUDA_FLUSH_FLAG_REMOTE));
    EXPECT_UCS_OK(flush(NULL, UCT_FLUSH_FLAG_CANCEL | CUDA_FLUSH_FLAG_REMOTE));
    expect_waiting(flushed);
}

/* One stream at a time is late, whichever it is. */
UCS_TEST_P(test_cuda_flush, waits_for_each_stream)
{
    std::vector<std::string> gates;

    need_emulator();
    m_max_devices = 16; /* As many streams as cuda_ipc can have */
    open();
    for (unsigned late = 0; late < num_lanes(); ++late) {
        gates.push_back(gate_of(late));
    }

    for (unsigned late = 0; late < num_lanes(); ++late) {
        std::vector<copy*> copies;
        completion flushed;

        m_emulator.close_gate(gates[late]);
        copies = start_on_all_lanes();
        expect_arrived_at(flushed, copies);
        start_flush(flushed);
        for (unsigned i = 0; i < num_lanes(); ++i) {
            if (i != late) {
                EXPECT_TRUE(progress_until(copies[i]->done));
            }
        }
        while (progress() > 0) {
        }
        expect_waiting(copies[late]->done);
        expect_waiting(flushed);

        release();
        EXPECT_TRUE(progress_until(flushed));
        expect_done(flushed);
    }
}

UCS_TEST_P(test_cuda_flush, waits_for_copy_without_completion)
{
    completion flushed;

    open();
    hold();
    copy &c = prepare(0);
    EXPECT_EQ(UCS_INPROGRESS, post(c, false));
    EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    flushed.action = [&c] { EXPECT_TRUE(c.arrived()); };
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed);
    expect_waiting(c.done);
}

/* Endpoints share the streams of their interface. */
UCS_TEST_P(test_cuda_flush, waits_for_copy_of_another_endpoint)
{
    completion flushed;
    uct_ep_h other;

    open();
    other = connect();
    EXPECT_UCS_OK(uct_ep_flush(other, UCT_FLUSH_FLAG_LOCAL, flushed.get()));
    hold();
    copy &c = start(0);
    expect_arrived_at(flushed, {&c});
    EXPECT_EQ(UCS_INPROGRESS, uct_ep_flush(other, UCT_FLUSH_FLAG_LOCAL, NULL));
    EXPECT_EQ(UCS_INPROGRESS,
              uct_ep_flush(other, UCT_FLUSH_FLAG_LOCAL, flushed.get()));
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed);
    uct_ep_destroy(other);
}

UCS_TEST_P(test_cuda_flush, completes_after_its_endpoint_is_destroyed)
{
    completion flushed;
    uct_ep_h other;

    open();
    other = connect();
    hold();
    copy &c = start(0);
    EXPECT_EQ(UCS_INPROGRESS,
              uct_ep_flush(other, UCT_FLUSH_FLAG_LOCAL, flushed.get()));
    uct_ep_destroy(other);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(c.done);
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush, nothing_to_wait_for_after_empty_copy)
{
    uct_iov_t iov = {};
    completion copied;

    open();
    iov.count = 1;
    EXPECT_UCS_OK(
            uct_ep_put_zcopy(m_ep, &iov, 1, 0, UCT_INVALID_RKEY, copied.get()));
    EXPECT_UCS_OK(flush(NULL));
    expect_waiting(copied);
}

/* UCT's completions count: a user may have one for several flushes. */
UCS_TEST_P(test_cuda_flush, one_completion_for_many_is_called_by_the_last)
{
    const int num = 5;
    completion flushed;

    open();
    hold();
    flushed.get()->count = num;
    for (int i = 0; i < num; ++i) {
        start(0);
        EXPECT_EQ(UCS_INPROGRESS, flush(&flushed));
    }
    release();
    EXPECT_TRUE(progress_all());
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush, of_interface_knows_no_completion)
{
    completion flushed;

    open();
    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, flushed.get()));
    hold();
    start(0);
    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, flushed.get()));
    release();
    EXPECT_TRUE(progress_all());
    expect_waiting(flushed);
}

UCS_TEST_P(test_cuda_flush, of_interface_waits_for_copies)
{
    open();
    EXPECT_UCS_OK(uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, NULL));
    copy &c = start(0);
    EXPECT_EQ(UCS_INPROGRESS,
              uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, NULL));
    EXPECT_TRUE(progress_until(c.done));
    EXPECT_UCS_OK(uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, NULL));
}

/* A marker is work: when all copies have completed, the interface is not idle
 * yet, and a flush waits for the marker of another one. */
UCS_TEST_P(test_cuda_flush, of_interface_waits_for_markers)
{
    completion flushed, later;

    open();
    hold();
    copy &c       = prepare(0);
    c.done.action = [&] {
        EXPECT_FALSE(is_idle());
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
        start_flush(later);
        expect_waiting(flushed);
    };
    ASSERT_EQ(UCS_INPROGRESS, post(c));
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(later));
    expect_done(c.done);
    expect_done(flushed);
    expect_done(later);
    EXPECT_LT(flushed.order(), later.order());
    EXPECT_TRUE(is_idle());
    EXPECT_UCS_OK(flush(NULL));
}

#ifdef ENABLE_STATS
UCS_TEST_P(test_cuda_flush, is_counted)
{
    uct_base_ep_t *base;
    completion flushed;

    open();
    base = ucs_derived_of(m_ep, uct_base_ep_t);
    EXPECT_UCS_OK(flush(NULL));
    EXPECT_EQ(1u, UCS_STATS_GET_COUNTER(base->stats, UCT_EP_STAT_FLUSH));
    EXPECT_EQ(0u, UCS_STATS_GET_COUNTER(base->stats, UCT_EP_STAT_FLUSH_WAIT));
    start(0);
    EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    start_flush(flushed);
    EXPECT_EQ(1u, UCS_STATS_GET_COUNTER(base->stats, UCT_EP_STAT_FLUSH));
    EXPECT_EQ(2u, UCS_STATS_GET_COUNTER(base->stats, UCT_EP_STAT_FLUSH_WAIT));
    EXPECT_TRUE(progress_until(flushed));
}
#endif

CUDA_TEST_TRANSPORTS(test_cuda_flush)


/* What stock UCX gets wrong: run over its modules, this fails. */
class test_cuda_flush_answer : public test_cuda_base {};

/* While a copy is held, nobody can say that it is done. Stock cuda_copy of UCX 1.18
 * waits in the driver for it, so that it must be let go some time. */
UCS_TEST_P(test_cuda_flush_answer, ok_means_that_copies_are_done)
{
    std::atomic<bool> is_released(false);
    ucs_status_t status;

    need_emulator();
    open();
    hold();
    start(0);
    std::thread releasing([&] {
        usleep(200000);
        is_released = true;
        release();
    });
    status = flush(NULL);
    EXPECT_TRUE((status == UCS_INPROGRESS) || is_released)
            << "a flush without completion answers '"
            << ucs_status_string(status) << "' while a copy runs";
    releasing.join();
    EXPECT_TRUE(progress_all());
    EXPECT_UCS_OK(flush(NULL));
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_answer)
