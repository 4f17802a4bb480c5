/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* The owner frees memory that it has handed out, and the free finishes. */
class test_rocm_ipc_lifetime : public test_rocm_ipc {};

UCS_TEST_P(test_rocm_ipc_lifetime, free_drops_mapping_of_idle_importer)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);
    int64_t charged = 0;
    rocm_ipc::result freed;

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    if (emulated()) {
        charged = the_node().count(EMUL_COUNT_BYTES_CHARGED);
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }

    /* The importer is told nothing meanwhile: neither UCX nor the test calls
     * anything there */
    freed = owner.wait(owner.post_free(remote.mem));
    ASSERT_UCS_OK(freed.status);
    UCS_TEST_MESSAGE << "the free took " << (freed.elapsed * 1e3) << " ms";

    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
        EXPECT_EQ(charged - (int64_t)remote.mem.length,
                  the_node().count(EMUL_COUNT_BYTES_CHARGED));
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0, &importer));
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_IPC_SIGNAL_ATTACHES, 0,
                                       &importer));
    }

    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_drops_mapping_of_deregistered_memory)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    ASSERT_UCS_OK(owner.dereg(remote.memh));
    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_after_put)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(put(owner, importer, ep, rkey, remote));
    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, put(owner, importer, ep, rkey, remote));
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_before_importer_maps)
{
    set("EMUL_LATE_ATTACH", "block");

    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_after_importer_closed)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    importer.close_transport();
    owner.free(remote.mem);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_drops_mappings_of_two_importers)
{
    peer &owner   = start("owner");
    peer &first   = start("first");
    peer &second  = start("second");
    shared remote = share(owner);
    uint64_t ep1 = first.connect(owner), ep2 = second.connect(owner);
    uint64_t rkey1 = import(first, remote), rkey2 = import(second, remote);

    ASSERT_UCS_OK(get(first, ep1, rkey1, remote));
    ASSERT_UCS_OK(put(owner, second, ep2, rkey2, remote));
    ASSERT_UCS_OK(get(first, ep1, rkey1, remote));
    if (emulated()) {
        EXPECT_EQ(2, the_node().count(EMUL_COUNT_ATTACHES));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_IPC_SIGNALS));
    }

    owner.free(remote.mem);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }

    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(first, ep1, rkey1, remote));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(second, ep2, rkey2, remote));
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_leaves_other_owners_mapping)
{
    peer &gone     = start("gone");
    peer &kept     = start("kept");
    peer &importer = start("importer");
    shared remote1 = share(gone);
    shared remote2 = share(kept);
    uint64_t ep1 = importer.connect(gone), ep2 = importer.connect(kept);
    uint64_t rkey1 = import(importer, remote1);
    uint64_t rkey2 = import(importer, remote2);

    ASSERT_UCS_OK(get(importer, ep1, rkey1, remote1));
    ASSERT_UCS_OK(get(importer, ep2, rkey2, remote2));
    gone.free(remote1.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep1, rkey1, remote1));
    EXPECT_UCS_OK(get(importer, ep2, rkey2, remote2));
    if (emulated()) {
        EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_leaves_other_mapping_of_same_owner)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared gone    = share(owner);
    shared kept    = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey1 = import(importer, gone);
    uint64_t rkey2 = import(importer, kept);

    ASSERT_UCS_OK(get(importer, ep, rkey1, gone));
    ASSERT_UCS_OK(get(importer, ep, rkey2, kept));
    owner.free(gone.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey1, gone));
    EXPECT_UCS_OK(get(importer, ep, rkey2, kept));
    if (emulated()) {
        EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_on_every_device)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);

    for (int device = 0; device < the_node().num_devices(); ++device) {
        shared remote;
        uint64_t rkey;

        remote.mem = owner.alloc(default_length, UCS_MEMORY_TYPE_ROCM, device);
        owner.fill(remote.mem);
        ASSERT_UCS_OK(
                owner.reg(remote.mem.address, remote.mem.length, remote.memh));
        ASSERT_UCS_OK(owner.pack(remote.memh, remote.key));
        rkey = import(importer, remote);
        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        ASSERT_UCS_OK(put(owner, importer, ep, rkey, remote));
        owner.free(remote.mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    }
}

