/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* An importer keeps no more than it is told to, or than the runtime gives. */
class test_rocm_ipc_bounds : public test_rocm_ipc {
protected:
    typedef std::vector<shared>   shared_list;
    typedef std::vector<uint64_t> id_list;

    /** An importer with a bounded cache, and what it may import. */
    struct scene {
        peer        *owner;
        peer        *importer;
        uint64_t    ep;
        shared_list remotes;
        id_list     rkeys;
    };

    scene set_scene(size_t num, const environment_t &importer_environment)
    {
        scene made;

        made.owner    = &start("owner");
        made.importer = &start("importer", importer_environment);
        made.ep       = made.importer->connect(*made.owner);
        for (size_t i = 0; i < num; ++i) {
            made.remotes.push_back(share(*made.owner));
            made.rkeys.push_back(import(*made.importer, made.remotes[i]));
        }
        return made;
    }

    static environment_t max_regions(const std::string &num)
    {
        return {{"UCX_ROCM_IPC_CACHE_MAX_REGIONS", num}};
    }

    ucs_status_t get_one(scene &s, size_t i)
    {
        return get(*s.importer, s.ep, s.rkeys[i], s.remotes[i]);
    }

    int64_t num_attaches(const scene &s)
    {
        return the_node().calls("hsa_amd_ipc_memory_attach", s.importer);
    }

    int64_t num_mapped(const scene &s)
    {
        return the_node().count(EMUL_COUNT_ATTACHES, s.importer);
    }

    void expect_output(const peer &who, const std::string &text)
    {
        EXPECT_NE(std::string::npos, who.output().find(text)) << text;
    }

    static int num_in_output(const peer &who, const std::string &text)
    {
        std::string output = who.output();
        int count          = 0;
        size_t at          = 0;

        while ((at = output.find(text, at)) != std::string::npos) {
            ++count;
            at += text.size();
        }
        return count;
    }
};

UCS_TEST_P(test_rocm_ipc_bounds, least_recently_used_region_goes)
{
    need_emulator();

    scene s = set_scene(4, max_regions("3"));

    for (size_t i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get_one(s, i));
    }
    EXPECT_EQ(3, num_mapped(s));

    /* Of these, 1 is the one that was not used since */
    EXPECT_UCS_OK(get_one(s, 0));
    EXPECT_UCS_OK(get_one(s, 2));
    EXPECT_UCS_OK(get_one(s, 3));
    EXPECT_EQ(3, num_mapped(s));
    EXPECT_EQ(4, num_attaches(s));

    EXPECT_UCS_OK(get_one(s, 0));
    EXPECT_UCS_OK(get_one(s, 2));
    EXPECT_UCS_OK(get_one(s, 3));
    EXPECT_EQ(4, num_attaches(s));

    EXPECT_UCS_OK(get_one(s, 1));
    EXPECT_EQ(3, num_mapped(s));
    EXPECT_EQ(5, num_attaches(s));
}

UCS_TEST_P(test_rocm_ipc_bounds, size_is_bounded)
{
    need_emulator();

    /* Room for two of them, and not for three */
    scene s = set_scene(5, {{"UCX_ROCM_IPC_CACHE_MAX_SIZE", "600k"}});

    for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < s.rkeys.size(); ++i) {
            EXPECT_UCS_OK(get_one(s, i));
            EXPECT_LE(num_mapped(s), 2);
        }
    }
    EXPECT_EQ(2, num_mapped(s));
}

UCS_TEST_P(test_rocm_ipc_bounds, without_bounds_nothing_goes)
{
    need_emulator();

    scene s = set_scene(20, environment_t());

    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < s.rkeys.size(); ++i) {
            EXPECT_UCS_OK(get_one(s, i));
        }
    }
    EXPECT_EQ(20, num_mapped(s));
    EXPECT_EQ(20, num_attaches(s));
}

