/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

/* A pointer to remote memory, good until its rkey is released. */
class test_rocm_ipc_rkey_ptr : public test_rocm_ipc {};

UCS_TEST_P(test_rocm_ipc_rkey_ptr, shows_memory_of_owner)
{
    const size_t offset = 4097;
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t base, inside;

    ASSERT_UCS_OK(importer.rkey_ptr(rkey, remote.mem.address, base));
    ASSERT_UCS_OK(importer.rkey_ptr(rkey, remote.mem.address + offset, inside));
    EXPECT_EQ(base + offset, inside);
    EXPECT_TRUE(importer.holds(base, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));

    /* Each sees what the other writes */
    importer.fill(base, remote.mem.length, remote.mem.seed + 1000, 0,
                  rocm_ipc::ACCESS_CPU);
    EXPECT_TRUE(owner.holds(remote.mem.address, remote.mem.length,
                            remote.mem.seed + 1000));
    owner.fill(remote.mem);
    EXPECT_TRUE(importer.holds(base, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));

    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }
    EXPECT_UCS_OK(importer.release(rkey));
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_rkey_ptr, out_of_range_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t pointer;

    expect_log_messages();
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            importer.rkey_ptr(rkey, remote.mem.address - 1, pointer)));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            importer.rkey_ptr(rkey, remote.mem.end(), pointer)));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(importer.rkey_ptr(rkey, 0, pointer)));
    EXPECT_TRUE(
            UCS_STATUS_IS_ERR(importer.rkey_ptr(rkey, UINT64_MAX, pointer)));
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }
}

UCS_TEST_P(test_rocm_ipc_rkey_ptr, held_pointer_outlives_free)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t pointer, another, freed;

    ASSERT_UCS_OK(importer.rkey_ptr(rkey, remote.mem.address, pointer));
    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(noticed(importer));
        expect_still_mapped(owner, importer, freed);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR,
                  importer.rkey_ptr(rkey, remote.mem.address, another));
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    }
    EXPECT_TRUE(importer.holds(pointer, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));

    EXPECT_UCS_OK(importer.release(rkey));
    EXPECT_UCS_OK(owner.wait(freed).status);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_rkey_ptr, last_of_several_holders_drops_mapping)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkeys[3], pointers[3];
    uint64_t freed, again;

    for (int i = 0; i < 3; ++i) {
        rkeys[i] = import(importer, remote);
        ASSERT_UCS_OK(
                importer.rkey_ptr(rkeys[i], remote.mem.address, pointers[i]));
        EXPECT_EQ(pointers[0], pointers[i]);
    }
    /* One rkey, two pointers: both go when it is released */
    ASSERT_UCS_OK(importer.rkey_ptr(rkeys[0], remote.mem.address, again));

    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(noticed(importer));
    }

    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(importer.holds(pointers[i], remote.mem.length,
                                   remote.mem.seed, 0, rocm_ipc::ACCESS_CPU));
        if (emulated()) {
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
            EXPECT_FALSE(owner.replied(freed));
        }
        EXPECT_UCS_OK(importer.release(rkeys[i]));
    }

    EXPECT_UCS_OK(owner.wait(freed).status);
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_rkey_ptr, after_free_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared mapped  = share(owner);
    shared never   = share(owner);
    uint64_t rkey1 = import(importer, mapped);
    uint64_t rkey2 = import(importer, never);
    uint64_t pointer;

    ASSERT_UCS_OK(get(importer, ep, rkey1, mapped));
    owner.free(mapped.mem);
    owner.free(never.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR,
              importer.rkey_ptr(rkey1, mapped.mem.address, pointer));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR,
              importer.rkey_ptr(rkey2, never.mem.address, pointer));
}

UCS_TEST_P(test_rocm_ipc_rkey_ptr, shares_mapping_with_copies)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey1 = import(importer, remote);
    uint64_t rkey2 = import(importer, remote);
    uint64_t pointer;

    ASSERT_UCS_OK(get(importer, ep, rkey1, remote));
    ASSERT_UCS_OK(importer.rkey_ptr(rkey2, remote.mem.address, pointer));
    ASSERT_UCS_OK(put(owner, importer, ep, rkey1, remote));
    EXPECT_TRUE(importer.holds(pointer, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    /* Nobody holds a pointer any more: the free does not wait for rkeys */
    EXPECT_UCS_OK(importer.release(rkey2));
    owner.free(remote.mem);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_rkey_ptr)
