/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <limits>

/* The owner is killed: what it has shared goes from its peers, and the memory
 * with it. */
class test_rocm_ipc_death : public test_rocm_ipc {
protected:
    /** Seconds in which everything must be gone */
    static constexpr double soon = 1.0;

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

        expect_log_messages();
        made.owner    = &start("owner");
        made.importer = &start("importer");
        made.remote   = share(*made.owner);
        made.ep       = made.importer->connect(*made.owner);
        made.rkey     = import(*made.importer, made.remote);
        return made;
    }

    /** Kill the owner and measure until a count is 0. */
    void kill_and_expect_gone(peer &owner, peer &importer)
    {
        ucs_time_t killed;
        double seconds;

        owner.kill();
        killed = ucs_get_time();
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 0, &importer));
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0, &importer));
        EXPECT_TRUE(noticed(importer));
        seconds = ucs_time_to_sec(ucs_get_time() - killed);
        EXPECT_LT(seconds, soon * ucs::test_time_multiplier());
        UCS_TEST_MESSAGE << "all was gone after " << (seconds * 1e3) << " ms";
    }

    void expect_errors(scene &s)
    {
        uint64_t rkey, pointer;

        EXPECT_TRUE(
                UCS_STATUS_IS_ERR(get(*s.importer, s.ep, s.rkey, s.remote)));
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                s.importer->rkey_ptr(s.rkey, s.remote.mem.address, pointer)));
        rkey = import(*s.importer, s.remote);
        EXPECT_TRUE(UCS_STATUS_IS_ERR(get(*s.importer, s.ep, rkey, s.remote)));
    }
};

constexpr double test_rocm_ipc_death::soon;

UCS_TEST_P(test_rocm_ipc_death, mappings_of_idle_importer_go)
{
    need_emulator();

    scene s = set_scene();

    ASSERT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
    kill_and_expect_gone(*s.owner, *s.importer);
    expect_errors(s);
}

UCS_TEST_P(test_rocm_ipc_death, mappings_of_busy_importer_go)
{
    need_emulator();

    scene s             = set_scene();
    rocm_ipc::route way = s.importer->connect_lane(*s.owner,
                                                   rocm_ipc::LANE_LAST);
    rocm_ipc::work_result res;
    uint64_t work;

    work = s.importer->post_work(way, s.remote.key, s.remote.mem.address, 4096,
                                 s.remote.mem.seed, 0, 2000);
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 1, s.importer));
    s.owner->kill();
    res = peer::to_work_result(s.importer->wait(work));
    UCS_TEST_MESSAGE << res.num_ok << " copies came before the owner's death, "
                     << res.num_refused << " after it";
    EXPECT_EQ(0u, res.num_wrong);
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 0, s.importer));
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0, s.importer));
    expect_errors(s);
}

UCS_TEST_P(test_rocm_ipc_death, many_mappings_go)
{
    need_emulator();

    scene s = set_scene();
    std::vector<shared> remotes;

    for (int i = 0; i < 50; ++i) {
        remotes.push_back(share(*s.owner, 4 * UCS_KBYTE));
        ASSERT_UCS_OK(get(*s.importer, s.ep, import(*s.importer, remotes[i]),
                          remotes[i]));
    }
    EXPECT_EQ(50, the_node().count(EMUL_COUNT_ATTACHES, s.importer));
    kill_and_expect_gone(*s.owner, *s.importer);
}

UCS_TEST_P(test_rocm_ipc_death, copy_in_flight_ends)
{
    need_emulator();

    scene s      = set_scene();
    buffer local = s.importer->alloc(default_length);
    ucs_status_t status;
    operation op;

    s.importer->fill(local);
    the_node().close_gate(s.importer, "copy");
    op = s.importer->start_get(s.ep, s.rkey, s.remote.mem.address,
                               local.address, local.length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);
    s.owner->kill();
    EXPECT_TRUE(noticed(*s.importer));
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, s.importer));

    the_node().open_gate(s.importer, "copy");
    status = s.importer->finish(op);
    EXPECT_NE(UCS_ERR_TIMED_OUT, status);
    if (status == UCS_OK) {
        EXPECT_TRUE(s.importer->holds(local.address, local.length,
                                      s.remote.mem.seed));
    }
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 0, s.importer));
    expect_errors(s);
}

