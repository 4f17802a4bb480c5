/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* Processes go, in any order and in any state. */
class test_rocm_ipc_exit : public test_rocm_ipc {
protected:
    /** An importer that has mapped memory of its owner. */
    struct scene {
        peer     *owner;
        peer     *importer;
        uint64_t ep;
        uint64_t rkey;
        shared   remote;
    };

    scene set_scene()
    {
        scene made;

        made.owner    = &start("owner");
        made.importer = &start("importer");
        made.remote   = share(*made.owner);
        made.ep       = made.importer->connect(*made.owner);
        made.rkey     = import(*made.importer, made.remote);
        ASSERT_UCS_OK(get(*made.importer, made.ep, made.rkey, made.remote));
        return made;
    }

    static void close_all(peer &who)
    {
        who.close_transport();
        who.free_all();
        who.close_md();
    }

    /** The owner is gone. The importer lives on: the memory that went with the
     *  owner may be an error, but nothing else is. */
    void expect_importer_lives_on(scene &s)
    {
        peer &another = start("another_owner");
        shared remote = share(another);
        uint64_t ep   = s.importer->connect(another);
        uint64_t rkey = import(*s.importer, remote);
        ucs_status_t status;

        status = get(*s.importer, s.ep, s.rkey, s.remote);
        EXPECT_TRUE((status == UCS_OK) || UCS_STATUS_IS_ERR(status));
        EXPECT_UCS_OK(get(*s.importer, ep, rkey, remote));
        another.free(remote.mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(*s.importer, ep, rkey, remote));
        EXPECT_UCS_OK(s.importer->release(rkey));
        EXPECT_UCS_OK(s.importer->release(s.rkey));
        s.importer->disconnect(s.ep);
    }

    /** What the owner left behind goes with the last importer. */
    void expect_memory_returned()
    {
        if (emulated()) {
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
        }
    }
};

UCS_TEST_P(test_rocm_ipc_exit, importer_first)
{
    scene s = set_scene();

    close_all(*s.importer);
    s.importer->quit();
    s.owner->free(s.remote.mem);
    close_all(*s.owner);
    s.owner->quit();
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, importer_first_without_closing)
{
    scene s = set_scene();

    s.importer->quit();
    s.owner->free(s.remote.mem);
    expect_memory_returned();
}

/* Report 11 */
UCS_TEST_P(test_rocm_ipc_exit, owner_first)
{
    scene s = set_scene();

    close_all(*s.owner);
    s.owner->quit();
    expect_importer_lives_on(s);
    close_all(*s.importer);
    s.importer->quit();
    the_node().peers().back()->quit();
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, owner_first_without_closing)
{
    expect_log_messages();

    scene s = set_scene();

    s.owner->quit();
    expect_importer_lives_on(s);
    close_all(*s.importer);
    s.importer->quit();
    the_node().peers().back()->quit();
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, owner_first_then_importer_without_closing)
{
    expect_log_messages();

    scene s = set_scene();

    s.owner->quit();
    s.importer->quit();
    expect_memory_returned();
}

/* The memory domain is closed under what was exported and is still mapped. */
UCS_TEST_P(test_rocm_ipc_exit, owner_closes_before_it_frees)
{
    scene s = set_scene();
    uint64_t freed;

    s.owner->close_transport();
    s.owner->close_md();
    freed = s.owner->post_free(s.remote.mem);
    close_all(*s.importer);
    s.importer->quit();
    EXPECT_UCS_OK(s.owner->wait(freed).status);
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, both_at_once)
{
    scene s = set_scene();
    uint64_t ids[2];

    ids[0] = s.owner->post(rocm_ipc::VERB_CLOSE, rocm_ipc::LANE_FREE,
                           {rocm_ipc::OBJECT_MEMHS | rocm_ipc::OBJECT_MEMORY});
    ids[1] = s.importer->post(rocm_ipc::VERB_CLOSE, rocm_ipc::LANE_MAIN,
                              {rocm_ipc::OBJECT_RKEYS | rocm_ipc::OBJECT_EPS |
                               rocm_ipc::OBJECT_IFACES});
    EXPECT_UCS_OK(s.owner->wait(ids[0]).status);
    EXPECT_UCS_OK(s.importer->wait(ids[1]).status);
    close_all(*s.owner);
    close_all(*s.importer);
    s.owner->quit();
    s.importer->quit();
    expect_memory_returned();
}

/* Report 10: the importer cannot let go, since it is killed. */
UCS_TEST_P(test_rocm_ipc_exit, killed_importer_does_not_block_free)
{
    scene s = set_scene();

    s.importer->kill();
    s.owner->free(s.remote.mem);
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, importer_killed_while_owner_frees)
{
    need_emulator();

    scene s = set_scene();
    uint64_t freed;

    the_node().close_gate(s.importer, "hsa_amd_ipc_memory_detach");
    freed = s.owner->post_free(s.remote.mem);
    ASSERT_TRUE(the_node().waiting("hsa_amd_ipc_memory_detach", 1, s.importer));
    ASSERT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, s.owner));
    EXPECT_FALSE(s.owner->replied(freed));
    s.importer->kill();
    EXPECT_UCS_OK(s.owner->wait(freed).status);
    expect_memory_returned();
}

UCS_TEST_P(test_rocm_ipc_exit, importer_killed_in_the_middle_of_a_copy)
{
    need_emulator();

    scene s      = set_scene();
    buffer local = s.importer->alloc(default_length);
    uint64_t freed;

    the_node().close_gate(s.importer, "copy");
    ASSERT_EQ(UCS_INPROGRESS,
              s.importer
                      ->start_get(s.ep, s.rkey, s.remote.mem.address,
                                  local.address, local.length)
                      .status);
    freed = s.owner->post_free(s.remote.mem);
    ASSERT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, s.owner));
    s.importer->kill();
    EXPECT_UCS_OK(s.owner->wait(freed).status);
    expect_memory_returned();
}

/* The other importer is not disturbed by the death of the first. */
UCS_TEST_P(test_rocm_ipc_exit, killed_importer_leaves_the_others)
{
    scene s       = set_scene();
    peer &another = start("another_importer");
    uint64_t ep   = another.connect(*s.owner);
    uint64_t rkey = import(another, s.remote);

    ASSERT_UCS_OK(get(another, ep, rkey, s.remote));
    s.importer->kill();
    EXPECT_UCS_OK(get(another, ep, rkey, s.remote));
    EXPECT_UCS_OK(put(*s.owner, another, ep, rkey, s.remote));
    s.owner->free(s.remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(another, ep, rkey, s.remote));
}

UCS_TEST_P(test_rocm_ipc_exit, killed_owner_leaves_importer_alive)
{
    expect_log_messages();

    scene s = set_scene();

    s.owner->kill();
    expect_importer_lives_on(s);
    close_all(*s.importer);
    s.importer->quit();
    the_node().peers().back()->quit();
    expect_memory_returned();
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_exit)
