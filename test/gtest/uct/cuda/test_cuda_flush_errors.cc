/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"
#include "heap_watch.h"

using namespace cuda_test;

/* Copies that fail while they run: the flushes which waited for them tell. */
class test_cuda_flush_errors : public test_cuda_base {
protected:
    /** A copy that goes wrong breaks its context. On a GPU it breaks all of the
     *  process, but there are more tests to come. */
    void fail_copy(unsigned nth)
    {
        m_emulator.set("EMUL_ERROR_SCOPE", "context");
        m_emulator.fail("copy", CUDA_ERROR_ILLEGAL_ADDRESS, nth);
        context_is_broken();
        allow_messages();
    }

    /** Only the next look at an event goes wrong. */
    void fail_query(unsigned nth, unsigned num = 1)
    {
        m_emulator.fail("cuEventQuery", CUDA_ERROR_LAUNCH_FAILED, nth, num);
        expect_message("failed");
    }
};

UCS_TEST_P(test_cuda_flush_errors, failed_copy_fails_flush)
{
    completion flushed;

    need_emulator();
    open();
    hold();
    fail_copy(1);
    copy &c = start(0);
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(c.done, UCS_ERR_IO_ERROR);
    expect_done(flushed, UCS_ERR_IO_ERROR);
    EXPECT_FALSE(num_messages("cuda copy failed: ") == 0);
    EXPECT_UCS_OK(flush(NULL));
}

UCS_TEST_P(test_cuda_flush_errors, failed_copy_without_completion_fails_flush)
{
    completion flushed;

    need_emulator();
    open();
    hold();
    fail_copy(1);
    EXPECT_EQ(UCS_INPROGRESS, post(prepare(0), false));
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed, UCS_ERR_IO_ERROR);
}

/* The error sticks to the context, and so to all that is not completed. */
UCS_TEST_P(test_cuda_flush_errors, failed_copy_fails_all_that_is_outstanding)
{
    std::vector<copy*> copies;
    completion first, second;

    need_emulator();
    open();
    hold();
    fail_copy(1);
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        copies.push_back(&start(lane));
    }
    start_flush(first);
    copies.push_back(&start(0));
    start_flush(second);
    release();
    EXPECT_TRUE(progress_until(second));
    EXPECT_TRUE(progress_all());
    expect_done(first, UCS_ERR_IO_ERROR);
    expect_done(second, UCS_ERR_IO_ERROR);
    for (size_t i = 0; i < copies.size(); ++i) {
        EXPECT_EQ(1u, copies[i]->done.calls());
    }
}

UCS_TEST_P(test_cuda_flush_errors, what_was_completed_before_stays_well)
{
    completion first, second;

    need_emulator();
    open();
    hold();
    fail_copy(2);
    copy &well = start(0);
    start_flush(first);
    copy &failing = start(0);
    start_flush(second);
    pass(1);
    EXPECT_TRUE(progress_until(first));
    expect_done(well.done);
    expect_done(first);
    EXPECT_TRUE(well.arrived());

    release();
    EXPECT_TRUE(progress_until(second));
    expect_done(failing.done, UCS_ERR_IO_ERROR);
    expect_done(second, UCS_ERR_IO_ERROR);
    expect_done(first);
}

UCS_TEST_P(test_cuda_flush_errors, failed_look_at_event_fails_flush_once)
{
    completion first, second;

    need_emulator();
    open();
    copy &c = start(0);
    start_flush(first);
    settle();
    fail_query(1);
    EXPECT_TRUE(progress_until(first));
    expect_done(c.done, UCS_ERR_IO_ERROR);
    expect_done(first, UCS_ERR_IO_ERROR);

    /* The interface is as good as before */
    copy &next = start(0);
    start_flush(second);
    EXPECT_TRUE(progress_until(second));
    expect_done(next.done);
    expect_done(second);
    EXPECT_TRUE(next.arrived());
}

