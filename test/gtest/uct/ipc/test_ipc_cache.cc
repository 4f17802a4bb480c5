/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <common/test.h>

extern "C" {
#include <uct/base/ipc/ipc_cache.h>
}

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>


/* Regions whose every step is counted. A key is the number of a region.
 * Functions of the module are only called here: if the address of one was taken,
 * this program would not start over a module that has none. */
class test_ipc_cache : public ucs::test {
protected:
    struct counted_region {
        uct_ipc_region_t      super;
        int                   key;
        std::atomic<unsigned> detached;
        std::atomic<unsigned> released;
    };

    virtual void init()
    {
        ucs::test::init();
        num_detached = num_released = num_freed = 0;
        self         = this;
        memset(&cache, 0, sizeof(cache));
        cache.ops    = &ops;
        pthread_rwlock_init(&cache.lock, nullptr);
        ucs_list_head_init(&cache.lru);
        uct_ipc_cache_set_bounds(&cache, ULONG_MAX, SIZE_MAX);
        memset(&space, 0, sizeof(space));
        space.pid    = 1234;
    }

    virtual void cleanup()
    {
        uct_ipc_cache_purge(&cache);
        EXPECT_EQ(num_created, num_detached);
        EXPECT_EQ(num_created, num_released);
        EXPECT_EQ(num_created, num_freed);
        EXPECT_EQ(0u, kh_size(&cache.spaces));
        free(cache.spaces.flags);
        free(cache.spaces.keys);
        free(cache.spaces.vals);
        pthread_rwlock_destroy(&cache.lock);
        ucs::test::cleanup();
    }

    counted_region *
    create(int key, uintptr_t address = 0x10000, size_t length = 0x1000)
    {
        void *ptr;
        int ret = posix_memalign(&ptr, 64, sizeof(counted_region));
        ucs_assert_always(ret == 0);
        counted_region *region = new (ptr) counted_region();
        region->key            = key;
        region->detached       = 0;
        region->released       = 0;
        uct_ipc_region_init(&region->super, address, length, nullptr);
        ++num_created;
        return region;
    }

    /* Insert a new region and drop the pin: only the table keeps it */
    counted_region *
    insert(int key, uintptr_t address = 0x10000, size_t length = 0x1000)
    {
        counted_region *region = create(key, address, length);
        uct_ipc_region_t *found;

        EXPECT_UCS_OK(uct_ipc_cache_insert(&cache, &space, &region->super, &key,
                                           &found));
        EXPECT_EQ(&region->super, found);
        uct_ipc_cache_unpin(&cache, &region->super);
        return region;
    }

    uct_ipc_region_t *find(int key, uintptr_t address = 0x10000)
    {
        return uct_ipc_cache_find(&cache, &space, address, &key);
    }

    uint64_t stat(unsigned counter)
    {
        return uct_ipc_cache_stats_get(&cache.stats, counter);
    }

    void put_found(uct_ipc_region_t *region)
    {
        uct_ipc_cache_unpin(&cache, region);
        uct_ipc_cache_put(&cache, region);
    }

    static const uct_ipc_cache_ops_t ops;
    static test_ipc_cache            *self;

    uct_ipc_cache_t                  cache;
    uct_ipc_space_id_t               space;
    std::atomic<unsigned> num_created{0};
    std::atomic<unsigned> num_detached{0};
    std::atomic<unsigned> num_released{0};
    std::atomic<unsigned> num_freed{0};

private:
    static int match_cb(const uct_ipc_region_t *region, const void *key)
    {
        return reinterpret_cast<const counted_region*>(region)->key ==
               *static_cast<const int*>(key);
    }

    static void detach_cb(uct_ipc_region_t *region)
    {
        EXPECT_EQ(0u, reinterpret_cast<counted_region*>(region)->detached++);
        ++self->num_detached;
    }

    static void release_channel_cb(uct_ipc_region_t *region)
    {
        EXPECT_EQ(0u, reinterpret_cast<counted_region*>(region)->released++);
        ++self->num_released;
    }

    static void free_cb(uct_ipc_region_t *region)
    {
        EXPECT_EQ(1u, reinterpret_cast<counted_region*>(region)->detached);
        reinterpret_cast<counted_region*>(region)->~counted_region();
        free(region);
        ++self->num_freed;
    }
};

test_ipc_cache *test_ipc_cache::self = nullptr;

