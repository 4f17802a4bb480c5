/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

using namespace cuda_test;

/* What is current to the thread is not what the interface works in. */
class test_cuda_flush_contexts : public test_cuda_base {
protected:
    /** Flush, progress and arm while another context is current. */
    void flush_in(CUcontext other)
    {
        completion first, second;

        hold();
        copy &before = start(0);
        {
            scoped_context current(other);

            EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
            start_flush(first);
            if (emulated()) {
                EXPECT_EQ(0u, progress());
                EXPECT_UCS_OK(
                        uct_iface_event_arm(iface(), UCT_EVENT_SEND_COMP));
            }
        }

        copy &after = start(0);
        start_flush(second);
        release();
        {
            scoped_context current(other);

            EXPECT_TRUE(progress_until(first));
            EXPECT_TRUE(progress_until(second));
            EXPECT_UCS_OK(flush(NULL));
        }

        expect_done(before.done);
        expect_done(first);
        expect_done(after.done);
        expect_done(second);
        EXPECT_TRUE(before.arrived());
        EXPECT_TRUE(after.arrived());
        settle();
    }

    void need_devices(int num)
    {
        if (num_devices() < num) {
            UCS_TEST_SKIP_R("needs " + ucs::to_string(num) + " devices");
        }
    }
};

UCS_TEST_P(test_cuda_flush_contexts, none_is_current)
{
    open();
    flush_in(NULL);
}

UCS_TEST_P(test_cuda_flush_contexts, another_of_same_device_is_current)
{
    open();
    context other(0);
    m_context->make_current();
    flush_in(other.handle());
}

UCS_TEST_P(test_cuda_flush_contexts, another_device_is_current)
{
    need_devices(2);
    open();
    context other(1);
    m_context->make_current();
    flush_in(other.handle());
}

/* What the copy had mapped is unmapped where it was mapped. */
UCS_TEST_P(test_cuda_flush_contexts, another_device_is_current_to_unmap)
{
    int64_t attaches;

    need_emulator();
    need_devices(2);
    open(without_cache());
    context other(1);
    m_context->make_current();
    attaches = m_emulator.count(EMUL_COUNT_ATTACHES);
    flush_in(other.handle());
    EXPECT_EQ(attaches, m_emulator.count(EMUL_COUNT_ATTACHES));
}

/* Everything in a context goes with it, and what waited for it must not wait
 * for ever. */
UCS_TEST_P(test_cuda_flush_contexts, destroyed_with_work_fails_flush)
{
    std::vector<copy*> copies;
    completion first, second;

    open();
    allow_messages();
    for (unsigned lane = 0; lane < num_lanes(); ++lane) {
        copies.push_back(&start(lane));
    }
    start_flush(first);
    start_flush(second);
    settle();
    m_context->destroy();
    context_is_broken(); /* For what is counted in the end */

    context next(0);
    EXPECT_EQ(UCS_INPROGRESS, flush(NULL));
    EXPECT_TRUE(progress_all());
    expect_done(first, UCS_ERR_IO_ERROR);
    expect_done(second, UCS_ERR_IO_ERROR);
    for (size_t i = 0; i < copies.size(); ++i) {
        expect_done(copies[i]->done, UCS_ERR_IO_ERROR);
    }
    EXPECT_UCS_OK(flush(NULL));
    EXPECT_LT(0u, num_messages("cuda copy failed"));
    close_iface();
}

UCS_TEST_P(test_cuda_flush_contexts, destroyed_with_work_can_be_closed)
{
    completion flushed;

    open();
    allow_messages();
    start(0);
    start_flush(flushed);
    settle();
    m_context->destroy();
    context_is_broken();
    close_iface();
    expect_waiting(flushed);
    EXPECT_EQ(1u, num_messages("outstanding flushes"));
}

UCS_TEST_P(test_cuda_flush_contexts, destroyed_without_work_is_idle)
{
    completion flushed;

    open();
    allow_messages();
    copy &c = start(0);
    start_flush(flushed);
    EXPECT_TRUE(progress_until(flushed));
    m_context->destroy();
    context_is_broken();
    EXPECT_UCS_OK(flush(NULL));
    EXPECT_EQ(0u, progress());
    close_iface();
    expect_done(c.done);
    expect_done(flushed);
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_contexts)
