/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <hsa/hsa.h>

/* Copies: what is in flight keeps its mapping, and no longer. */
class test_rocm_ipc_copy : public test_rocm_ipc {};

UCS_TEST_P(test_rocm_ipc_copy, any_length_and_offset)
{
    static const size_t lengths[] = {1, 3, 4, 63, 4096, 4097, 65535};
    static const size_t offsets[] = {0, 1, 4095, 65536 + 7};
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);

    for (size_t i = 0; i < ucs_static_array_size(lengths); ++i) {
        for (size_t j = 0; j < ucs_static_array_size(offsets); ++j) {
            EXPECT_UCS_OK(get_part(importer, ep, rkey, remote, offsets[j],
                                   lengths[i]));
        }
    }
}

UCS_TEST_P(test_rocm_ipc_copy, put_writes_no_more_than_told)
{
    const size_t offset = 4099, length = 8191;
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t base  = remote.mem.address;
    buffer local   = importer.alloc(length);

    importer.fill(local);
    ASSERT_UCS_OK(importer.put(ep, rkey, base + offset, local.address, length));
    EXPECT_TRUE(owner.holds(base, offset, remote.mem.seed));
    EXPECT_TRUE(owner.holds(base + offset, length, local.seed));
    EXPECT_TRUE(owner.holds(base + offset + length,
                            remote.mem.length - offset - length,
                            remote.mem.seed, offset + length));
}

UCS_TEST_P(test_rocm_ipc_copy, zero_length_does_nothing)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);

    EXPECT_UCS_OK(
            importer.start_get(ep, rkey, remote.mem.address, local.address, 0)
                    .status);
    EXPECT_UCS_OK(
            importer.start_put(ep, rkey, remote.mem.address, local.address, 0)
                    .status);
    EXPECT_UCS_OK(importer.flush_ep(ep));
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(0, the_node().calls("hsa_amd_memory_async_copy", &importer));
    }
    EXPECT_TRUE(owner.holds(remote.mem));
}

UCS_TEST_P(test_rocm_ipc_copy, rkeys_of_one_allocation_share_one_mapping)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep1 = importer.connect(owner), ep2 = importer.connect(owner);
    shared remote  = share(owner);
    std::vector<uint64_t> rkeys;

    for (int i = 0; i < 50; ++i) {
        rkeys.push_back(import(importer, remote));
        ASSERT_UCS_OK(get(importer, (i % 2) ? ep1 : ep2, rkeys[i], remote));
    }

    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    }

    /* The mapping outlives the rkey that it was made for */
    ASSERT_UCS_OK(importer.release(rkeys[0]));
    importer.disconnect(ep2);
    EXPECT_UCS_OK(get(importer, ep1, rkeys[1], remote));
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    owner.free(remote.mem);
    for (size_t i = 1; i < rkeys.size(); ++i) {
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep1, rkeys[i], remote));
    }
}

/* What cannot be started is an error of that copy, and holds nothing. */
UCS_TEST_P(test_rocm_ipc_copy, copy_that_does_not_start_holds_nothing)
{
    static const char *functions[] = {"hsa_amd_ipc_memory_attach",
                                      "hsa_amd_memory_async_copy"};

    need_emulator();
    expect_log_messages();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);

    for (size_t i = 0; i < ucs_static_array_size(functions); ++i) {
        the_node().fail(&importer, functions[i], 1, 1,
                        HSA_STATUS_ERROR_OUT_OF_RESOURCES);
        EXPECT_TRUE(UCS_STATUS_IS_ERR(get(importer, ep, rkey, remote)));
        EXPECT_UCS_OK(importer.flush_ep(ep));
    }

    EXPECT_UCS_OK(get(importer, ep, rkey, remote));
    owner.free(remote.mem);
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
}

