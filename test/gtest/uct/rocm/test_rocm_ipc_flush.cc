/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* Flush: done means that the copies before it are done. */
class test_rocm_ipc_flush : public test_rocm_ipc {
protected:
    enum scope_t {
        EP,
        IFACE
    };

    /** An importer with memory to copy from and to. */
    struct scene {
        peer     *importer;
        uint64_t ep;
        uint64_t rkey;
        shared   remote;
        buffer   local;

        /** Get one of four quarters: copies at the same time must not have
         *  one destination. */
        operation start_get(unsigned quarter = 0)
        {
            size_t length = remote.mem.length / 4;
            size_t offset = quarter * length;

            return importer->start_get(ep, rkey, remote.mem.address + offset,
                                       local.address + offset, length);
        }

        ucs_status_t flush(scope_t scope)
        {
            return (scope == EP) ? importer->flush_ep(ep) :
                                   importer->flush_iface();
        }

        operation start_flush(scope_t scope)
        {
            return (scope == EP) ? importer->start_flush_ep(ep) :
                                   importer->start_flush_iface();
        }
    };

    scene set_scene()
    {
        peer &owner = start("owner");
        scene made;

        made.importer = &start("importer");
        made.remote   = share(owner);
        made.ep       = made.importer->connect(owner);
        made.rkey     = import(*made.importer, made.remote);
        made.local    = made.importer->alloc(default_length);
        return made;
    }

    void expect_called_once(const rocm_ipc::completion_state &state)
    {
        EXPECT_UCS_OK(state.progress_status);
        EXPECT_EQ(1, state.calls);
        EXPECT_EQ(0, state.count);
        EXPECT_UCS_OK(state.status);
    }

    void expect_not_called(const rocm_ipc::completion_state &state)
    {
        EXPECT_EQ(0, state.calls);
        EXPECT_EQ(1, state.count);
    }

    void idle(scope_t scope)
    {
        scene s = set_scene();
        operation flush;

        EXPECT_UCS_OK(s.flush(scope));
        EXPECT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
        EXPECT_UCS_OK(s.flush(scope));

        flush = s.start_flush(scope);
        EXPECT_UCS_OK(flush.status);
        s.importer->progress();
        expect_not_called(s.importer->look_at(flush.completion));
    }

    void copies_held(scope_t scope)
    {
        const int num = 4;
        operation copies[num], flush;

        need_emulator();

        scene s = set_scene();

        the_node().close_gate(s.importer, "copy");
        for (int i = 0; i < num; ++i) {
            copies[i] = s.start_get(i);
            ASSERT_EQ(UCS_INPROGRESS, copies[i].status);
        }

        EXPECT_EQ(UCS_INPROGRESS, s.flush(scope));
        flush = s.start_flush(scope);
        ASSERT_EQ(UCS_INPROGRESS, flush.status);
        for (int i = 0; i < 10; ++i) {
            s.importer->progress();
        }
        expect_not_called(s.importer->look_at(flush.completion));
        EXPECT_EQ(UCS_INPROGRESS, s.flush(scope));

        the_node().open_gate(s.importer, "copy");
        expect_called_once(s.importer->progress_until(flush.completion));
        for (int i = 0; i < num; ++i) {
            expect_called_once(s.importer->look_at(copies[i].completion));
        }
        EXPECT_TRUE(s.importer->holds(s.local.address, s.local.length,
                                      s.remote.mem.seed));

        EXPECT_UCS_OK(s.flush(scope));
        s.importer->progress();
        expect_called_once(s.importer->look_at(flush.completion));
    }

    void last_copy(scope_t scope)
    {
        operation first, last, flush;

        need_emulator();

        scene s = set_scene();

        first = s.start_get();
        ASSERT_EQ(UCS_INPROGRESS, first.status);
        ASSERT_TRUE(the_node().reaches(EMUL_COUNT_COPIES, 0, s.importer));
        the_node().close_gate(s.importer, "copy");
        last = s.start_get(1);
        ASSERT_EQ(UCS_INPROGRESS, last.status);
        flush = s.start_flush(scope);
        ASSERT_EQ(UCS_INPROGRESS, flush.status);

        expect_called_once(s.importer->progress_until(first.completion));
        s.importer->progress();
        expect_not_called(s.importer->look_at(flush.completion));
        EXPECT_EQ(UCS_INPROGRESS, s.flush(scope));

        the_node().open_gate(s.importer, "copy");
        expect_called_once(s.importer->progress_until(flush.completion));
        expect_called_once(s.importer->look_at(last.completion));
    }

