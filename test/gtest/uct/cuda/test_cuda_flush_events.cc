/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

#include <poll.h>
#include <unistd.h>

using namespace cuda_test;

/* Users that sleep until there is something to do. */
class test_cuda_flush_events : public test_cuda_base {
protected:
    ucs_status_t arm()
    {
        return uct_iface_event_arm(iface(), UCT_EVENT_SEND_COMP);
    }

    /** Whether the transport calls for progress within this time, in ms. */
    bool is_called(int timeout)
    {
        struct pollfd pfd = {m_event_fd, POLLIN, 0};

        return poll(&pfd, 1, timeout) == 1;
    }

    bool is_called_in_time()
    {
        return is_called((int)(time_limit() * 1e3));
    }

    /** What we write ourselves we read ourselves; cuda_ipc reads its own. */
    void forget_call()
    {
        uint64_t value;

        if (!is_ipc()) {
            EXPECT_EQ((ssize_t)sizeof(value),
                      read(m_event_fd, &value, sizeof(value)));
        }
    }

    /** As an event-driven user does: progress while there is something, then
     *  sleep until it is called. */
    void sleep_until(const completion &comp)
    {
        while (comp.calls() == 0) {
            ucs_status_t status;

            if (progress() > 0) {
                continue;
            }

            status = arm();
            if (status == UCS_ERR_BUSY) {
                continue;
            }

            EXPECT_UCS_OK(status);
            if (!is_called_in_time()) {
                ADD_FAILURE() << "nobody has called for progress";
                break;
            }
            forget_call();
        }
    }

    /** The copies are held, so that the user surely sleeps. */
    void sleep_until_flushed(unsigned num_streams)
    {
        completion flushed;

        hold();
        for (unsigned lane = 0; lane < num_streams; ++lane) {
            start(lane);
        }
        start_flush(flushed);
        if (emulated()) {
            EXPECT_UCS_OK(arm());
            EXPECT_FALSE(is_called(0));
            release();
            EXPECT_TRUE(is_called_in_time());
            forget_call();
        }
        sleep_until(flushed);
        expect_done(flushed);
        EXPECT_UCS_OK(flush(NULL));
        drain();
    }

    /** Let callbacks of the last arming come, and forget them. */
    void drain()
    {
        settle();
        while (is_called(0)) {
            uint64_t value;

            EXPECT_EQ((ssize_t)sizeof(value),
                      read(m_event_fd, &value, sizeof(value)));
        }
    }
};

UCS_TEST_P(test_cuda_flush_events, idle_can_be_armed)
{
    open();
    EXPECT_UCS_OK(arm());
    EXPECT_FALSE(is_called(0));
}

UCS_TEST_P(test_cuda_flush_events, busy_while_copy_is_done)
{
    open();
    copy &c = start(0);
    settle();
    EXPECT_EQ(UCS_ERR_BUSY, arm());
    EXPECT_TRUE(progress_all());
    expect_done(c.done);
    EXPECT_UCS_OK(arm());
}

/* As long as a marker can be reached: nothing would wake up its user. There are
 * more behind each copy than one progress completes. */
UCS_TEST_P(test_cuda_flush_events, busy_while_marker_is_ready)
{
    const unsigned num_copies = 2, num_flushes = 3000;
    std::list<completion> flushed;

    open({{"MAX_POLL", "1"}});
    hold();
    for (unsigned i = 0; i < num_flushes; ++i) {
        if (i % (num_flushes / num_copies) == 0) {
            start(0);
        }
        flushed.emplace_back();
        start_flush(flushed.back());
    }
    release();
    settle();
    while (flushed.back().calls() == 0) {
        EXPECT_EQ(UCS_ERR_BUSY, arm());
        progress();
    }
    for (std::list<completion>::iterator it = flushed.begin();
         it != flushed.end(); ++it) {
        expect_done(*it);
    }
    EXPECT_UCS_OK(arm());
    EXPECT_FALSE(is_called(0));
}

/* One stream has come to its marker, and the others are slow. */
UCS_TEST_P(test_cuda_flush_events, flush_that_is_half_done_wakes_up)
{
    completion flushed;
    std::string gate;

    need_emulator();
    need_lanes(2);
    open({{"MAX_POLL", "1"}});
    gate = gate_of(0);
    m_emulator.close_gate(gate);
    copy &held = start(0);
    copy &c    = start(1);
    start_flush(flushed);
    EXPECT_TRUE(progress_until(c.done));
    while (arm() == UCS_ERR_BUSY) {
        progress();
    }
    expect_waiting(held.done);
    expect_waiting(flushed);
    EXPECT_EQ(0u, progress());
    EXPECT_FALSE(is_called(0));
    release();
    EXPECT_TRUE(is_called_in_time());
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed);
    drain();
}

UCS_TEST_P(test_cuda_flush_events, flush_on_one_stream_wakes_up)
{
    open();
    for (unsigned i = 0; i < 10; ++i) {
        sleep_until_flushed(1);
    }
}

UCS_TEST_P(test_cuda_flush_events, flush_on_all_streams_wakes_up)
{
    open();
    for (unsigned i = 0; i < 3; ++i) {
        sleep_until_flushed(num_lanes());
    }
}

UCS_TEST_P(test_cuda_flush_events, several_flushes_wake_up)
{
    const unsigned num = 5;
    completion flushed[num];

    open();
    hold();
    for (unsigned i = 0; i < num; ++i) {
        start(i % num_lanes());
        start_flush(flushed[i]);
    }
    if (emulated()) {
        EXPECT_UCS_OK(arm());
        release();
    }
    sleep_until(flushed[num - 1]);
    for (unsigned i = 0; i < num; ++i) {
        expect_done(flushed[i]);
    }
    drain();
}

/* The last stream finishes long after the user has been woken up by the first
 * one, and has armed again. */
UCS_TEST_P(test_cuda_flush_events, flush_wakes_up_for_each_stream)
{
    completion flushed;
    std::string gate;

    need_emulator();
    need_lanes(2);
    open();
    gate = gate_of(1);
    m_emulator.close_gate(gate);
    copy &first = start(0);
    copy &last  = start(1);
    start_flush(flushed);
    sleep_until(first.done);
    expect_waiting(flushed);
    while (progress() > 0) {
    }
    while (arm() == UCS_ERR_BUSY) {
        progress();
    }
    m_emulator.open_gate(gate);
    EXPECT_TRUE(is_called_in_time());
    sleep_until(flushed);
    expect_done(last.done);
    expect_done(flushed);
    drain();
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_events)
