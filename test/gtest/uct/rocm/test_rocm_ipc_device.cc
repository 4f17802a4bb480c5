#if UCX_HAS_ROCM_DEVICE_EP
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <hsa/hsa.h>

extern "C" {
#include <uct/api/device/uct_device_types.h>
}

/* What device code is given, which copies by itself: endpoints, and memory that
 * stays mapped until it is released. */
class test_rocm_ipc_device_memory : public test_rocm_ipc {
protected:
    /** The key as a peer would send it that has the transport of UCX. */
    static std::string stock_key(const shared &remote)
    {
        std::string key = remote.key;

        key[offset_flags] &= 0x1f; /* No process, no signal */
        return key;
    }

    void expect_freed(peer &importer, uint64_t rkey, const shared &remote)
    {
        uint64_t elem, pointer;

        EXPECT_EQ(UCS_ERR_INVALID_ADDR,
                  importer.pack_elem(rkey, remote.mem.address, elem, pointer));
    }

    static const size_t offset_flags = 51;
};

UCS_TEST_P(test_rocm_ipc_device_memory, element_shows_memory_of_owner)
{
    const size_t offset = 4097;
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t elem, pointer;

    ASSERT_UCS_OK(importer.pack_elem(rkey, remote.mem.address + offset, elem,
                                     pointer));
    EXPECT_TRUE(importer.holds(pointer, remote.mem.length - offset,
                               remote.mem.seed, offset, rocm_ipc::ACCESS_CPU));
    importer.release_elem(elem);
    EXPECT_UCS_OK(importer.release(rkey));
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_device_memory, element_of_local_memory_is_where_it_is)
{
    peer &owner = start("owner");
    uint64_t elem, pointer;

    ASSERT_UCS_OK(owner.pack_elem(0, 0x1000, elem, pointer));
    EXPECT_EQ(0x1000u, pointer);
    owner.release_elem(elem);
}

/* The mapping is the element's, whatever becomes of the key. */
UCS_TEST_P(test_rocm_ipc_device_memory, element_outlives_key_and_free)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t other = import(importer, remote);
    uint64_t elem, pointer, freed;

    ASSERT_UCS_OK(importer.pack_elem(rkey, remote.mem.address, elem, pointer));
    EXPECT_UCS_OK(importer.release(rkey));
    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(noticed(importer));
        expect_still_mapped(owner, importer, freed);
        expect_freed(importer, other, remote);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, other, remote));
    }
    EXPECT_TRUE(importer.holds(pointer, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));

    importer.release_elem(elem);
    EXPECT_UCS_OK(owner.wait(freed).status);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_detach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_device_memory, last_of_several_elements_drops_mapping)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t elems[3], pointer, freed;

    for (int i = 0; i < 3; ++i) {
        ASSERT_UCS_OK(importer.pack_elem(rkey, remote.mem.address, elems[i],
                                         pointer));
    }
    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    freed = owner.post_free(remote.mem);
    for (int i = 0; i < 3; ++i) {
        if (emulated()) {
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
            EXPECT_FALSE(owner.replied(freed));
        }
        importer.release_elem(elems[i]);
    }
    EXPECT_UCS_OK(owner.wait(freed).status);
}

UCS_TEST_P(test_rocm_ipc_device_memory, after_free_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared mapped  = share(owner);
    shared never   = share(owner);
    uint64_t rkey1 = import(importer, mapped);
    uint64_t rkey2 = import(importer, never);

    ASSERT_UCS_OK(get(importer, ep, rkey1, mapped));
    owner.free(mapped.mem);
    owner.free(never.mem);
    expect_freed(importer, rkey1, mapped);
    expect_freed(importer, rkey2, never);
}

/* Nobody would tell when such a mapping is stale, so it goes at once. */
UCS_TEST_P(test_rocm_ipc_device_memory, element_of_stock_peer_is_not_kept)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey, elem, pointer;

    ASSERT_UCS_OK(importer.unpack(stock_key(remote), rkey));
    ASSERT_UCS_OK(importer.pack_elem(rkey, remote.mem.address, elem, pointer));
    EXPECT_TRUE(importer.holds(pointer, remote.mem.length, remote.mem.seed, 0,
                               rocm_ipc::ACCESS_CPU));
    EXPECT_UCS_OK(importer.release(rkey));
    importer.release_elem(elem);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_device_memory, endpoint_is_in_device_memory)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    uint64_t other = importer.connect(owner);
    uint64_t device_ep, again, tl_id;

    ASSERT_UCS_OK(importer.device_ep(ep, device_ep, tl_id));
    EXPECT_EQ((uint64_t)UCT_DEVICE_TL_ROCM_IPC, tl_id);
    ASSERT_UCS_OK(importer.device_ep(ep, again, tl_id));
    EXPECT_EQ(device_ep, again);
    importer.disconnect(ep);
    importer.disconnect(other);
}

UCS_TEST_P(test_rocm_ipc_device_memory, endpoint_without_memory_is_an_error)
{
    need_emulator();
    expect_log_messages();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    uint64_t device_ep, tl_id;

    the_node().fail(&importer, "hsa_amd_memory_pool_allocate", 1, 1,
                    HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT_EQ(UCS_ERR_NO_MEMORY, importer.device_ep(ep, device_ep, tl_id));
    the_node().fail(&importer, "hsa_memory_copy", 1, 1, HSA_STATUS_ERROR);
    EXPECT_EQ(UCS_ERR_IO_ERROR, importer.device_ep(ep, device_ep, tl_id));
    EXPECT_UCS_OK(importer.device_ep(ep, device_ep, tl_id));
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_device_memory)

class test_rocm_ipc_device_late : public test_rocm_ipc_device_memory {};

/* Who begins to use the memory is told of the free even if nobody has noticed it
 * here yet. */
UCS_TEST_P(test_rocm_ipc_device_late, freed_just_now_is_refused)
{
    need_emulator();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t elem, pointer, freed;

    ASSERT_UCS_OK(importer.pack_elem(rkey, remote.mem.address, elem, pointer));
    freed = owner.post_free(remote.mem);
    ASSERT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, &owner));
    expect_freed(importer, rkey, remote);

    importer.release_elem(elem);
    EXPECT_UCS_OK(owner.wait(freed).status);
}

ROCM_IPC_TEST_IN_MODES(test_rocm_ipc_device_late, rocm_ipc_mode_accept,
                       rocm_ipc_mode_refuse, rocm_ipc_mode_late)
#endif