UCS_TEST_P(test_rocm_ipc_lifetime, free_in_a_burst)
{
    const size_t num = 100;
    peer &owner      = start("owner");
    peer &importer   = start("importer");
    uint64_t ep      = importer.connect(owner);
    std::vector<shared> remotes;
    std::vector<uint64_t> frees;

    for (size_t i = 0; i < num; ++i) {
        remotes.push_back(share(owner, 4 * UCS_KBYTE));
        ASSERT_UCS_OK(
                get(importer, ep, import(importer, remotes[i]), remotes[i]));
    }
    if (emulated()) {
        EXPECT_EQ((int64_t)num,
                  the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }

    for (size_t i = 0; i < num; ++i) {
        frees.push_back(owner.post_free(remotes[i].mem));
    }
    for (size_t i = 0; i < num; ++i) {
        EXPECT_UCS_OK(owner.wait(frees[i]).status);
    }
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }
}

/* Whoever has noticed the free is held up: the free waits for it, and the
 * importer's other mappings work meanwhile, since no lock is held. */
UCS_TEST_P(test_rocm_ipc_lifetime, free_waits_for_detach)
{
    static const char point[] = "hsa_amd_ipc_memory_detach";

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared gone    = share(owner);
    shared other   = share(owner);
    uint64_t rkey1 = import(importer, gone);
    uint64_t freed;

    ASSERT_UCS_OK(get(importer, ep, rkey1, gone));
    the_node().close_gate(&importer, point);
    freed = owner.post_free(gone.mem);
    ASSERT_TRUE(the_node().waiting(point, 1, &importer));
    ASSERT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, &owner));

    EXPECT_UCS_OK(get(importer, ep, import(importer, other), other));
    EXPECT_FALSE(owner.replied(freed));
    EXPECT_EQ(2, the_node().count(EMUL_COUNT_ATTACHES, &importer));

    the_node().open_gate(&importer, point);
    EXPECT_UCS_OK(owner.wait(freed).status);
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
}

/* Whoever comes first, the copy or the free: data is right wherever success
 * is reported, and the free finishes. */
UCS_TEST_P(test_rocm_ipc_lifetime, free_while_importer_maps)
{
    const size_t length = 64 * UCS_KBYTE;
    const int rounds    = 100 / ucs::test_time_multiplier();
    peer &owner         = start("owner");
    peer &importer      = start("importer");
    uint64_t ep         = importer.connect(owner);
    buffer local        = importer.alloc(length);
    int num_done        = 0;

    for (int i = 0; i < rounds; ++i) {
        shared remote = share(owner, length);
        uint64_t rkey = import(importer, remote);
        uint64_t freed, copied;
        rocm_ipc::result res;
        operation op;

        importer.fill(local);
        copied    = importer.post(rocm_ipc::VERB_EP_GET, rocm_ipc::LANE_MAIN,
                                  {ep, rkey, remote.mem.address, local.address,
                                   length});
        freed     = owner.post_free(remote.mem);
        res       = importer.wait(copied);
        op.status = res.status;
        op.completion = res.number[0];
        op.status     = importer.finish(op);
        EXPECT_UCS_OK(owner.wait(freed).status);

        if (op.status == UCS_OK) {
            ++num_done;
            EXPECT_TRUE(importer.holds(local.address, length, remote.mem.seed));
        } else {
            EXPECT_EQ(UCS_ERR_INVALID_ADDR, op.status);
            EXPECT_TRUE(importer.holds(local));
        }
    }

    UCS_TEST_MESSAGE << num_done << " of " << rounds
                     << " copies came before the free";
}

/* Report 1 */
UCS_TEST_P(test_rocm_ipc_lifetime, ever_new_buffers_do_not_fill_memory)
{
    peer &owner     = start("owner");
    peer &importer  = start("importer");
    uint64_t ep     = importer.connect(owner);
    int64_t charged = 0;

    if (emulated()) {
        charged = the_node().count(EMUL_COUNT_BYTES_CHARGED);
    }

    for (int i = 0; i < 200; ++i) {
        shared remote = share(owner, 64 * UCS_KBYTE);
        uint64_t rkey = import(importer, remote);

        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        /* Both orders are found in applications */
        if (i % 2) {
            ASSERT_UCS_OK(owner.dereg(remote.memh));
            owner.free(remote.mem);
            ASSERT_UCS_OK(importer.release(rkey));
        } else {
            ASSERT_UCS_OK(importer.release(rkey));
            owner.free(remote.mem);
            ASSERT_UCS_OK(owner.dereg(remote.memh));
        }

        if (emulated()) {
            ASSERT_EQ(charged, the_node().count(EMUL_COUNT_BYTES_CHARGED));
            ASSERT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        }
    }
}

