/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <csignal>
#include <cstring>
#include <thread>

/*
 * Sharing device memory, detaching it, and freeing what is attached.
 */

class ipc_memory : public emul_test {
protected:
    static constexpr size_t size = megabyte;

    /* The peer exports, this process attaches */
    struct shared {
        uint64_t             at_peer;
        hsa_amd_ipc_memory_t handle;
    };

    static shared share(peer &owner, size_t bytes = size)
    {
        shared s = {};
        reply answer;

        s.at_peer = owner.ask(verb::allocate, bytes).value;
        answer    = owner.ask(verb::export_memory, s.at_peer, bytes);
        EXPECT_TRUE(answer.ok());
        memcpy(&s.handle, answer.bytes, sizeof(s.handle));
        return s;
    }

    static volatile uint64_t *attach(const hsa_amd_ipc_memory_t &handle,
                                     size_t bytes = size)
    {
        void *mapped = nullptr;

        EXPECT_OK(hsa_amd_ipc_memory_attach(&handle, bytes, 0, nullptr,
                                            &mapped));
        return (volatile uint64_t*)mapped;
    }

    static hsa_status_t attach_status(const hsa_amd_ipc_memory_t &handle,
                                      size_t bytes = size)
    {
        void *mapped;

        return hsa_amd_ipc_memory_attach(&handle, bytes, 0, nullptr, &mapped);
    }

    static void detach(volatile void *mapped)
    {
        EXPECT_OK(hsa_amd_ipc_memory_detach((void*)mapped));
    }

    static bool free_is_blocked(peer &owner)
    {
        return count(EMUL_COUNT_FREES_BLOCKED, owner.pid()) == 1;
    }
};

TEST_F(ipc_memory, is_shared_both_ways)
{
    peer owner;
    shared s = share(owner);

    owner.ask(verb::write, s.at_peer, 42);
    volatile uint64_t *mapped = attach(s.handle);
    EXPECT_EQ(42u, *mapped);

    *mapped = 43;
    EXPECT_EQ(43u, owner.ask(verb::read, s.at_peer).value);
    EXPECT_EQ(1, count(EMUL_COUNT_ATTACHES));

    detach(mapped);
    EXPECT_TRUE(owner.ask(verb::free, s.at_peer).ok());
}

TEST_F(ipc_memory, every_attach_is_its_own_mapping)
{
    peer owner;
    shared s = share(owner);
    auto *first  = attach(s.handle);
    auto *second = attach(s.handle);

    EXPECT_NE(first, second);
    EXPECT_EQ(2, count(EMUL_COUNT_ATTACHES));

    *first = 7;
    detach(first);
    EXPECT_EQ(7u, *second);
    detach(second);
}

TEST_F(ipc_memory, handle_is_the_same_each_time_and_new_for_new_memory)
{
    uint64_t *pointer         = allocate(size);
    hsa_amd_ipc_memory_t once = export_memory(pointer, size);
    hsa_amd_ipc_memory_t more = export_memory(pointer, size);

    EXPECT_EQ(0, memcmp(&once, &more, sizeof(once)));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));

    set("EMUL_ADDRESS_REUSE", "force");
    uint64_t *next = allocate(size);
    more           = export_memory(next, size);
    EXPECT_EQ(pointer, next);
    EXPECT_NE(0, memcmp(&once, &more, sizeof(once)));
    EXPECT_OK(hsa_amd_memory_pool_free(next));
}

TEST_F(ipc_memory, create_wants_base_and_exact_or_page_rounded_size)
{
    constexpr size_t odd = 5000;
    char *pointer        = (char*)allocate(odd);
    hsa_amd_ipc_memory_t handle;
    void *host;

    EXPECT_OK(hsa_amd_ipc_memory_create(pointer, odd, &handle));
    EXPECT_OK(hsa_amd_ipc_memory_create(pointer, 8192, &handle));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(pointer, odd - 1, &handle));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(pointer, 4096, &handle));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(pointer + 8, odd - 8, &handle));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(nullptr, odd, &handle));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(pointer, odd, nullptr));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(&handle, 32, &handle));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(pointer, odd, &handle));

    ASSERT_OK(hsa_amd_memory_pool_allocate(host_pool(), odd, 0, &host));
    EXPECT_INVALID(hsa_amd_ipc_memory_create(host, odd, &handle));
    EXPECT_OK(hsa_amd_memory_pool_free(host));
}

TEST_F(ipc_memory, attach_refuses_garbage_and_wrong_lengths)
{
    peer owner;
    shared s = share(owner);
    hsa_amd_ipc_memory_t garbage;

    memset(&garbage, 0x5a, sizeof(garbage));
    EXPECT_INVALID(attach_status(garbage));
    memset(&garbage, 0, sizeof(garbage));
    EXPECT_INVALID(attach_status(garbage));

    for (unsigned bit = 0; bit < 8 * sizeof(garbage); ++bit) {
        garbage                        = s.handle;
        ((uint8_t*)&garbage)[bit / 8] ^= 1 << (bit % 8);
        EXPECT_INVALID(attach_status(garbage)) << "bit " << bit;
    }

    EXPECT_INVALID(attach_status(s.handle, 0));
    EXPECT_INVALID(attach_status(s.handle, size + 1));
    EXPECT_INVALID(hsa_amd_ipc_memory_attach(&s.handle, size, 0, nullptr,
                                             nullptr));
    EXPECT_EQ(0, count(EMUL_COUNT_ATTACHES));
}