UCS_TEST_P(test_rocm_ipc_death, held_pointer_stays_good)
{
    need_emulator();

    scene s = set_scene();
    uint64_t pointer;

    ASSERT_UCS_OK(s.importer->rkey_ptr(s.rkey, s.remote.mem.address, pointer));
    s.owner->kill();
    EXPECT_TRUE(noticed(*s.importer));
    EXPECT_TRUE(s.importer->holds(pointer, default_length, s.remote.mem.seed, 0,
                                  rocm_ipc::ACCESS_CPU));
    EXPECT_UCS_OK(s.importer->release(s.rkey));
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, s.importer));
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
}

/* The death of one owner is no matter of another's. */
UCS_TEST_P(test_rocm_ipc_death, other_owner_is_not_disturbed)
{
    need_emulator();

    scene s       = set_scene();
    peer &other   = start("other");
    shared remote = share(other);
    uint64_t ep   = s.importer->connect(other);
    uint64_t rkey = import(*s.importer, remote);

    ASSERT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
    ASSERT_UCS_OK(get(*s.importer, ep, rkey, remote));
    s.owner->kill();
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 1, s.importer));
    EXPECT_UCS_OK(get(*s.importer, ep, rkey, remote));
    EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", s.importer));
    other.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(*s.importer, ep, rkey, remote));
}

/* A kernel without pidfd: the start time of the process tells. */
UCS_TEST_P(test_rocm_ipc_death, noticed_without_pidfd)
{
    need_emulator();

    scene s = set_scene();

    if (s.importer->call(rocm_ipc::VERB_REFUSE_PIDFD).status != UCS_OK) {
        UCS_TEST_SKIP_R("system calls cannot be refused here");
    }

    ASSERT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
    kill_and_expect_gone(*s.owner, *s.importer);
    expect_errors(s);
}

/* The importer can open hardly any file, or none at all: whatever does not
 * succeed is an error, and whoever cannot be watched is worth a warning. */
UCS_TEST_P(test_rocm_ipc_death, out_of_files)
{
    need_emulator();

    for (uint64_t num_files = 0; num_files < 8; ++num_files) {
        std::string number  = ucs::to_string(num_files);
        peer &owner         = start("owner" + number);
        peer &importer      = start("importer" + number);
        shared remote       = share(owner);
        uint64_t ep         = importer.connect(owner);
        uint64_t rkey       = import(importer, remote);
        buffer local        = importer.alloc(default_length);
        std::string warning = "limit of open files";
        ucs_status_t status;

        expect_log_messages();
        ASSERT_UCS_OK(
                importer.call(rocm_ipc::VERB_LIMIT_FILES, {num_files}).status);
        status = importer.get(ep, rkey, remote.mem.address, local.address,
                              local.length);
        ASSERT_UCS_OK(
                importer.call(rocm_ipc::VERB_LIMIT_FILES, {UINT64_MAX}).status);
        UCS_TEST_MESSAGE << "room for " << num_files
                         << " files: " << ucs_status_string(status);

        if (status == UCS_OK) {
            EXPECT_TRUE(importer.holds(local.address, local.length,
                                       remote.mem.seed));
        }

        if (status != UCS_OK) {
            EXPECT_TRUE(UCS_STATUS_IS_ERR(status));
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
            EXPECT_NE(std::string::npos, importer.output().find(" ERROR "));
            owner.kill();
        } else if (importer.output().find(warning) != std::string::npos) {
            importer.disconnect(ep);
            importer.quit();
            owner.kill();
        } else {
            owner.kill();
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 0, &importer))
                    << "with room for " << num_files << " files";
        }
    }
}

/* A handler outlives the mapping that it was armed for; it must not outlive the
 * owner. */
UCS_TEST_P(test_rocm_ipc_death, handlers_of_evicted_mappings_go)
{
    set("UCX_ROCM_IPC_CACHE_MAX_REGIONS", "1");
    need_emulator();

    scene s       = set_scene();
    shared second = share(*s.owner);

    ASSERT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
    ASSERT_UCS_OK(get(*s.importer, s.ep, import(*s.importer, second), second));
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, s.importer));
    kill_and_expect_gone(*s.owner, *s.importer);
}

UCS_TEST_P(test_rocm_ipc_death, owner_and_other_importer)
{
    need_emulator();

    scene s       = set_scene();
    peer &second  = start("second");
    uint64_t ep   = second.connect(*s.owner);
    uint64_t rkey = import(second, s.remote);

    ASSERT_UCS_OK(get(*s.importer, s.ep, s.rkey, s.remote));
    ASSERT_UCS_OK(get(second, ep, rkey, s.remote));
    s.importer->kill();
    kill_and_expect_gone(*s.owner, second);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_death)