UCS_TEST_P(test_rocm_ipc_copy, get_in_flight_outlives_free)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);
    uint64_t freed;
    operation op;

    importer.fill(local);
    the_node().close_gate(&importer, "copy");
    op = importer.start_get(ep, rkey, remote.mem.address, local.address,
                            default_length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);
    ASSERT_TRUE(the_node().waiting("copy", 1, &importer));

    freed = owner.post_free(remote.mem);
    ASSERT_TRUE(noticed(importer));
    expect_still_mapped(owner, importer, freed);

    /* No copy may begin on what is about to go */
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    EXPECT_EQ(0, importer.look_at(op.completion).calls);

    the_node().open_gate(&importer, "copy");
    EXPECT_UCS_OK(importer.finish(op));
    EXPECT_TRUE(importer.holds(local.address, default_length, remote.mem.seed));
    EXPECT_UCS_OK(owner.wait(freed).status);
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
}

UCS_TEST_P(test_rocm_ipc_copy, put_in_flight_outlives_free)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);
    uint64_t freed;
    operation op;

    importer.fill(local);
    the_node().close_gate(&importer, "copy");
    op = importer.start_put(ep, rkey, remote.mem.address, local.address,
                            default_length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);
    freed = owner.post_free(remote.mem);
    ASSERT_TRUE(noticed(importer));
    expect_still_mapped(owner, importer, freed);

    the_node().open_gate(&importer, "copy");
    EXPECT_UCS_OK(importer.finish(op));
    EXPECT_UCS_OK(owner.wait(freed).status);
    EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES, &importer));
}

/* One copy more in flight than the user allows is an error of that copy. */
UCS_TEST_P(test_rocm_ipc_copy, copies_in_flight_are_bounded)
{
    const size_t allowed = 16;
    const size_t part    = UCS_KBYTE;
    std::vector<operation> ops;

    set("UCX_ROCM_IPC_SIGPOOL_MAX_ELEMS", "16");
    need_emulator();
    expect_log_messages();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);

    importer.fill(local);
    the_node().close_gate(&importer, "copy");
    for (size_t i = 0; i < allowed; ++i) {
        ops.push_back(importer.start_get(ep, rkey, remote.mem.address,
                                         local.address + (i * part), part));
        ASSERT_EQ(UCS_INPROGRESS, ops.back().status);
    }
    EXPECT_EQ(UCS_ERR_NO_MEMORY,
              importer.start_get(ep, rkey, remote.mem.address, local.address,
                                 part)
                      .status);

    the_node().open_gate(&importer, "copy");
    for (size_t i = 0; i < ops.size(); ++i) {
        EXPECT_UCS_OK(importer.finish(ops[i]));
    }
    EXPECT_UCS_OK(get(importer, ep, rkey, remote));
    owner.free(remote.mem);
}

/* The mapping goes with the last of several copies, and not before. */
UCS_TEST_P(test_rocm_ipc_copy, last_copy_in_flight_drops_mapping)
{
    const size_t part = 4 * UCS_KBYTE;
    std::vector<operation> ops;
    uint64_t freed;

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey1 = import(importer, remote);
    uint64_t rkey2 = import(importer, remote);
    buffer local   = importer.alloc(default_length);

    importer.fill(local);
    the_node().close_gate(&importer, "copy");
    for (size_t offset = 0; offset < default_length; offset += part) {
        ops.push_back(importer.start_get(ep, (ops.size() % 2) ? rkey1 : rkey2,
                                         remote.mem.address + offset,
                                         local.address + offset, part));
        ASSERT_EQ(UCS_INPROGRESS, ops.back().status);
    }

    freed = owner.post_free(remote.mem);
    ASSERT_TRUE(noticed(importer));
    expect_still_mapped(owner, importer, freed);

    the_node().open_gate(&importer, "copy");
    for (size_t i = 0; i < ops.size(); ++i) {
        EXPECT_UCS_OK(importer.finish(ops[i]));
    }
    EXPECT_TRUE(importer.holds(local.address, default_length, remote.mem.seed));
    EXPECT_UCS_OK(owner.wait(freed).status);
    EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
}