UCS_TEST_P(test_cuda_flush_errors, error_on_any_stream_fails_flush)
{
    need_emulator();
    open();
    for (unsigned bad = 0; bad < num_lanes(); ++bad) {
        std::vector<copy*> copies;
        unsigned num_failed = 0;
        completion flushed;

        for (unsigned lane = 0; lane < num_lanes(); ++lane) {
            copies.push_back(&start(lane));
        }
        start_flush(flushed);
        settle();
        fail_query(bad + 1);
        EXPECT_TRUE(progress_until(flushed));
        expect_done(flushed, UCS_ERR_IO_ERROR);
        for (size_t i = 0; i < copies.size(); ++i) {
            EXPECT_EQ(1u, copies[i]->done.calls());
            num_failed += copies[i]->done.status() == UCS_ERR_IO_ERROR;
        }
        EXPECT_EQ(1u, num_failed);
    }
}

/* It reaches each flush that waits for the copy, and no other. */
UCS_TEST_P(test_cuda_flush_errors, error_behind_marker_does_not_reach_flush)
{
    completion before, first_behind, second_behind;

    need_emulator();
    open();
    copy &well = start(0);
    start_flush(before);
    copy &failing = start(0);
    start_flush(first_behind);
    start_flush(second_behind);
    settle();
    fail_query(2);
    EXPECT_TRUE(progress_until(second_behind));
    expect_done(well.done);
    expect_done(before);
    expect_done(failing.done, UCS_ERR_IO_ERROR);
    expect_done(first_behind, UCS_ERR_IO_ERROR);
    expect_done(second_behind, UCS_ERR_IO_ERROR);
}

UCS_TEST_P(test_cuda_flush_errors, error_of_earlier_copy_is_that_of_flush)
{
    completion flushed;

    need_emulator();
    open();
    copy &failing = start(0);
    copy &well    = start(0);
    start_flush(flushed);
    settle();
    fail_query(1);
    EXPECT_TRUE(progress_until(flushed));
    expect_done(failing.done, UCS_ERR_IO_ERROR);
    expect_done(well.done);
    expect_done(flushed, UCS_ERR_IO_ERROR);
}

UCS_TEST_P(test_cuda_flush_errors, flush_from_callback_of_failed_copy_is_well)
{
    completion flushed;

    need_emulator();
    open();
    hold();
    copy &failing       = prepare(0);
    failing.done.action = [&] { start_flush(flushed); };
    ASSERT_EQ(UCS_INPROGRESS, post(failing));
    copy &later = start(0);
    release();
    settle();
#if UCX_HAS_CUDA_SHARED_QUEUES
    fail_query(1);
#else
    fail_query(1, is_ipc() ? 2 : 1); /* cuda_ipc looks twice */
#endif
    EXPECT_TRUE(progress_all());
    expect_done(failing.done, UCS_ERR_IO_ERROR);
    expect_done(later.done);
    expect_done(flushed);
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_errors)


/* Copies that cannot be issued: nothing is left of them. */
class test_cuda_flush_refused : public test_cuda_base {
protected:
    /** What a transport calls to copy: the names differ between releases, and
     *  so do those that the runtime calls for a kind of memory. */
    void fail_all_copies()
    {
        static const char *functions[] = {
            "cuMemcpyAsync",     "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync",
            "cuMemcpyDtoHAsync", "cuMemcpy"
        };

        for (size_t i = 0; i < ucs_static_array_size(functions); ++i) {
            m_emulator.fail(functions[i], CUDA_ERROR_INVALID_VALUE, 1,
                            UINT64_MAX);
        }
    }

    void fail_record()
    {
        m_emulator.fail("cuEventRecord", CUDA_ERROR_INVALID_HANDLE, 1,
                        UINT64_MAX);
        m_emulator.fail("cuEventRecordWithFlags", CUDA_ERROR_INVALID_HANDLE, 1,
                        UINT64_MAX);
    }