    void later_copy(scope_t scope)
    {
        operation before, after, flush;

        need_emulator();

        scene s = set_scene();

        the_node().close_gate(s.importer, "copy");
        before = s.start_get();
        ASSERT_EQ(UCS_INPROGRESS, before.status);
        flush = s.start_flush(scope);
        ASSERT_EQ(UCS_INPROGRESS, flush.status);

        /* The copy gets done, of which the transport knows nothing before it
         * progresses, and a second one is held */
        the_node().open_gate(s.importer, "copy");
        ASSERT_TRUE(the_node().reaches(EMUL_COUNT_COPIES, 0, s.importer));
        the_node().close_gate(s.importer, "copy");
        after = s.start_get(1);
        ASSERT_EQ(UCS_INPROGRESS, after.status);

        expect_called_once(s.importer->progress_until(flush.completion));
        expect_called_once(s.importer->look_at(before.completion));
        expect_not_called(s.importer->look_at(after.completion));
        EXPECT_EQ(UCS_INPROGRESS, s.flush(scope));

        the_node().open_gate(s.importer, "copy");
        expect_called_once(s.importer->progress_until(after.completion));
        EXPECT_UCS_OK(s.flush(scope));
    }

    void several_flushes(scope_t scope)
    {
        operation copies[2], flushes[3];

        need_emulator();

        scene s = set_scene();

        the_node().close_gate(s.importer, "copy");
        copies[0]  = s.start_get();
        flushes[0] = s.start_flush(scope);
        flushes[1] = s.start_flush(scope);
        copies[1]  = s.start_get(1);
        flushes[2] = s.start_flush(scope);
        for (int i = 0; i < 3; ++i) {
            ASSERT_EQ(UCS_INPROGRESS, flushes[i].status);
        }

        the_node().open_gate(s.importer, "copy");
        for (int i = 0; i < 3; ++i) {
            expect_called_once(
                    s.importer->progress_until(flushes[i].completion));
        }
        expect_called_once(s.importer->look_at(copies[0].completion));
        expect_called_once(s.importer->look_at(copies[1].completion));
    }
};

UCS_TEST_P(test_rocm_ipc_flush, idle_ep_is_done)
{
    idle(EP);
}

UCS_TEST_P(test_rocm_ipc_flush, idle_iface_is_done)
{
    idle(IFACE);
}

UCS_TEST_P(test_rocm_ipc_flush, ep_waits_for_copies)
{
    copies_held(EP);
}

UCS_TEST_P(test_rocm_ipc_flush, iface_waits_for_copies)
{
    copies_held(IFACE);
}

UCS_TEST_P(test_rocm_ipc_flush, ep_waits_for_last_copy)
{
    last_copy(EP);
}

UCS_TEST_P(test_rocm_ipc_flush, iface_waits_for_last_copy)
{
    last_copy(IFACE);
}

UCS_TEST_P(test_rocm_ipc_flush, ep_does_not_wait_for_later_copy)
{
    later_copy(EP);
}

UCS_TEST_P(test_rocm_ipc_flush, iface_does_not_wait_for_later_copy)
{
    later_copy(IFACE);
}

UCS_TEST_P(test_rocm_ipc_flush, several_of_ep)
{
    several_flushes(EP);
}

UCS_TEST_P(test_rocm_ipc_flush, several_of_iface)
{
    several_flushes(IFACE);
}

/* A flush tells about copies of memory that is freed meanwhile, too. */
UCS_TEST_P(test_rocm_ipc_flush, waits_for_copy_of_freed_memory)
{
    operation copy, flush;
    uint64_t freed;

    need_emulator();

    scene s     = set_scene();
    peer &owner = *the_node().peers()[0];

    the_node().close_gate(s.importer, "copy");
    copy  = s.start_get();
    flush = s.start_flush(EP);
    ASSERT_EQ(UCS_INPROGRESS, flush.status);
    freed = owner.post_free(s.remote.mem);
    ASSERT_TRUE(noticed(*s.importer));
    s.importer->progress();
    expect_not_called(s.importer->look_at(flush.completion));

    the_node().open_gate(s.importer, "copy");
    expect_called_once(s.importer->progress_until(flush.completion));
    expect_called_once(s.importer->look_at(copy.completion));
    EXPECT_UCS_OK(owner.wait(freed).status);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_flush)