TEST_F(ipc_memory, attach_of_freed_memory_fails)
{
    peer owner;
    shared s = share(owner);

    owner.ask(verb::free, s.at_peer);
    EXPECT_INVALID(attach_status(s.handle));
}

TEST_F(ipc_memory, attach_needs_a_living_owner)
{
    shared s;

    {
        peer owner;

        s = share(owner);
        owner.kill();
    }
    EXPECT_INVALID(attach_status(s.handle));

    set("EMUL_LATE_ATTACH", "block");
    EXPECT_INVALID(attach_status(s.handle));
}

TEST_F(ipc_memory, late_attach_can_block_for_ever)
{
    uint64_t *pointer           = allocate(size);
    hsa_amd_ipc_memory_t handle = export_memory(pointer, size);
    peer importer;

    set("EMUL_LATE_ATTACH", "block");
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));

    importer.start(verb::attach, size, 0, handle.handle);
    ASSERT_TRUE(eventually([&] {
        return calls("hsa_amd_ipc_memory_attach", importer.pid()) == 1;
    }));
    for (int i = 0; i < 50; ++i) {
        ASSERT_FALSE(importer.finished());
        test_nap();
    }

    /* it ends with its process */
    importer.kill();
}

TEST_F(ipc_memory, blocked_late_attach_ends_when_the_owner_exits)
{
    peer owner, importer;
    shared s = share(owner);

    set("EMUL_LATE_ATTACH", "block");
    owner.ask(verb::free, s.at_peer);
    importer.start(verb::attach, size, 0, s.handle.handle);
    ASSERT_TRUE(eventually([&] {
        return calls("hsa_amd_ipc_memory_attach", importer.pid()) == 1;
    }));

    owner.exit();
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, importer.finish().status);
}

TEST_F(ipc_memory, touching_a_detached_mapping_faults)
{
    uint64_t *pointer           = allocate(size);
    hsa_amd_ipc_memory_t handle = export_memory(pointer, size);

    EXPECT_FAULT({
        volatile uint64_t *mapped = attach(handle);

        detach(mapped);
        *mapped = 1;
    });
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));
}

TEST_F(ipc_memory, detach_wants_what_attach_returned)
{
    uint64_t *pointer = allocate(size);
    auto *mapped      = attach(export_memory(pointer, size));

    EXPECT_INVALID(hsa_amd_ipc_memory_detach(nullptr));
    EXPECT_INVALID(hsa_amd_ipc_memory_detach((void*)(mapped + 1)));
    EXPECT_INVALID(hsa_amd_ipc_memory_detach(pointer));
    EXPECT_INVALID(hsa_amd_ipc_memory_detach(&mapped));
    EXPECT_INVALID(hsa_amd_memory_pool_free((void*)mapped));

    detach(mapped);
    EXPECT_INVALID(hsa_amd_ipc_memory_detach((void*)mapped));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));
}

TEST_F(ipc_memory, pointer_info_of_an_attached_range)
{
    uint64_t *pointer = allocate(size, 1);
    char *mapped      = (char*)attach(export_memory(pointer, size));
    hsa_amd_pointer_info_t info;
    hsa_agent_t agent = gpu(0);

    info = info_of(mapped + 100);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_IPC, info.type);
    EXPECT_EQ(mapped, info.agentBaseAddress);
    EXPECT_EQ(size, info.sizeInBytes);
    EXPECT_EQ(gpu(1).handle, info.agentOwner.handle);
    EXPECT_OK(hsa_amd_agents_allow_access(1, &agent, nullptr, mapped));

    set("EMUL_IPC_OWNER_VISIBLE", "n");
    EXPECT_EQ(0u, info_of(mapped).agentOwner.handle);

    detach(mapped);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info_of(mapped).type);
    EXPECT_EQ(HSA_STATUS_ERROR,
              hsa_amd_agents_allow_access(1, &agent, nullptr, mapped));
    EXPECT_OK(hsa_amd_memory_pool_free(pointer));
}

TEST_F(ipc_memory, attaches_can_be_limited)
{
    peer owner;
    shared s = share(owner);

    set("EMUL_MAX_ATTACHES", "2");
    auto *first  = attach(s.handle);
    auto *second = attach(s.handle);
    EXPECT_NO_ROOM(attach_status(s.handle));

    detach(first);
    first = attach(s.handle);
    detach(first);
    detach(second);
}