/* Memory that the driver counts as taken until the last importer lets go,
 * although the free has returned. */
UCS_TEST_P(test_rocm_ipc_lifetime, deferred_free_gives_memory_back)
{
    set("EMUL_FREE", "deferred");

    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    ASSERT_UCS_OK(get(importer, ep, rkey, remote));
    owner.free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
}

/* Memory at an address that was in use before. */
class test_rocm_ipc_reuse : public test_rocm_ipc {
protected:
    test_rocm_ipc_reuse()
    {
        set("EMUL_ADDRESS_REUSE", "force");
    }

    /** Share, map, free, and again with another length: the second mapping
     *  must be of the second memory. */
    void reuse_with_lengths(const std::vector<size_t> &lengths)
    {
        peer &owner            = start("owner");
        peer &importer         = start("importer");
        uint64_t ep            = importer.connect(owner);
        uint64_t first_address = 0;

        for (size_t i = 0; i < lengths.size(); ++i) {
            shared remote = share(owner, lengths[i]);
            uint64_t rkey = import(importer, remote);

            if (i == 0) {
                first_address = remote.mem.address;
            } else if (emulated()) {
                EXPECT_EQ(first_address, remote.mem.address);
            }

            EXPECT_UCS_OK(get(importer, ep, rkey, remote));
            EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
            EXPECT_UCS_OK(get(importer, ep, rkey, remote));
            if (emulated()) {
                EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES));
            }

            owner.free(remote.mem);
            EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
        }
    }
};

/* Report 3 */
UCS_TEST_P(test_rocm_ipc_reuse, same_length)
{
    reuse_with_lengths(std::vector<size_t>(10, default_length));
}

/* Report 2 */
UCS_TEST_P(test_rocm_ipc_reuse, growing_length)
{
    reuse_with_lengths({64 * UCS_KBYTE, 128 * UCS_KBYTE, UCS_MBYTE});
}

UCS_TEST_P(test_rocm_ipc_reuse, shrinking_length)
{
    reuse_with_lengths({UCS_MBYTE, 128 * UCS_KBYTE, 64 * UCS_KBYTE});
}

UCS_TEST_P(test_rocm_ipc_reuse, key_of_former_memory_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared former  = share(owner);
    uint64_t rkey1, rkey2;
    shared present;

    owner.free(former.mem);
    present = share(owner);
    if (emulated()) {
        EXPECT_EQ(former.mem.address, present.mem.address);
    }

    rkey1 = import(importer, former);
    rkey2 = import(importer, present);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey1, former));
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey1, former));
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }
}

/* The former mapping is still held by a pointer when the new one comes. */
UCS_TEST_P(test_rocm_ipc_reuse, former_mapping_still_pinned)
{
    set("EMUL_FREE", "deferred");

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared former  = share(owner);
    uint64_t rkey1 = import(importer, former);
    uint64_t pointer, rkey2;
    shared present;

    ASSERT_UCS_OK(importer.rkey_ptr(rkey1, former.mem.address, pointer));
    owner.free(former.mem);
    present = share(owner);
    if (emulated()) {
        EXPECT_EQ(former.mem.address, present.mem.address);
    }

    rkey2 = import(importer, present);
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    EXPECT_TRUE(importer.holds(pointer, former.mem.length, former.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));
    EXPECT_UCS_OK(importer.release(rkey1));
    EXPECT_UCS_OK(get(importer, ep, rkey2, present));
    if (emulated()) {
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }
}

/* Report 4 */
UCS_TEST_P(test_rocm_ipc_lifetime, two_owners_at_one_address_do_not_thrash)
{
    /* Free in every process, sanitizers included */
    set("EMUL_ADDRESS_START", "0x7ea000000000");

    peer &owner1   = start("owner1");
    peer &owner2   = start("owner2");
    peer &importer = start("importer");
    shared remote1 = share(owner1);
    shared remote2 = share(owner2);
    uint64_t ep1 = importer.connect(owner1), ep2 = importer.connect(owner2);
    uint64_t rkey1 = import(importer, remote1);
    uint64_t rkey2 = import(importer, remote2);

    if (emulated()) {
        ASSERT_EQ(remote1.mem.address, remote2.mem.address);
    } else if (remote1.mem.address != remote2.mem.address) {
        UCS_TEST_SKIP_R("the runtime gives different addresses");
    }

    for (int i = 0; i < 20; ++i) {
        ASSERT_UCS_OK(get(importer, ep1, rkey1, remote1));
        ASSERT_UCS_OK(get(importer, ep2, rkey2, remote2));
    }

    if (emulated()) {
        EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
    }

    owner1.free(remote1.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep1, rkey1, remote1));
    EXPECT_UCS_OK(get(importer, ep2, rkey2, remote2));
}

