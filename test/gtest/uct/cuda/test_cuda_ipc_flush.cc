/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

using namespace cuda_test;

/* What a flush means to two processes, and what only cuda_ipc has: one queue
 * for all streams, and mappings. */
class test_cuda_ipc_flush : public test_cuda_base {
protected:
    /** A copy in one direction. */
    std::unique_ptr<copy> make_copy(lane &where, unsigned slot, bool is_put)
    {
        return std::unique_ptr<copy>(
                new copy(where, slot, is_put, 0x1000u + slot));
    }

    /** Start some copies in one direction, flush, and look at the data. */
    void data_is_there(lane &where, bool is_put)
    {
        std::vector<std::unique_ptr<copy>> copies;
        completion flushed;

        hold();
        for (unsigned i = 0; i < where.num_slots; ++i) {
            copies.push_back(make_copy(where, i, is_put));
            ASSERT_EQ(UCS_INPROGRESS, post(*copies.back(), i % 2 != 0));
        }
        start_flush(flushed);
        for (size_t i = 0; emulated() && (i < copies.size()); ++i) {
            EXPECT_FALSE(copies[i]->arrived());
        }

        release();
        EXPECT_TRUE(progress_until(flushed));
        expect_done(flushed);
        for (size_t i = 0; i < copies.size(); ++i) {
            EXPECT_TRUE(copies[i]->arrived());
        }
    }

    /** Forget what the callbacks have written. */
    void drain()
    {
        settle();
        while (uct_iface_event_arm(iface(), UCT_EVENT_SEND_COMP) ==
               UCS_ERR_BUSY) {
        }
    }

    int64_t num_attaches()
    {
        return m_emulator.count(EMUL_COUNT_ATTACHES);
    }

    int64_t num_unmapped()
    {
        return m_emulator.calls("cuIpcCloseMemHandle");
    }
};

UCS_TEST_P(test_cuda_ipc_flush, owner_has_what_was_put)
{
    open();
    data_is_there(*m_lanes[0], true);
}

UCS_TEST_P(test_cuda_ipc_flush, importer_has_what_it_got)
{
    open();
    data_is_there(*m_lanes[0], false);
}

UCS_TEST_P(test_cuda_ipc_flush, large_copies)
{
    open();

    cuda_test::ipc_lane large(*m_transport, *m_owner, 0, 4, 32 * UCS_MBYTE);
    data_is_there(large, true);
    data_is_there(large, false);
}

UCS_TEST_P(test_cuda_ipc_flush, waits_for_copies_of_another_owner)
{
    completion flushed;
    uct_ep_h ep;

    open();

    remote_owner other;
    cuda_test::ipc_lane from_other(*m_transport, other, 0, 1, slot_length());
    std::unique_ptr<copy> c = make_copy(from_other, 0, false);

    ep = m_transport->connect(other.address());
    hold();
    EXPECT_EQ(UCS_INPROGRESS,
              from_other.post(ep, c->slot, c->is_put, c->done.get()));
    flushed.action = [&] {
        expect_done(c->done);
        EXPECT_TRUE(c->arrived());
    };
    start_flush(flushed);
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(flushed);
    uct_ep_destroy(ep);
}

UCS_TEST_P(test_cuda_ipc_flush, markers_unmap_nothing)
{
    const unsigned num_copies = 4, num_flushes = 3;
    completion flushed[num_copies][num_flushes];
    config_t config = without_cache();
    int64_t attaches, unmapped;

    need_emulator();
    config["MAX_POLL"] = "1";
    open(config);
    attaches = num_attaches();
    unmapped = num_unmapped();
    hold();
    for (unsigned i = 0; i < num_copies; ++i) {
        start(0);
        for (unsigned j = 0; j < num_flushes; ++j) {
            start_flush(flushed[i][j]);
        }
    }
    EXPECT_EQ(attaches + 1, num_attaches()); /* The mapping has four users */

    release();
    settle();
    for (unsigned i = 0; i < num_copies; ++i) {
        EXPECT_EQ(attaches + 1, num_attaches());
        EXPECT_TRUE(progress_until(flushed[i][num_flushes - 1]));
        for (unsigned j = 0; j < num_flushes; ++j) {
            expect_done(flushed[i][j]);
        }
        if (i + 1 < num_copies) {
            expect_waiting(flushed[i + 1][0]);
        }
    }
    EXPECT_EQ(attaches, num_attaches());
    EXPECT_EQ(unmapped + 1, num_unmapped());
}