TEST_F(ipc_memory, free_blocks_until_the_last_detach)
{
    peer owner, other;
    shared s      = share(owner);
    auto *mapped  = attach(s.handle);
    reply another = other.ask(verb::attach, size, 0, s.handle.handle);

    ASSERT_TRUE(another.ok());
    *mapped = 5;
    owner.start(verb::free, s.at_peer);
    ASSERT_TRUE(eventually([&] { return free_is_blocked(owner); }));

    EXPECT_INVALID(attach_status(s.handle));
    EXPECT_EQ(5u, *mapped);
    EXPECT_EQ(int64_t(size), count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));

    detach(mapped);
    EXPECT_TRUE(free_is_blocked(owner));
    EXPECT_FALSE(owner.finished());

    other.ask(verb::detach, another.value);
    EXPECT_TRUE(owner.finish().ok());
    EXPECT_EQ(0, count(EMUL_COUNT_FREES_BLOCKED, owner.pid()));
    EXPECT_EQ(0, count(EMUL_COUNT_ALLOCATIONS, owner.pid()));
}

TEST_F(ipc_memory, attaching_during_a_blocked_free_can_block_too)
{
    peer owner, late;
    shared s     = share(owner);
    auto *mapped = attach(s.handle);

    set("EMUL_LATE_ATTACH", "block");
    owner.start(verb::free, s.at_peer);
    ASSERT_TRUE(eventually([&] { return free_is_blocked(owner); }));

    late.start(verb::attach, size, 0, s.handle.handle);
    ASSERT_TRUE(eventually([&] {
        return calls("hsa_amd_ipc_memory_attach", late.pid()) == 1;
    }));
    detach(mapped);
    EXPECT_TRUE(owner.finish().ok());
    EXPECT_FALSE(late.finished());

    set("EMUL_LATE_ATTACH", "error");
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, late.finish().status);
}

TEST_F(ipc_memory, a_killed_importer_counts_as_detached)
{
    peer owner;
    shared s = share(owner);

    {
        peer importer;

        ASSERT_TRUE(importer.ask(verb::attach, size, 0, s.handle.handle).ok());
        owner.start(verb::free, s.at_peer);
        ASSERT_TRUE(eventually([&] { return free_is_blocked(owner); }));
        importer.kill();
    }
    EXPECT_TRUE(owner.finish().ok());
}

TEST_F(ipc_memory, a_zombie_counts_as_killed)
{
    peer owner, importer;
    shared s = share(owner);

    ASSERT_TRUE(importer.ask(verb::attach, size, 0, s.handle.handle).ok());
    owner.start(verb::free, s.at_peer);
    ASSERT_TRUE(eventually([&] { return free_is_blocked(owner); }));

    /* not waited for, so that its pid still exists */
    ::kill(importer.pid(), SIGKILL);
    EXPECT_TRUE(owner.finish().ok());
}

TEST_F(ipc_memory, an_exited_importer_counts_as_detached)
{
    peer owner, importer;
    shared s = share(owner);

    ASSERT_TRUE(importer.ask(verb::attach, size, 0, s.handle.handle).ok());
    owner.start(verb::free, s.at_peer);
    ASSERT_TRUE(eventually([&] { return free_is_blocked(owner); }));
    importer.exit();
    EXPECT_TRUE(owner.finish().ok());
}

TEST_F(ipc_memory, deferred_free_returns_and_stays_charged)
{
    peer owner;
    shared s     = share(owner);
    auto *mapped = attach(s.handle);

    *mapped = 9;
    set("EMUL_FREE", "deferred");
    EXPECT_TRUE(owner.ask(verb::free, s.at_peer).ok());
    EXPECT_EQ(0, count(EMUL_COUNT_ALLOCATIONS, owner.pid()));
    EXPECT_EQ(int64_t(size), count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    EXPECT_EQ(9u, *mapped);
    EXPECT_INVALID(attach_status(s.handle));

    detach(mapped);
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
}

TEST_F(ipc_memory, the_owner_s_death_leaves_the_mapping_until_detach)
{
    peer owner;
    shared s     = share(owner);
    auto *mapped = attach(s.handle);

    *mapped = 11;
    owner.kill();
    EXPECT_EQ(11u, *mapped);
    EXPECT_EQ(int64_t(size), count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    detach(mapped);
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
}

TEST_F(ipc_memory, a_detached_range_is_not_used_again_unless_forced)
{
    peer owner;
    shared s     = share(owner);
    auto *mapped = attach(s.handle);
    volatile uint64_t *again;

    detach(mapped);
    set("EMUL_ADDRESS_REUSE", "forbid");
    for (int i = 0; i < 300; ++i) {
        again = attach(s.handle);
        EXPECT_NE(mapped, again);
        detach(again);
    }

    set("EMUL_ADDRESS_REUSE", "force");
    auto *forced = attach(s.handle);
    EXPECT_EQ(again, forced);
    detach(forced);
}

TEST_F(ipc_memory, many_threads_attach_and_detach)
{
    peer owner;
    shared s = share(owner);
    std::vector<std::thread> threads;

    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i) {
                volatile uint64_t *mapped = attach(s.handle);

                (void)*mapped;
                detach(mapped);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(0, count(EMUL_COUNT_ATTACHES));
}