const uct_ipc_cache_ops_t test_ipc_cache::ops = {match_cb, detach_cb,
                                                 release_channel_cb, free_cb};


UCS_TEST_F(test_ipc_cache, a_pin_keeps_the_mapping_of_a_claimed_region) {
    insert(1);
    uct_ipc_region_t *region = find(1);
    ASSERT_TRUE(region != nullptr);

    EXPECT_TRUE(uct_ipc_cache_claim(&cache, region));
    EXPECT_EQ(0u, num_detached);
    EXPECT_FALSE(uct_ipc_region_pin(region));
    EXPECT_TRUE(find(1) == nullptr);

    uct_ipc_cache_unpin(&cache, region);
    EXPECT_EQ(1u, num_detached);
    EXPECT_EQ(1u, stat(UCT_IPC_CACHE_STAT_DEFERRED));
    EXPECT_EQ(0u, num_freed); /* the reference is still held */
    uct_ipc_cache_put(&cache, region);
    EXPECT_EQ(1u, num_freed);
}

UCS_TEST_F(test_ipc_cache, only_one_claim_wins) {
    insert(1);
    uct_ipc_region_t *region = find(1);

    EXPECT_TRUE(uct_ipc_cache_claim(&cache, region));
    EXPECT_FALSE(uct_ipc_cache_claim(&cache, region));
    put_found(region);
    EXPECT_EQ(1u, num_detached);
    EXPECT_EQ(1u, num_released);
}

UCS_TEST_F(test_ipc_cache, new_memory_throws_out_all_that_it_overlaps) {
    insert(1, 0x10000, 0x1000);
    insert(2, 0x11000, 0x1000);
    insert(3, 0x12000, 0x1000);
    insert(4, 0x20000, 0x1000);

    insert(5, 0x10800, 0x2000);
    EXPECT_EQ(3u, num_detached);
    EXPECT_EQ(3u, stat(UCT_IPC_CACHE_STAT_REPLACED));
    EXPECT_TRUE(find(2, 0x11000) == nullptr);

    uct_ipc_region_t *region = find(4, 0x20000);
    ASSERT_TRUE(region != nullptr);
    put_found(region);
}

UCS_TEST_F(test_ipc_cache, the_same_key_finds_the_first_region) {
    counted_region *first  = insert(1);
    counted_region *second = create(1);
    uct_ipc_region_t *found;
    int key                = 1;

    ASSERT_UCS_OK(
            uct_ipc_cache_insert(&cache, &space, &second->super, &key, &found));
    EXPECT_EQ(&first->super, found);
    put_found(found);

    /* The second one was never in the table */
    EXPECT_FALSE(uct_ipc_region_claim(&second->super) &
                 UCT_IPC_REGION_TODO_DETACH);
    ops.release_channel(&second->super);
    uct_ipc_cache_unpin(&cache, &second->super);
}

UCS_TEST_F(test_ipc_cache, equal_addresses_of_two_peers_live_together) {
    uct_ipc_space_id_t other = space;

    insert(1);
    other.pid_ns = 77;
    std::swap(space, other);
    insert(2);
    other.dev = 3;
    EXPECT_EQ(0u, num_detached);
    EXPECT_TRUE(find(1) == nullptr);
    put_found(find(2));
    std::swap(space, other);
    space.dev = 0;
    put_found(find(1));
}

UCS_TEST_F(test_ipc_cache, purge_of_a_peer_leaves_others_and_what_is_watched) {
    insert(1, 0x10000);
    counted_region *watched = insert(2, 0x20000);
    space.pid               = 4321;
    insert(3, 0x10000);

    watched->super.has_channel = 1;
    EXPECT_EQ(1u, uct_ipc_cache_purge_untold(&cache, 1234));
    EXPECT_EQ(0u, uct_ipc_cache_purge_untold(&cache, 1234));
    put_found(find(3, 0x10000));
    space.pid = 1234;
    EXPECT_TRUE(find(1, 0x10000) == nullptr);
    put_found(find(2, 0x20000));

    EXPECT_EQ(2u, uct_ipc_cache_purge(&cache));
    EXPECT_EQ(0u, uct_ipc_cache_purge(&cache));
}