UCS_TEST_P(test_rocm_ipc_bounds, what_is_in_use_stays)
{
    need_emulator();

    scene s      = set_scene(4, max_regions("1"));
    buffer local = s.importer->alloc(default_length);
    uint64_t pointer;
    operation op;

    ASSERT_UCS_OK(s.importer->rkey_ptr(s.rkeys[0], s.remotes[0].mem.address,
                                       pointer));
    the_node().close_gate(s.importer, "copy");
    op = s.importer->start_get(s.ep, s.rkeys[1], s.remotes[1].mem.address,
                               local.address, local.length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);
    EXPECT_EQ(2, num_mapped(s));

    the_node().open_gate(s.importer, "copy");
    EXPECT_UCS_OK(get_one(s, 2));
    EXPECT_UCS_OK(s.importer->finish(op));
    EXPECT_TRUE(s.importer->holds(local.address, local.length,
                                  s.remotes[1].mem.seed));
    EXPECT_UCS_OK(get_one(s, 3));
    EXPECT_TRUE(s.importer->holds(pointer, default_length,
                                  s.remotes[0].mem.seed, 0,
                                  rocm_ipc::ACCESS_CPU));

    EXPECT_UCS_OK(s.importer->release(s.rkeys[0]));
    EXPECT_UCS_OK(get_one(s, 1));
    EXPECT_EQ(1, num_mapped(s));
}

/* The data is that of the owner, and its free is noticed, whether the memory is
 * mapped for the first time or again, or is not mapped at the time. */
UCS_TEST_P(test_rocm_ipc_bounds, free_is_noticed_after_eviction)
{
    need_emulator();

    scene s = set_scene(3, max_regions("1"));

    EXPECT_UCS_OK(get_one(s, 0));
    EXPECT_UCS_OK(get_one(s, 1));
    s.owner->fill(s.remotes[0].mem);
    EXPECT_UCS_OK(get_one(s, 0));
    s.owner->free(s.remotes[0].mem);
    EXPECT_EQ(0, num_mapped(s));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get_one(s, 0));

    s.owner->free(s.remotes[1].mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get_one(s, 1));
    EXPECT_EQ(3, num_attaches(s));
    EXPECT_UCS_OK(get_one(s, 2));
}

UCS_TEST_P(test_rocm_ipc_bounds, eviction_in_a_loop_piles_up_nothing)
{
    const size_t num = 4;
    const int rounds = 1000 / ucs::test_time_multiplier();
    int64_t num_local;

    need_emulator();

    scene s           = set_scene(num, max_regions("2"));
    rocm_ipc::route w = s.importer->connect_lane(*s.owner, rocm_ipc::LANE_LAST);

    EXPECT_UCS_OK(get_one(s, 0));
    num_local = the_node().count(EMUL_COUNT_SIGNALS, s.importer);

    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < num; ++i) {
            const buffer &mem         = s.remotes[i].mem;
            rocm_ipc::work_result res = peer::to_work_result(s.importer->wait(
                    s.importer->post_work(w, s.remotes[i].key, mem.address,
                                          4096, mem.seed, 0, 1)));

            ASSERT_EQ(1u, res.num_ok) << ucs_status_string(res.last_error);
        }

        if ((round % 100) == 0) {
            EXPECT_LE(the_node().count(EMUL_COUNT_HANDLERS, s.importer),
                      (int64_t)num);
            EXPECT_LE(the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES,
                                       s.importer),
                      (int64_t)num);
        }
    }

    /* The first one was mapped already */
    EXPECT_EQ((int64_t)(num * rounds), num_attaches(s));
    EXPECT_EQ(2, num_mapped(s));
    EXPECT_LE(the_node().count(EMUL_COUNT_HANDLERS, s.importer), (int64_t)num);
    EXPECT_LE(the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES, s.importer),
              (int64_t)num);
    EXPECT_LE(the_node().count(EMUL_COUNT_SIGNALS, s.importer), num_local + 1);
    for (size_t i = 0; i < num; ++i) {
        s.owner->free(s.remotes[i].mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get_one(s, i));
    }
}

UCS_TEST_P(test_rocm_ipc_bounds, out_of_mappings_evicts)
{
    set("EMUL_MAX_ATTACHES", "3");
    need_emulator();

    scene s = set_scene(6, environment_t());

    for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < s.rkeys.size(); ++i) {
            EXPECT_UCS_OK(get_one(s, i));
        }
    }
    EXPECT_EQ(3, num_mapped(s));
}