/* One mapping per copy. */
class test_rocm_ipc_cache_off : public test_rocm_ipc_copy {
protected:
    peer &start_importer()
    {
        return start("importer", {{"UCX_ROCM_IPC_CACHE_IPC_HANDLES", "n"}});
    }

    /** Each mapping was dropped, and once only (report 7). */
    void expect_balance(const peer &importer, int64_t num_copies)
    {
        if (emulated()) {
            EXPECT_EQ(num_copies,
                      the_node().calls("hsa_amd_ipc_memory_attach", &importer));
            EXPECT_EQ(num_copies,
                      the_node().calls("hsa_amd_ipc_memory_detach", &importer));
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        }
    }
};

UCS_TEST_P(test_rocm_ipc_cache_off, each_copy_maps_and_unmaps)
{
    peer &owner    = start("owner");
    peer &importer = start_importer();
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);

    for (int i = 0; i < 10; ++i) {
        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
        expect_balance(importer, 2 * (i + 1));
    }

    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    expect_balance(importer, 20);
}

UCS_TEST_P(test_rocm_ipc_cache_off, copies_at_the_same_time)
{
    const size_t part = 64 * UCS_KBYTE, num = 4;
    std::vector<operation> ops;

    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start_importer();
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner, num * part);
    uint64_t rkey1 = import(importer, remote);
    uint64_t rkey2 = import(importer, remote);
    buffer local   = importer.alloc(num * part);

    the_node().close_gate(&importer, "copy");
    for (size_t i = 0; i < num; ++i) {
        ops.push_back(importer.start_get(ep, (i % 2) ? rkey1 : rkey2,
                                         remote.mem.address + (i * part),
                                         local.address + (i * part), part));
        ASSERT_EQ(UCS_INPROGRESS, ops[i].status);
    }
    EXPECT_EQ((int64_t)num, the_node().count(EMUL_COUNT_ATTACHES, &importer));

    the_node().open_gate(&importer, "copy");
    for (size_t i = 0; i < num; ++i) {
        EXPECT_UCS_OK(importer.finish(ops[i]));
    }
    EXPECT_TRUE(importer.holds(local.address, num * part, remote.mem.seed));
    expect_balance(importer, num);
}

UCS_TEST_P(test_rocm_ipc_cache_off, copy_in_flight_outlives_free)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start_importer();
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(default_length);
    uint64_t freed;
    operation op;

    the_node().close_gate(&importer, "copy");
    op = importer.start_get(ep, rkey, remote.mem.address, local.address,
                            default_length);
    ASSERT_EQ(UCS_INPROGRESS, op.status);
    freed = owner.post_free(remote.mem);
    expect_still_mapped(owner, importer, freed);

    the_node().open_gate(&importer, "copy");
    EXPECT_UCS_OK(importer.finish(op));
    EXPECT_TRUE(importer.holds(local.address, default_length, remote.mem.seed));
    EXPECT_UCS_OK(owner.wait(freed).status);
    expect_balance(importer, 1);
}

UCS_TEST_P(test_rocm_ipc_cache_off, idle_importer_does_not_delay_free)
{
    peer &owner    = start("owner");
    peer &importer = start_importer();
    uint64_t ep    = importer.connect(owner);

    for (int i = 0; i < 20; ++i) {
        shared remote = share(owner);
        uint64_t rkey = import(importer, remote);

        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        owner.free(remote.mem);
        EXPECT_UCS_OK(importer.release(rkey));
    }
    expect_balance(importer, 20);
}

UCS_TEST_P(test_rocm_ipc_cache_off, rkey_ptr_lasts_until_release)
{
    peer &owner    = start("owner");
    peer &importer = start_importer();
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t pointer;

    ASSERT_UCS_OK(importer.rkey_ptr(rkey, remote.mem.address, pointer));
    EXPECT_TRUE(importer.holds(pointer, default_length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));
    EXPECT_UCS_OK(importer.release(rkey));
    owner.free(remote.mem);
    expect_balance(importer, 1);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_copy)
ROCM_IPC_TEST_MODES(test_rocm_ipc_cache_off)