UCS_TEST_F(test_ipc_cache, the_least_recently_used_region_goes_first) {
    uct_ipc_cache_set_bounds(&cache, 3, SIZE_MAX);
    insert(1, 0x10000);
    insert(2, 0x20000);
    insert(3, 0x30000);
    put_found(find(1, 0x10000));
    put_found(find(2, 0x20000));

    insert(4, 0x40000);
    EXPECT_TRUE(find(3, 0x30000) == nullptr);
    insert(5, 0x50000);
    EXPECT_TRUE(find(1, 0x10000) == nullptr);
    put_found(find(2, 0x20000));
    insert(6, 0x60000);
    EXPECT_TRUE(find(4, 0x40000) == nullptr);
    EXPECT_EQ(3u, cache.num_regions);
    EXPECT_EQ(3u, stat(UCT_IPC_CACHE_STAT_REGIONS));
    EXPECT_EQ(3u, stat(UCT_IPC_CACHE_STAT_HITS));
    EXPECT_EQ(6u, stat(UCT_IPC_CACHE_STAT_MISSES));
    EXPECT_EQ(3u, stat(UCT_IPC_CACHE_STAT_EVICTED));
    EXPECT_EQ(3u * 0x1000, cache.total_size);
}

UCS_TEST_F(test_ipc_cache, size_is_bounded_too) {
    uct_ipc_cache_set_bounds(&cache, ULONG_MAX, 0x3000);
    insert(1, 0x10000, 0x1000);
    insert(2, 0x20000, 0x2000);
    EXPECT_EQ(0u, num_detached);
    insert(3, 0x30000, 0x1000);
    EXPECT_EQ(1u, num_detached);
    insert(4, 0x40000, 0x8000); /* more than the bound by itself, but in use */
    EXPECT_EQ(3u, num_detached);
    insert(5, 0x50000, 0x1000);
    EXPECT_EQ(4u, num_detached);
    EXPECT_EQ(0x1000u, cache.total_size);
}

UCS_TEST_F(test_ipc_cache, pinned_regions_exceed_the_bounds) {
    uct_ipc_cache_set_bounds(&cache, 1, SIZE_MAX);
    insert(1, 0x10000);
    uct_ipc_region_t *region = find(1, 0x10000);

    insert(2, 0x20000);
    insert(3, 0x30000);
    EXPECT_EQ(1u, num_detached);
    EXPECT_TRUE(find(2, 0x20000) == nullptr);
    put_found(region);
    insert(4, 0x40000);
    EXPECT_EQ(3u, num_detached);
    EXPECT_TRUE(find(1, 0x10000) == nullptr);
    put_found(find(4, 0x40000));
}

UCS_TEST_F(test_ipc_cache, evict_spares_what_a_handler_watches) {
    counted_region *watched    = insert(1, 0x10000);
    watched->super.has_handler = 1;
    insert(2, 0x20000);

    EXPECT_TRUE(uct_ipc_cache_evict(&cache, 1));
    EXPECT_TRUE(find(2, 0x20000) == nullptr);
    EXPECT_FALSE(uct_ipc_cache_evict(&cache, 1));
    EXPECT_TRUE(uct_ipc_cache_evict(&cache, 0));
    EXPECT_FALSE(uct_ipc_cache_evict(&cache, 0));
}

UCS_TEST_F(test_ipc_cache, threads_pin_and_claim) {
    const int num_threads = 4;
    std::vector<std::thread> threads;

    /* Each thread finds or inserts one of few keys, and sometimes claims it;
     * the callbacks check that nothing happens twice */
    for (int t = 0; t < num_threads; ++t) {
        threads.emplace_back([this, t]() {
            for (int i = 0; i < 3000; ++i) {
                int key           = (i * (t + 1)) % 3;
                uintptr_t address = 0x10000 * (key + 1);
                uct_ipc_region_t *region = find(key, address);

                if (region == nullptr) {
                    counted_region *fresh = create(key, address);
                    uct_ipc_region_ref(&fresh->super);
                    ASSERT_UCS_OK(uct_ipc_cache_insert(&cache, &space,
                                                       &fresh->super, &key,
                                                       &region));
                    if (region != &fresh->super) {
                        uct_ipc_region_claim(&fresh->super);
                        ops.release_channel(&fresh->super);
                        put_found(&fresh->super);
                    }
                }

                if ((i % 5) == t) {
                    uct_ipc_cache_claim(&cache, region);
                }
                EXPECT_EQ(0u,
                          reinterpret_cast<counted_region *>(region)->detached);
                put_found(region);
            }
        });
    }

    for (auto &thread : threads) {
        thread.join();
    }
}