    void expect_nothing_left()
    {
        EXPECT_UCS_OK(flush(NULL));
        EXPECT_UCS_OK(uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, NULL));
        EXPECT_EQ(0u, progress());
        if (emulated()) {
            EXPECT_EQ(0, num_busy_streams());
        }
    }

    void expect_works()
    {
        completion flushed;

        copy &c = start(0);
        start_flush(flushed);
        EXPECT_TRUE(progress_until(flushed));
        expect_done(c.done);
        expect_done(flushed);
        EXPECT_TRUE(c.arrived());
    }

    /** @a fail makes each copy fail. More of them than there are descriptors:
     *  if one was lost each time, there would be none left. A copy that was
     *  issued, and has no event, is waited for: then none can be held. */
    void refused(const std::function<void()> &fail, bool is_issued)
    {
        config_t config = without_cache();
        int64_t attaches;
        completion flushed;

        need_emulator();
        config["MAX_EVENTS"] = "128";
        open(config);
        expect_works(); /* What is made at the first copy, is there */
        attaches = m_emulator.count(EMUL_COUNT_ATTACHES);
        allow_messages();
        fail();
        for (unsigned i = 0; i < 200; ++i) {
            copy &c             = prepare(0);
            ucs_status_t status = post(c);

            EXPECT_TRUE(UCS_STATUS_IS_ERR(status)) << status;
            EXPECT_NE(UCS_ERR_NO_MEMORY, status);
            expect_waiting(c.done);
        }
        settle();
        expect_nothing_left();
        EXPECT_EQ(attaches, m_emulator.count(EMUL_COUNT_ATTACHES));

        /* And with other work under way, that work alone is waited for */
        m_emulator.fail_none();
        if (!is_issued) {
            hold();
        }
        copy &well = start(0);
        fail();
        copy &bad = prepare(0);
        EXPECT_TRUE(UCS_STATUS_IS_ERR(post(bad)));
        m_emulator.fail_none();
        start_flush(flushed);
        release();
        EXPECT_TRUE(progress_until(flushed));
        expect_done(well.done);
        expect_done(flushed);
        expect_waiting(bad.done);
        expect_nothing_left();
    }
};

UCS_TEST_P(test_cuda_flush_refused, copy_that_cannot_be_issued)
{
    refused([this] { fail_all_copies(); }, false);
}

UCS_TEST_P(test_cuda_flush_refused, copy_whose_event_cannot_be_recorded)
{
    refused([this] { fail_record(); }, true);
}

UCS_TEST_P(test_cuda_flush_refused, copy_without_descriptor)
{
    const unsigned num = 128;
    std::vector<copy*> copies;
    completion flushed;

    open({{"MAX_EVENTS", ucs::to_string(num)}}, num + 1);
    expect_message("allocate cuda");
    hold();
    for (unsigned i = 0; i < num; ++i) {
        copies.push_back(&start(0));
    }
    copy &refused_copy = prepare(0);
    EXPECT_EQ(UCS_ERR_NO_MEMORY, post(refused_copy));

    /* There still is a marker, since these have descriptors of their own */
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed);
    for (unsigned i = 0; i < num; ++i) {
        expect_done(copies[i]->done);
        EXPECT_TRUE(copies[i]->arrived());
    }
    expect_waiting(refused_copy.done);
    EXPECT_FALSE(refused_copy.arrived());
    expect_nothing_left();
    expect_works();
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_refused)


class test_cuda_copy_refused : public test_cuda_flush_refused {};

/* A second interface, so that all else that UCX allocates at the first copy of a
 * process, and of a buffer, is there already. */
UCS_TEST_P(test_cuda_copy_refused, copy_without_memory_for_descriptors)
{
    heap_watch watch;
    uct_ep_h ep;

    need_emulator(); /* On a GPU, another allocation of UCX comes first */
    open();
    copy &c = prepare(host_to_host);
    EXPECT_EQ(UCS_INPROGRESS, c.where.post(m_ep, c.slot, c.is_put, NULL));
    EXPECT_TRUE(progress_all());

    transport second(GetParam(), {});
    ep = second.connect(second.address());
    expect_message("allocate");
    watch.fail(1);
    EXPECT_EQ(UCS_ERR_NO_MEMORY,
              c.where.post(ep, c.slot, c.is_put, c.done.get()));
    expect_waiting(c.done);
    EXPECT_UCS_OK(uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, NULL));
    EXPECT_EQ(0u, uct_iface_progress(second.iface()));

    EXPECT_EQ(UCS_INPROGRESS, c.where.post(ep, c.slot, c.is_put, c.done.get()));
    settle();
    EXPECT_EQ(1u, uct_iface_progress(second.iface()));
    expect_done(c.done);
    EXPECT_TRUE(c.arrived());
    uct_ep_destroy(ep);
}

CUDA_TEST_OVER(test_cuda_copy_refused, "cuda_copy")
