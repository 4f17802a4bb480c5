/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

using namespace cuda_test;

/* Several flushes, copies between them, and callbacks which go on. */
class test_cuda_flush_order : public test_cuda_base {};

UCS_TEST_P(test_cuda_flush_order, flushes_complete_in_order_of_issue)
{
    const unsigned num = 8;
    completion flushed[num];
    std::vector<copy*> copies;

    open();
    hold();
    for (unsigned i = 0; i < num; ++i) {
        copies.push_back(&start(0));
        start_flush(flushed[i]);
    }

    release();
    EXPECT_TRUE(progress_until(flushed[num - 1]));
    for (unsigned i = 0; i < num; ++i) {
        expect_done(copies[i]->done);
        expect_done(flushed[i]);
        EXPECT_LT(copies[i]->done.order(), flushed[i].order());
        if (i > 0) {
            EXPECT_LT(flushed[i - 1].order(), copies[i]->done.order());
        }
    }
}

UCS_TEST_P(test_cuda_flush_order, flushes_of_same_work_complete_in_order)
{
    const unsigned num = 8;
    completion flushed[num];

    open();
    hold();
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        start(lane);
    }
    for (unsigned i = 0; i < num; ++i) {
        start_flush(flushed[i]);
    }

    release();
    EXPECT_TRUE(progress_all());
    for (unsigned i = 0; i < num; ++i) {
        expect_done(flushed[i]);
        if (i > 0) {
            EXPECT_LT(flushed[i - 1].order(), flushed[i].order());
        }
    }
}

UCS_TEST_P(test_cuda_flush_order, later_copy_on_stream_does_not_delay)
{
    completion flushed;

    open();
    hold();
    copy &before = start(0);
    start_flush(flushed);
    copy &after = start(0);

    pass(1);
    EXPECT_TRUE(progress_until(flushed));
    expect_done(before.done);
    expect_done(flushed);
    if (emulated()) {
        expect_waiting(after.done);
        EXPECT_FALSE(after.arrived());
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    }

    release();
    EXPECT_TRUE(progress_until(after.done));
    EXPECT_LT(flushed.order(), after.done.order());
    EXPECT_UCS_OK(flush(NULL));
}

UCS_TEST_P(test_cuda_flush_order, later_copy_on_another_stream_does_not_delay)
{
    completion flushed;
    std::string gate;

    need_emulator();
    need_lanes(2);
    open();
    gate = gate_of(1);
    hold();
    copy &before = start(0);
    start_flush(flushed);
    m_emulator.close_gate(gate);
    copy &after = start(1);

    m_emulator.open_gate("copy");
    EXPECT_TRUE(progress_until(flushed));
    expect_done(before.done);
    expect_waiting(after.done);
    release();
    EXPECT_TRUE(progress_until(after.done));
}

/* A flush has no marker on a stream that had nothing to do when it was issued,
 * and the next one has. */
UCS_TEST_P(test_cuda_flush_order, flushes_wait_for_their_own_streams_only)
{
    completion first, second;
    std::string gate;

    need_emulator();
    need_lanes(2);
    open();
    gate = gate_of(0);
    m_emulator.close_gate(gate);
    copy &on_first = start(0);
    start_flush(first);
    copy &on_second = start(1);
    start_flush(second);

    EXPECT_TRUE(progress_until(on_second.done));
    while (progress() > 0) {
    }
    expect_waiting(on_first.done);
    expect_waiting(first);
    expect_waiting(second);
    release();
    EXPECT_TRUE(progress_until(second));
    expect_done(on_first.done);
    expect_done(first);
    EXPECT_LT(first.order(), second.order());
}

UCS_TEST_P(test_cuda_flush_order, flush_from_callback_of_only_copy)
{
    completion flushed;
    ucs_status_t status = UCS_ERR_LAST;

    open();
    copy &c       = prepare(0);
    c.done.action = [&] { status = flush(&flushed); };
    ASSERT_EQ(UCS_INPROGRESS, post(c));
    EXPECT_TRUE(progress_until(c.done));
    EXPECT_TRUE(progress_all());

    /* The copy is not outstanding any more when its callback runs; where it is,
     * the flush is called like any other */
    if (status == UCS_OK) {
        expect_waiting(flushed);
    } else {
        EXPECT_EQ(UCS_INPROGRESS, status);
        expect_done(flushed);
    }
}