/* As seen by how many streams are asked to wake somebody up. */
UCS_TEST_P(test_cuda_ipc_flush, markers_are_work_of_their_streams)
{
    need_emulator();
    open();
    for (unsigned num = 1; num <= num_lanes(); ++num) {
        completion flushed[2];

        hold();
        for (unsigned lane = 0; lane < num; ++lane) {
            start(lane);
        }
        EXPECT_EQ(num, num_busy_streams());
        start_flush(flushed[0]);
        start_flush(flushed[1]);
        EXPECT_EQ(num, num_busy_streams());
        release();
        EXPECT_TRUE(progress_until(flushed[1]));
        expect_done(flushed[0]);
        expect_done(flushed[1]);
        drain();
        EXPECT_EQ(0, num_busy_streams());
    }
}

/* Memory of several devices over each stream. */
UCS_TEST_P(test_cuda_ipc_flush, more_devices_than_streams)
{
    std::vector<copy*> copies;
    completion flushed, next;

    need_lanes(3);
    open({{"MAX_STREAMS", "2"}});
    hold();
    for (unsigned i = 0; i < 3 * num_lanes(); ++i) {
        copies.push_back(&start(i % num_lanes()));
    }
    flushed.action = [&] {
        for (size_t i = 0; i < copies.size(); ++i) {
            expect_done(copies[i]->done);
            EXPECT_TRUE(copies[i]->arrived());
        }
    };
    start_flush(flushed);
    if (emulated()) {
        EXPECT_EQ(2, num_busy_streams());
    }
    start_flush(next);
    release();
    EXPECT_TRUE(progress_until(next));
    expect_done(flushed);
    expect_done(next);
    if (emulated()) {
        drain();
        EXPECT_EQ(0, num_busy_streams());
    }
}

/* Two markers for a flush over two streams, and no more: with the pool at its
 * smallest, 64 flushes use all of it. */
UCS_TEST_P(test_cuda_ipc_flush, one_marker_for_each_stream)
{
    std::list<completion> flushed;
    completion refused;

    need_lanes(3);
    open({{"MAX_STREAMS", "2"}, {"MAX_EVENTS", "128"}});
    expect_message("failed to allocate a flush");
    hold();
    for (unsigned i = 0; i < 9; ++i) {
        start(i % 3);
    }
    for (unsigned i = 0; i < 64; ++i) {
        flushed.emplace_back();
        start_flush(flushed.back());
    }
    EXPECT_EQ(UCS_ERR_NO_MEMORY, flush(&refused));
    release();
    EXPECT_TRUE(progress_all());
    for (std::list<completion>::iterator it = flushed.begin();
         it != flushed.end(); ++it) {
        expect_done(*it);
    }
    expect_waiting(refused);
}

/* The memory itself stays as long as it is mapped. */
UCS_TEST_P(test_cuda_ipc_flush, of_memory_that_its_owner_frees)
{
    completion flushed;

    open();
    hold();
    std::unique_ptr<copy> c = make_copy(*m_lanes[0], 0, false);
    ASSERT_EQ(UCS_INPROGRESS, post(*c));
    start_flush(flushed);
    m_owner->free(ipc_lane(0).remote());
    release();
    EXPECT_TRUE(progress_until(flushed));
    expect_done(c->done);
    expect_done(flushed);
    EXPECT_TRUE(c->arrived());
}

UCS_TEST_P(test_cuda_ipc_flush, completes_once_after_owner_was_killed)
{
    completion flushed, idle;

    open();
    hold();
    std::unique_ptr<copy> c = make_copy(*m_lanes[0], 0, false);
    ASSERT_EQ(UCS_INPROGRESS, post(*c));
    start_flush(flushed);
    m_owner->kill();
    m_owner.reset();

    /* Whether the copy is well is the runtime's affair, and the flush says the
     * same */
    release();
    allow_messages();
    context_is_broken();
    EXPECT_TRUE(progress_until(flushed));
    EXPECT_EQ(1u, c->done.calls());
    expect_done(flushed, c->done.status());
    EXPECT_UCS_OK(flush(&idle));
    expect_waiting(idle);
}

CUDA_TEST_OVER(test_cuda_ipc_flush, "cuda_ipc")
