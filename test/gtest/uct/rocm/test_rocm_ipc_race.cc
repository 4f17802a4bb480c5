/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

using namespace rocm_ipc;

/* Races, held open by a gate at a call of the runtime: a thread of one process
 * waits there while something else happens. */
class test_rocm_ipc_race : public test_rocm_ipc {
protected:
    static const uint32_t lane_other = LANE_LAST;

    /** Start a get that will wait at a gate, and wait until it does. */
    uint64_t get_up_to(peer &importer, const std::string &point, uint64_t ep,
                       uint64_t rkey, const shared &remote, const buffer &local)
    {
        uint64_t started;

        the_node().close_gate(&importer, point);
        started = importer.post(VERB_EP_GET, LANE_MAIN,
                                {ep, rkey, remote.mem.address, local.address,
                                 local.length});
        EXPECT_TRUE(the_node().waiting(point, 1, &importer));
        return started;
    }

    ucs_status_t finish_get(peer &importer, uint64_t started)
    {
        result res   = importer.wait(started);
        operation op = {res.status, res.number[0]};

        return importer.finish(op);
    }

    void expect_right_or_refused(peer &importer, ucs_status_t status,
                                 const shared &remote, const buffer &local)
    {
        if (status == UCS_OK) {
            EXPECT_TRUE(importer.holds(local.address, local.length,
                                       remote.mem.seed));
        } else {
            EXPECT_EQ(UCS_ERR_INVALID_ADDR, status);
            EXPECT_TRUE(importer.holds(local));
        }
    }

    void free_before_handler_is_armed()
    {
        static const char point[] = "hsa_amd_signal_async_handler";
        peer &owner    = start("owner");
        peer &importer = start("importer");
        uint64_t ep    = importer.connect(owner);
        shared remote  = share(owner);
        uint64_t rkey  = import(importer, remote);
        buffer local   = importer.alloc(default_length);
        uint64_t started, freed;

        importer.fill(local);
        started = get_up_to(importer, point, ep, rkey, remote, local);
        freed   = owner.post_free(remote.mem);
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, &owner));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));

        the_node().open_gate(&importer, point);
        expect_right_or_refused(importer, finish_get(importer, started), remote,
                                local);
        EXPECT_UCS_OK(owner.wait(freed).status);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    }
};

const uint32_t test_rocm_ipc_race::lane_other;

/* The signal was read and the memory is not attached yet. */
UCS_TEST_P(test_rocm_ipc_race, free_before_memory_is_attached)
{
    static const char point[] = "hsa_amd_ipc_memory_attach";

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);
    uint64_t started;

    importer.fill(local);
    started = get_up_to(importer, point, ep, rkey, remote, local);
    owner.free(remote.mem);
    the_node().open_gate(&importer, point);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, finish_get(importer, started));
    EXPECT_TRUE(importer.holds(local));
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES, &importer));
}

/* The memory is attached, and nobody watches the signal yet. */
UCS_TEST_P(test_rocm_ipc_race, free_before_handler_is_armed)
{
    need_emulator();
    free_before_handler_is_armed();
}

/* The same with a runtime that does not notice a handler until its thread is
 * woken by something else. */
UCS_TEST_P(test_rocm_ipc_race, free_before_handler_is_armed_and_wakeup_is_lost)
{
    set("EMUL_HANDLER_WAKEUP", "lost");
    need_handlers();
    free_before_handler_is_armed();
}

/* Two threads attach the same memory at once: one of the mappings goes again,
 * and both use the other. */
UCS_TEST_P(test_rocm_ipc_race, two_threads_import_one_allocation)
{
    static const char point[] = "hsa_amd_ipc_memory_attach";

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey1 = import(importer, remote);
    uint64_t rkey2 = import(importer, remote);
    uint64_t id1, id2;
    result res1, res2;

    the_node().close_gate(&importer, point);
    id1 = importer.post(VERB_RKEY_PTR, LANE_MAIN, {rkey1, remote.mem.address});
    id2 = importer.post(VERB_RKEY_PTR, lane_other, {rkey2, remote.mem.address});
    ASSERT_TRUE(the_node().waiting(point, 2, &importer));
    the_node().open_gate(&importer, point);

    res1 = importer.wait(id1);
    res2 = importer.wait(id2);
    ASSERT_UCS_OK(res1.status);
    ASSERT_UCS_OK(res2.status);
    EXPECT_EQ(res1.number[0], res2.number[0]);
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    EXPECT_EQ(has_handlers() ? 1 : 0,
              the_node().count(EMUL_COUNT_HANDLERS, &importer));
    EXPECT_TRUE(importer.holds(res1.number[0], remote.mem.length,
                               remote.mem.seed, 0, ACCESS_CPU));

    EXPECT_UCS_OK(importer.release(rkey1));
    EXPECT_UCS_OK(importer.release(rkey2));
    owner.free(remote.mem);
}

/* All keys of an allocation name the same signal, or a free would miss some
 * importers. */
UCS_TEST_P(test_rocm_ipc_race, two_threads_export_one_allocation)
{
    static const char point[] = "hsa_amd_ipc_memory_create";

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    uint64_t memh1, memh2, id1, id2, rkey;
    result res1, res2;
    shared remote;

    remote.mem = owner.alloc(default_length);
    owner.fill(remote.mem);
    ASSERT_UCS_OK(owner.reg(remote.mem.address, default_length, memh1));
    ASSERT_UCS_OK(owner.reg(remote.mem.address, 1, memh2));

    the_node().close_gate(&owner, point);
    id1 = owner.post(VERB_PACK, LANE_MAIN, {memh1});
    id2 = owner.post(VERB_PACK, lane_other, {memh2});
    ASSERT_TRUE(the_node().waiting(point, 2, &owner));
    the_node().open_gate(&owner, point);

    res1 = owner.wait(id1);
    res2 = owner.wait(id2);
    ASSERT_UCS_OK(res1.status);
    ASSERT_UCS_OK(res2.status);
    EXPECT_EQ(res1.data, res2.data);
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner));

    remote.key = res2.data;
    rkey       = import(importer, remote);
    EXPECT_UCS_OK(get(importer, ep, rkey, remote));
    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
}

/* A program that packs what it frees is wrong; the key must not outlive it. */
UCS_TEST_P(test_rocm_ipc_race, free_while_exporting)
{
    static const char point[] = "hsa_amd_ipc_signal_create";

    need_emulator();

    peer &owner = start("owner");
    buffer mem  = owner.alloc(default_length);
    uint64_t memh, packed;

    ASSERT_UCS_OK(owner.reg(mem.address, mem.length, memh));
    the_node().close_gate(&owner, point);
    packed = owner.post(VERB_PACK, LANE_MAIN, {memh});
    ASSERT_TRUE(the_node().waiting(point, 1, &owner));
    owner.free(mem);
    the_node().open_gate(&owner, point);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, owner.wait(packed).status);
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner));
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_race)
