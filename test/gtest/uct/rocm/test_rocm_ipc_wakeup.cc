/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* A runtime that is late with a handler, or never calls it: the mapping goes
 * all the same, and soon. */
class test_rocm_ipc_wakeup : public test_rocm_ipc {
protected:
    /** Generous: what is promised is 10 ms, on a machine that has nothing else
     *  to do. A free that nobody notices takes until the importer exits. */
    static constexpr double soon = 1.0;

    /** Free, and expect that it finishes soon and that nothing is left. */
    void expect_free_soon(peer &owner, peer &importer, const buffer &mem)
    {
        rocm_ipc::result freed = owner.wait(owner.post_free(mem));

        EXPECT_UCS_OK(freed.status);
        EXPECT_LT(freed.elapsed, soon * ucs::test_time_multiplier());
        UCS_TEST_MESSAGE << "the free took " << (freed.elapsed * 1e3) << " ms";
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }
};

constexpr double test_rocm_ipc_wakeup::soon;

UCS_TEST_P(test_rocm_ipc_wakeup, free_finishes_soon)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);

    for (int i = 0; i < 5; ++i) {
        shared remote = share(owner);
        uint64_t rkey = import(importer, remote);

        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_LE(1, the_node().count(EMUL_COUNT_HANDLERS, &importer));
        expect_free_soon(owner, importer, remote.mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    }
}

/* Handlers stay armed, and are called in the end: for regions that are gone. */
UCS_TEST_P(test_rocm_ipc_wakeup, handlers_find_everything_gone)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    int64_t num_handlers;

    for (int i = 0; i < 20; ++i) {
        shared remote = share(owner);
        uint64_t rkey = import(importer, remote);

        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        ASSERT_UCS_OK(importer.release(rkey));
        owner.free(remote.mem);
    }

    num_handlers = the_node().count(EMUL_COUNT_HANDLERS, &importer);
    UCS_TEST_MESSAGE << num_handlers << " handlers were not called";
    the_node().change_setting("EMUL_HANDLER_WAKEUP", "prompt");
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0, &importer));
    EXPECT_TRUE(noticed(importer));
    EXPECT_EQ(20, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
}

UCS_TEST_P(test_rocm_ipc_wakeup, copy_in_flight_and_held_pointer)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared copied  = share(owner);
    shared held    = share(owner);
    uint64_t rkey1 = import(importer, copied);
    uint64_t rkey2 = import(importer, held);
    buffer local   = importer.alloc(default_length);
    uint64_t pointer, freed1, freed2;
    operation op;

    ASSERT_UCS_OK(importer.rkey_ptr(rkey2, held.mem.address, pointer));
    the_node().close_gate(&importer, "copy");
    op = importer.start_get(ep, rkey1, copied.mem.address, local.address,
                            local.length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);

    freed1 = owner.post(rocm_ipc::VERB_FREE, rocm_ipc::LANE_FREE,
                        {copied.mem.address});
    freed2 = owner.post(rocm_ipc::VERB_FREE, rocm_ipc::LANE_LAST,
                        {held.mem.address});
    ASSERT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 2, &owner));
    EXPECT_EQ(2, the_node().count(EMUL_COUNT_ATTACHES, &importer));

    the_node().open_gate(&importer, "copy");
    EXPECT_UCS_OK(importer.finish(op));
    EXPECT_TRUE(importer.holds(local.address, local.length, copied.mem.seed));
    EXPECT_UCS_OK(owner.wait(freed1).status);

    EXPECT_TRUE(importer.holds(pointer, held.mem.length, held.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));
    EXPECT_FALSE(owner.replied(freed2));
    EXPECT_UCS_OK(importer.release(rkey2));
    EXPECT_UCS_OK(owner.wait(freed2).status);
}

/* New memory with the same handles may come before the handler of the old. */
UCS_TEST_P(test_rocm_ipc_wakeup, address_reused_before_handler_is_called)
{
    set("EMUL_ADDRESS_REUSE", "force");
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);

    for (int i = 0; i < 10; ++i) {
        shared remote = share(owner);
        uint64_t rkey = import(importer, remote);

        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
        expect_free_soon(owner, importer, remote.mem);
    }
}

UCS_TEST_P(test_rocm_ipc_wakeup, owner_is_killed)
{
    need_emulator();
    expect_log_messages();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    owner.kill();
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 0, &importer));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(get(importer, ep, rkey, remote)));
}

/* Handlers are still armed when the importer closes, or exits. */
UCS_TEST_P(test_rocm_ipc_wakeup, importer_goes_first)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared first   = share(owner);
    shared second  = share(owner);

    ASSERT_UCS_OK(get(importer, ep, import(importer, first), first));
    owner.free(first.mem);
    ASSERT_UCS_OK(get(importer, ep, import(importer, second), second));
    importer.close_transport();
    importer.close_md();
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    importer.quit();
    owner.free(second.mem);
}

ROCM_IPC_TEST_IN_MODES(test_rocm_ipc_wakeup, rocm_ipc_mode_late,
                       rocm_ipc_mode_lost)


/* The thread that calls handlers is held up between its decision and the call.
 * Then the handler comes when everything is gone. */
class test_rocm_ipc_late_handler : public test_rocm_ipc_wakeup {};

UCS_TEST_P(test_rocm_ipc_late_handler, free_does_not_wait_for_it)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    the_node().close_gate(&importer, "handler");
    expect_free_soon(owner, importer, remote.mem);
    ASSERT_TRUE(the_node().waiting("handler", 1, &importer));
    ASSERT_UCS_OK(importer.release(rkey));
    the_node().open_gate(&importer, "handler");
    EXPECT_TRUE(noticed(importer));
    EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
}

/* The same memory is mapped again while the handler is on its way: it must not
 * claim the new mapping for the old memory, nor miss the new memory's free. */
UCS_TEST_P(test_rocm_ipc_late_handler, address_is_mapped_again_meanwhile)
{
    set("EMUL_ADDRESS_REUSE", "force");
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared former  = share(owner);
    uint64_t rkey1 = import(importer, former);
    uint64_t rkey2;
    shared present;

    ASSERT_UCS_OK(get(importer, ep, rkey1, former));
    the_node().close_gate(&importer, "handler");
    expect_free_soon(owner, importer, former.mem);
    ASSERT_TRUE(the_node().waiting("handler", 1, &importer));

    present = share(owner);
    EXPECT_EQ(former.mem.address, present.mem.address);
    rkey2 = import(importer, present);
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    the_node().open_gate(&importer, "handler");
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 1, &importer));
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    owner.free(present.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey2, present));
}

ROCM_IPC_TEST_IN_MODES(test_rocm_ipc_late_handler, rocm_ipc_mode_accept)
