/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"
#include "heap_watch.h"

using namespace cuda_test;

/* What runs out: descriptors, memory, and what one progress may do. */
class test_cuda_flush_limits : public test_cuda_base {
protected:
    /** Completions cannot be copied. */
    typedef std::list<completion> completions;

    /** Copies and flushes between them, to their end. Of managed memory UCX
     *  keeps some record for each copy. */
    void cycle()
    {
        const unsigned num = ucs_min(num_lanes(), 4u);
        completion flushed[3];

        for (unsigned i = 0; i < 3; ++i) {
            for (unsigned lane = 0; lane < num; ++lane) {
                start(lane);
            }
            start_flush(flushed[i]);
        }
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
        EXPECT_TRUE(progress_all());
        for (unsigned i = 0; i < 3; ++i) {
            expect_done(flushed[i]);
        }
        EXPECT_UCS_OK(flush(NULL));
    }

    /** Flush until there is no marker left, on so many lanes, of which none has
     *  anything to do. */
    void out_of_markers(unsigned num_streams)
    {
        const unsigned num_markers = 128;
        const unsigned num_flushes = num_markers / num_streams;
        std::vector<copy*> copies;
        completions flushed;
        completion refused;

        hold();
        for (unsigned lane = 0; lane < num_streams; ++lane) {
            copies.push_back(&start(lane));
        }
        for (unsigned i = 0; i < num_flushes; ++i) {
            flushed.emplace_back();
            start_flush(flushed.back());
        }

        for (unsigned i = 0; i < 5; ++i) {
            EXPECT_EQ(UCS_ERR_NO_MEMORY, flush(&refused));
        }
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
        if (emulated()) {
            EXPECT_EQ(0u, progress());
        }

        release();
        EXPECT_TRUE(progress_all());
        EXPECT_UCS_OK(flush(NULL));
        expect_waiting(refused);
        for (size_t i = 0; i < copies.size(); ++i) {
            expect_done(copies[i]->done);
        }
        for (completions::iterator it = flushed.begin(); it != flushed.end();
             ++it) {
            expect_done(*it);
        }
    }

    /** One stream has always something to complete, and is never empty, and
     *  another one waits. */
    void starve(bool with_flush)
    {
        const unsigned num_first = 4, most = 50;
        unsigned num_progress    = 0;
        completion flushed;

        hold();
        for (unsigned i = 0; i < num_first; ++i) {
            start(0);
        }
        copy &waiting              = start(1);
        std::function<void()> more = [&] {
            if (num_progress < most) {
                copy &next       = start(0);
                next.done.action = more;
                release();
                settle();
            }
        };
        more();
        more();
        if (with_flush) {
            start_flush(flushed);
        }

        while ((waiting.done.calls() == 0) && (num_progress < most)) {
            ++num_progress;
            EXPECT_LT(0u, progress());
        }
        expect_done(waiting.done);
        EXPECT_LE(num_progress, 2 * (num_first + 3));
        num_progress = most;
        EXPECT_TRUE(progress_all());
        if (with_flush) {
            expect_done(flushed);
        }
    }

    void need_memory_for(uint64_t nth_allocation)
    {
        completion flushed, refused;
        heap_watch watch;

        open();
        hold();
        copy &c = start(0);
        expect_message("failed to allocate a flush");
        expect_message("Failed to allocate memory pool");
        watch.fail(nth_allocation);
        EXPECT_EQ(UCS_ERR_NO_MEMORY, flush(&refused));
        EXPECT_EQ(UCS_INPROGRESS, flush(NULL));

        start_flush(flushed);
        release();
        EXPECT_TRUE(progress_until(flushed));
        expect_done(c.done);
        expect_done(flushed);
        expect_waiting(refused);
        EXPECT_UCS_OK(flush(NULL));
        EXPECT_EQ(0u, progress());
    }
};

/* One stream: each flush takes one. All can be taken, and again. */
UCS_TEST_P(test_cuda_flush_limits, out_of_markers_on_one_stream)
{
    open({{"MAX_EVENTS", "128"}});
    expect_message("failed to allocate a flush");
    out_of_markers(1);
    out_of_markers(1);
}

/* 42 flushes take three each. The 43rd finds two, and must not keep them. */
UCS_TEST_P(test_cuda_flush_limits, out_of_markers_half_way)
{
    need_lanes(3);
    open({{"MAX_EVENTS", "128"}});
    expect_message("failed to allocate a flush");
    out_of_markers(3);
    out_of_markers(3);
    out_of_markers(2);
}

UCS_TEST_P(test_cuda_flush_limits, no_memory_for_flush)
{
    need_memory_for(1);
}

UCS_TEST_P(test_cuda_flush_limits, no_memory_for_markers)
{
    need_memory_for(2);
}

UCS_TEST_P(test_cuda_flush_limits, allocates_nothing_once_warm)
{
    open();
    {
        heap_watch watch;

        cycle();
        EXPECT_LT(0u, watch.num_allocations());
    }
    cycle();

    heap_watch watch;
    for (unsigned i = 0; i < 10; ++i) {
        cycle();
    }
    EXPECT_EQ(0u, watch.num_allocations());
}

/* Whether markers count is the transport's affair. */
UCS_TEST_P(test_cuda_flush_limits, progress_does_no_more_than_max_poll)
{
    const unsigned max_poll = 4, num = 30;
    unsigned num_done       = 0;
    completions flushed;

    open({{"MAX_POLL", ucs::to_string(max_poll)}});
    hold();
    for (unsigned i = 0; i < num; ++i) {
        copy &c       = prepare(i % num_lanes());
        c.done.action = [&num_done] { ++num_done; };
        ASSERT_EQ(UCS_INPROGRESS, post(c));
        if (i % 5 == 0) {
            flushed.emplace_back();
            start_flush(flushed.back());
        }
    }
    release();
    settle();

    /* All is done on the device, so each progress does something */
    while (!is_idle()) {
        unsigned before = num_done;

        ASSERT_LT(0u, progress());
        EXPECT_LE(num_done - before, max_poll);
    }

    EXPECT_EQ(num, num_done);
    for (completions::iterator it = flushed.begin(); it != flushed.end();
         ++it) {
        expect_done(*it);
    }
}

/* Each of two flushes is issued again by its callback, and so always finds the
 * other one outstanding. The user must get out of progress some time. */
UCS_TEST_P(test_cuda_flush_limits, progress_ends_while_callbacks_flush_again)
{
    const unsigned most = 10000;
    unsigned num        = 0;
    completions flushed;

    open();
    start(0);
    std::function<void()> again = [&] {
        if (num < most) {
            ++num;
            flushed.emplace_back();
            flushed.back().action = again;
            EXPECT_EQ(UCS_INPROGRESS, flush(&flushed.back()));
        }
    };
    again();
    again();
    settle();
    EXPECT_LT(0u, progress());
    EXPECT_GT(most, num) << "progress went on and on";
    num = most;
    EXPECT_TRUE(progress_all());
    for (completions::iterator it = flushed.begin(); it != flushed.end();
         ++it) {
        expect_done(*it);
    }
}

UCS_TEST_P(test_cuda_flush_limits, max_poll_of_zero_still_progresses)
{
    completion flushed;

    open({{"MAX_POLL", "0"}});
    copy &c = start(0);
    start_flush(flushed);
    EXPECT_TRUE(progress_until(flushed));
    expect_done(c.done);
    expect_done(flushed);
}

UCS_TEST_P(test_cuda_flush_limits, busy_stream_does_not_starve_another)
{
    need_lanes(2);
    open({{"MAX_POLL", "1"}});
    starve(false);
    starve(true);
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_limits)
