/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"
#include "heap_watch.h"

using namespace cuda_test;

/* An interface that is closed in the midst of it: nothing is called any more,
 * and nothing leaks. What a test has opened before that is counted in the
 * end, and a pool that misses something says so. */
class test_cuda_flush_end : public test_cuda_base {
protected:
    typedef std::list<completion> completions;

    void start_work(unsigned num_flushes)
    {
        for (unsigned i = 0; i < num_flushes; ++i) {
            for (unsigned lane = 0; lane < num_lanes(); ++lane) {
                if ((i + lane) % 2 == 0) {
                    start(lane);
                }
            }
            m_flushed.emplace_back();
            start_flush(m_flushed.back());
        }
    }

    void expect_nothing_called()
    {
        for (std::list<copy>::iterator it = m_copies.begin();
             it != m_copies.end(); ++it) {
            expect_waiting(it->done);
        }
        for (completions::iterator it = m_flushed.begin();
             it != m_flushed.end(); ++it) {
            expect_waiting(*it);
        }
    }

    void expect_warning(unsigned num_flushes)
    {
        expect_message("interface destroyed with " +
                       ucs::to_string(num_flushes) + " outstanding flushes");
        expect_message(leaves_copies_message());
    }

    /** There are many interfaces, and each may make all that it is allowed. */
    config_t few_streams() const
    {
        config_t config;

        if (is_ipc()) {
            config["MAX_STREAMS"] = ucs::to_string(m_max_devices);
        }
        return config;
    }

    /** The life of an interface, to the end of its work or not so far. */
    void live(bool to_the_end)
    {
        const unsigned num = 40;
        transport second(GetParam(), few_streams());
        completions flushed;
        copy &c = prepare(is_ipc() ? 0 : host_to_host);
        uct_ep_h ep;

        ep = second.connect(is_ipc() ? m_owner->address() : second.address());
        for (unsigned i = 0; i < num; ++i) {
            EXPECT_EQ(UCS_INPROGRESS, c.where.post(ep, c.slot, c.is_put, NULL));
            flushed.emplace_back();
            EXPECT_EQ(UCS_INPROGRESS, uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL,
                                                   flushed.back().get()));
        }
        settle();

        while (to_the_end && (uct_iface_progress(second.iface()) > 0)) {
        }
        for (completions::iterator it = flushed.begin(); it != flushed.end();
             ++it) {
            EXPECT_EQ(to_the_end ? 1u : 0u, it->calls());
        }
        uct_ep_destroy(ep);
    }

    completions m_flushed;
};

UCS_TEST_P(test_cuda_flush_end, idle_is_silent)
{
    completion flushed;

    open();
    start(0);
    start_flush(flushed);
    EXPECT_TRUE(progress_until(flushed));
    close_iface();
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush_end, outstanding_flushes_are_warned_of)
{
    const unsigned num = 3;

    open();
    hold();
    start_work(num);
    expect_warning(num);
    close_iface();
    release();
    settle();
    expect_nothing_called();
}

/* All is done, and nobody has progressed. */
UCS_TEST_P(test_cuda_flush_end, flushes_that_nobody_has_seen_are_warned_of)
{
    open();
    start_work(1);
    settle();
    expect_warning(1);
    close_iface();
    expect_nothing_called();
}

/* A part of the markers is reached, and those left are on one stream. */
UCS_TEST_P(test_cuda_flush_end, flush_that_is_half_done_is_warned_of)
{
    completion flushed;
    std::string gate;

    need_emulator();
    need_lanes(2);
    open();
    gate = gate_of(0);
    m_emulator.close_gate(gate);
    copy &held = start(0);
    copy &c    = start(1);
    start_flush(flushed);
    EXPECT_TRUE(progress_until(c.done));
    while (progress() > 0) {
    }
    expect_warning(1);
    close_iface();
    release();
    settle();
    expect_waiting(held.done);
    expect_waiting(flushed);
}

UCS_TEST_P(test_cuda_flush_end, copies_without_flush_are_no_flushes)
{
    open();
    start(0);
    expect_message(leaves_copies_message());
    close_iface();
    EXPECT_EQ(0u, num_messages("outstanding flushes"));
    settle();
}

UCS_TEST_P(test_cuda_flush_end, nothing_stays_mapped)
{
    int64_t attaches;

    need_emulator();
    open(without_cache());
    attaches = m_emulator.count(EMUL_COUNT_ATTACHES);
    hold();
    start_work(2);
    if (is_ipc()) {
        EXPECT_LT(attaches, m_emulator.count(EMUL_COUNT_ATTACHES));
    }
    release(); /* A mapping is not closed before the copy is done */
    settle();
    expect_warning(2);
    close_iface();
    EXPECT_EQ(attaches, m_emulator.count(EMUL_COUNT_ATTACHES));
}

/* UCX's tables may grow some time and keep a little for ever. What leaks does
 * so each time. */
UCS_TEST_P(test_cuda_flush_end, no_memory_leaks)
{
    const size_t num_lives = 20;
    size_t num_live;

    open();
    close_iface();
    allow_messages();

    heap_watch watch;
    live(true);
    num_live = watch.num_live();
    for (size_t i = 0; i < num_lives; ++i) {
        live(false);
    }
    EXPECT_LT(watch.num_live(), num_live + num_lives);
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_end)