UCS_TEST_P(test_rocm_ipc_bounds, out_of_mappings_in_use)
{
    set("EMUL_MAX_ATTACHES", "3");
    need_emulator();
    expect_log_messages();

    scene s = set_scene(5, environment_t());
    uint64_t pointer;

    for (size_t i = 0; i < 3; ++i) {
        ASSERT_UCS_OK(s.importer->rkey_ptr(s.rkeys[i], s.remotes[i].mem.address,
                                           pointer));
    }

    EXPECT_EQ(UCS_ERR_NO_MEMORY, get_one(s, 3));
    expect_output(*s.importer, "out of ROCm IPC mappings");
    expect_output(*s.importer, "UCX_ROCM_IPC_CACHE_MAX_REGIONS");
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get_one(s, i));
    }

    EXPECT_UCS_OK(s.importer->release(s.rkeys[1]));
    EXPECT_UCS_OK(get_one(s, 3));
    EXPECT_UCS_OK(get_one(s, 4));
    EXPECT_EQ(3, num_mapped(s));
}

/* A region whose signal the runtime waits on cannot give it back; all others
 * do. */
UCS_TEST_P(test_rocm_ipc_bounds, out_of_signals)
{
    need_emulator();
    expect_log_messages();

    scene s = set_scene(6, environment_t());

    the_node().change_setting("EMUL_MAX_IPC_SIGNALS", "3");
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get_one(s, i));
    }

    if (has_handlers()) {
        EXPECT_EQ(UCS_ERR_NO_MEMORY, get_one(s, 3));
        expect_output(*s.importer, "out of ROCm IPC signals");
        expect_output(*s.importer, "UCX_ROCM_IPC_");
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_UCS_OK(get_one(s, i));
        }
    } else {
        for (size_t i = 0; i < s.rkeys.size(); ++i) {
            EXPECT_UCS_OK(get_one(s, i));
        }
        EXPECT_EQ(3, num_mapped(s));
        EXPECT_EQ(std::string::npos, s.importer->output().find(" ERROR "));
    }

    /* The owner itself is not disturbed, and what it frees makes room */
    for (size_t i = 0; i < 3; ++i) {
        s.owner->free(s.remotes[i].mem);
    }
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0, s.importer));
    for (size_t i = 3; i < s.rkeys.size(); ++i) {
        EXPECT_UCS_OK(get_one(s, i));
    }
}

UCS_TEST_P(test_rocm_ipc_bounds, exporter_out_of_signals_shares_without)
{
    const size_t num = 5, num_signals = 2;
    id_list freed;

    set("EMUL_MAX_IPC_SIGNALS", std::to_string(num_signals));
    need_emulator();
    expect_log_messages();

    scene s = set_scene(num, environment_t());

    EXPECT_EQ((int64_t)num_signals,
              the_node().count(EMUL_COUNT_IPC_SIGNALS, s.owner));
    EXPECT_EQ(1, num_in_output(*s.owner, " WARN "));
    EXPECT_EQ(0, num_in_output(*s.owner, " ERROR "));
    expect_output(*s.owner, "failed to create a ROCm IPC signal");
    expect_output(*s.owner, "UCX_ROCM_IPC_SIGNAL_INVALIDATE");

    for (size_t i = 0; i < num; ++i) {
        EXPECT_UCS_OK(get_one(s, i));
        EXPECT_UCS_OK(
                put(*s.owner, *s.importer, s.ep, s.rkeys[i], s.remotes[i]));
    }
    EXPECT_EQ((int64_t)num, num_attaches(s));

    /* Those with a signal go at once, the others like a stock peer's */
    for (size_t i = 0; i < num_signals; ++i) {
        s.owner->free(s.remotes[i].mem);
    }
    for (size_t i = num_signals; i < num; ++i) {
        freed.push_back(s.owner->post(rocm_ipc::VERB_FREE,
                                      rocm_ipc::LANE_LAST + i,
                                      {s.remotes[i].mem.address}));
    }
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, num - num_signals,
                                   s.owner));
    s.importer->close_transport();
    for (size_t i = 0; i < freed.size(); ++i) {
        EXPECT_UCS_OK(s.owner->wait(freed[i]).status);
    }
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_bounds)