UCS_TEST_P(test_cuda_flush_order, flush_from_callback_waits_for_other_copies)
{
    completion flushed;

    open();
    hold();
    copy &first       = prepare(0);
    first.done.action = [&] { start_flush(flushed); };
    ASSERT_EQ(UCS_INPROGRESS, post(first));
    copy &second = start(0);

    pass(1);
    EXPECT_TRUE(progress_until(first.done));
    if (emulated()) {
        EXPECT_EQ(0u, progress());
        expect_waiting(second.done);
        expect_waiting(flushed);
    }

    release();
    EXPECT_TRUE(progress_until(flushed));
    EXPECT_LT(second.done.order(), flushed.order());
    expect_done(second.done);
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush_order, flush_from_callback_of_flush)
{
    completion first, second;

    open();
    hold();
    start(0);
    first.action = [&] { start_flush(second); };
    start_flush(first);
    copy &later = start(0);
    release();
    EXPECT_TRUE(progress_all());
    expect_done(first);
    expect_done(later.done);
    expect_done(second);
    EXPECT_LT(later.done.order(), second.order());
}

UCS_TEST_P(test_cuda_flush_order, flush_from_callback_of_last_flush_is_done)
{
    completion first, second;

    open();
    start(0);
    first.action = [&] {
        EXPECT_UCS_OK(flush(NULL));
        EXPECT_UCS_OK(flush(&second));
    };
    start_flush(first);
    EXPECT_TRUE(progress_until(first));
    EXPECT_EQ(0u, progress());
    expect_done(first);
    expect_waiting(second);
}

/* The callback makes its own queue active again, in the midst of progress. */
UCS_TEST_P(test_cuda_flush_order, copies_from_callbacks_on_same_stream)
{
    const unsigned num = 20;
    std::vector<copy*> copies;
    completion flushed;

    open();
    for (unsigned i = 0; i < num; ++i) {
        copies.push_back(&prepare(0));
    }
    for (unsigned i = 0; i + 1 < num; ++i) {
        copy *next            = copies[i + 1];
        copies[i]->done.action = [this, next] {
            EXPECT_EQ(UCS_INPROGRESS, post(*next));
        };
    }
    copies[num - 1]->done.action = [&] {
        if (flush(&flushed) == UCS_OK) {
            EXPECT_TRUE(copies[num - 1]->arrived());
        }
    };

    ASSERT_EQ(UCS_INPROGRESS, post(*copies[0]));
    EXPECT_TRUE(progress_until(copies[num - 1]->done));
    EXPECT_TRUE(progress_all());
    for (unsigned i = 0; i < num; ++i) {
        expect_done(copies[i]->done);
        EXPECT_TRUE(copies[i]->arrived());
    }
}

UCS_TEST_P(test_cuda_flush_order, copies_from_callbacks_on_all_streams)
{
    completion flushed;
    std::vector<copy*> first, second;

    open();
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        unsigned other = (lane + 1) % num_lanes();

        first.push_back(&prepare(lane));
        second.push_back(&prepare(other));
        copy *next = second.back();
        first.back()->done.action = [this, next] {
            EXPECT_EQ(UCS_INPROGRESS, post(*next));
        };
    }
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        ASSERT_EQ(UCS_INPROGRESS, post(*first[lane]));
    }
    start_flush(flushed);
    EXPECT_TRUE(progress_all());
    expect_done(flushed);
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        expect_done(first[lane]->done);
        expect_done(second[lane]->done);
        EXPECT_TRUE(second[lane]->arrived());
    }
}

UCS_TEST_P(test_cuda_flush_order, copy_from_callback_of_flush)
{
    completion first, second;

    open();
    copy &c = start(0);
    copy &d = prepare(0);
    first.action = [&] {
        EXPECT_EQ(UCS_INPROGRESS, post(d));
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
        start_flush(second);
    };
    start_flush(first);
    EXPECT_TRUE(progress_until(second));
    expect_done(c.done);
    expect_done(first);
    expect_done(d.done);
    expect_done(second);
    EXPECT_TRUE(d.arrived());
}

/* Again and again, with other streams at work each time. */
UCS_TEST_P(test_cuda_flush_order, many_rounds_of_copies_and_flushes)
{
    const unsigned num_rounds = 50;
    unsigned num_flushed      = 0;

    open({}, 16);
    for (unsigned round = 0; round < num_rounds; ++round) {
        completion flushed;
        std::vector<copy*> copies;

        for (unsigned lane = 0; lane < num_lanes(); ++lane) {
            if ((round + lane) % 3 != 0) {
                copies.push_back(&start(lane));
            }
        }
        flushed.action = [&] {
            ++num_flushed;
            for (size_t i = 0; i < copies.size(); ++i) {
                expect_done(copies[i]->done);
                EXPECT_TRUE(copies[i]->arrived());
            }
        };
        if (copies.empty()) {
            EXPECT_UCS_OK(flush(&flushed));
            ++num_flushed;
        } else {
            start_flush(flushed);
            EXPECT_TRUE(progress_until(flushed));
        }
        EXPECT_UCS_OK(flush(NULL));
    }
    EXPECT_EQ(num_rounds, num_flushed);
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_order)