/* The runtime sees managed memory as no GPU's own, so it cannot be handed out;
 * its free must not be taken for that of something that was. */
UCS_TEST_P(test_rocm_ipc_lifetime, managed_memory_disturbs_nothing)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer managed = owner.alloc(default_length, UCS_MEMORY_TYPE_ROCM_MANAGED);
    uint64_t memh;
    std::string key;

    owner.fill(managed);
    ASSERT_UCS_OK(get(importer, ep, rkey, remote));

    /* Refused or harmless, as the runtime sees it */
    expect_log_messages();
    if (owner.reg(managed.address, managed.length, memh) == UCS_OK) {
        owner.pack(memh, key);
    }

    EXPECT_TRUE(owner.holds(managed));
    owner.free(managed);
    EXPECT_UCS_OK(get(importer, ep, rkey, remote));
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }
}

/* Without invalidation on one side, memory is shared as ever: the mapping stays
 * until the importer goes, and only then the owner's free finishes. */
class test_rocm_ipc_no_invalidation : public test_rocm_ipc {
protected:
    void share_and_free(const environment_t &owner_environment,
                        const environment_t &importer_environment,
                        size_t key_length, size_t own_key_length)
    {
        peer &owner    = start("owner", owner_environment);
        peer &importer = start("importer", importer_environment);
        uint64_t ep    = importer.connect(owner);
        shared remote  = share(owner);
        uint64_t rkey  = import(importer, remote);
        uint64_t freed;

        EXPECT_EQ(key_length, remote.key.size());
        EXPECT_EQ(own_key_length, importer.query_md().rkey_packed_size);
        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));

        freed = owner.post_free(remote.mem);
        if (emulated()) {
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
            EXPECT_UCS_OK(get(importer, ep, rkey, remote));
            EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_HANDLERS));
            EXPECT_FALSE(owner.replied(freed));
        }

        importer.close_transport();
        importer.quit();
        EXPECT_UCS_OK(owner.wait(freed).status);
    }

    /** The connection is closed while the importer lives on. */
    void share_disconnect_and_free(const environment_t &owner_environment,
                                   const environment_t &importer_environment)
    {
        peer &owner    = start("owner", owner_environment);
        peer &importer = start("importer", importer_environment);
        uint64_t ep1   = importer.connect(owner);
        uint64_t ep2   = importer.connect(owner);
        shared remote  = share(owner);
        uint64_t rkey  = import(importer, remote);

        EXPECT_UCS_OK(get(importer, ep1, rkey, remote));
        EXPECT_UCS_OK(get(importer, ep2, rkey, remote));
        importer.disconnect(ep1);
        EXPECT_UCS_OK(get(importer, ep2, rkey, remote));
        EXPECT_UCS_OK(importer.release(rkey));
        importer.disconnect(ep2);
        owner.free(remote.mem);
        if (emulated()) {
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        }
    }

    static environment_t off()
    {
        return {{"UCX_ROCM_IPC_SIGNAL_INVALIDATE", "n"}};
    }
};

UCS_TEST_P(test_rocm_ipc_no_invalidation, owner)
{
    share_and_free(off(), environment_t(), 64, 96);
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_signal_create"));
    }
}

UCS_TEST_P(test_rocm_ipc_no_invalidation, importer)
{
    share_and_free(environment_t(), off(), 96, 64);
}

UCS_TEST_P(test_rocm_ipc_no_invalidation, both)
{
    share_and_free(off(), off(), 64, 64);
}

UCS_TEST_P(test_rocm_ipc_no_invalidation, owner_and_importer_disconnects)
{
    share_disconnect_and_free(off(), environment_t());
}

UCS_TEST_P(test_rocm_ipc_no_invalidation, importer_disconnects)
{
    share_disconnect_and_free(environment_t(), off());
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_lifetime)
ROCM_IPC_TEST_MODES(test_rocm_ipc_reuse)
ROCM_IPC_TEST_MODES(test_rocm_ipc_no_invalidation)
