/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_CACHE_H_
#define UCT_IPC_CACHE_H_

#include "ipc_region.h"
#include "ipc_stats.h"

#include <ucs/datastruct/khash.h>
#include <ucs/type/status.h>

#include <limits.h>
#include <pthread.h>
#include <sys/types.h>


/**
 * @file ipc_cache.h
 * @brief The importer's cache: the regions of all peers of this process.
 *
 * How memory is attached, and how a free is noticed, is the business of the GPU
 * module, which embeds @ref uct_ipc_region_t and provides
 * @ref uct_ipc_cache_ops_t.
 *
 * The rules:
 *  1. One read-write lock protects the spaces, their page tables and lists. No
 *     GPU runtime is called under it: the runtime's handler thread takes it,
 *     and an attach can block for as long as the owner lives. Host memory is
 *     allocated and released under it.
 *  2. A region in a table may already be dead; whoever finds it so under the
 *     write lock may unlink it in place of the one who has claimed it.
 *  3. A region is used through a pin only, see ipc_region.h.
 *  4. The list of all regions is sorted by the time of use as it was when the
 *     region was put to its place; a hit only notes the time. Whoever evicts
 *     first moves the regions which were used since, and so takes the least
 *     recently used one, at the price of a move for each use that counts.
 *  5. A pinned region is never evicted, so that the bounds can be exceeded.
 */


/** A peer's address space on one device: keys name addresses within it. */
typedef struct uct_ipc_space_id {
    uint64_t pid_ns; /**< PID namespace of the owner */
    pid_t    pid;    /**< Owner's pid, in that namespace */
    int      dev;    /**< Device number, as the owner counts */
} uct_ipc_space_id_t;


/** Regions of one address space. */
typedef struct uct_ipc_space {
    uct_ipc_space_id_t id;
    ucs_pgtable_t      pgtable; /**< By remote address */
    ucs_list_link_t    regions; /**< All of them */
} uct_ipc_space_t;


/** What a GPU module does with a region. */
typedef struct uct_ipc_cache_ops {
    /** @return Nonzero if @a region is the mapping of @a key. The only one that
     *          is called under the lock. */
    int  (*match)(const uct_ipc_region_t *region, const void *key);

    /** Detach the mapping: called exactly once for each region. */
    void (*detach)(uct_ipc_region_t *region);

    /** Let go of the lifetime channel, if the region has one: called exactly
     *  once. */
    void (*release_channel)(uct_ipc_region_t *region);

    /** Free the record. */
    void (*free)(uct_ipc_region_t *region);
} uct_ipc_cache_ops_t;


static UCS_F_ALWAYS_INLINE khint_t uct_ipc_space_id_hash(uct_ipc_space_id_t id)
{
    return kh_int64_hash_func(id.pid_ns ^ ((uint64_t)id.pid << 32) ^
                              (uint64_t)id.dev);
}

static UCS_F_ALWAYS_INLINE int
uct_ipc_space_id_equal(uct_ipc_space_id_t id1, uct_ipc_space_id_t id2)
{
    return (id1.pid == id2.pid) && (id1.dev == id2.dev) &&
           (id1.pid_ns == id2.pid_ns);
}

/** Counters of a cache. */
enum {
    UCT_IPC_CACHE_STAT_REGIONS,   /**< Regions in the tables */
    UCT_IPC_CACHE_STAT_HITS,      /**< Regions found, by a key's memory of its
                                       last one or in a table. Approximate where
                                       threads use one region at a time. */
    UCT_IPC_CACHE_STAT_MISSES,    /**< Regions imported */
    UCT_IPC_CACHE_STAT_FREED,     /**< Claimed, since the owner freed or died;
                                       counted by the GPU module */
    UCT_IPC_CACHE_STAT_REPLACED,  /**< Claimed, since a new one overlaps */
    UCT_IPC_CACHE_STAT_EVICTED,   /**< Claimed, since there were too many */
    UCT_IPC_CACHE_STAT_DEFERRED,  /**< Detached by the last unpin */
    UCT_IPC_CACHE_STAT_HANDLERS,  /**< Handlers armed; counted by the GPU
                                       module */
    UCT_IPC_CACHE_STAT_LAST
};


/** Their names */
extern const char *const uct_ipc_cache_stat_names[UCT_IPC_CACHE_STAT_LAST];


/** Read a counter of a cache. That of the hits takes a time that grows with the
 *  number of regions. */
uint64_t
uct_ipc_cache_stats_get(const uct_ipc_stats_t *stats, unsigned counter);


KHASH_TYPE(uct_ipc_space, uct_ipc_space_id_t, uct_ipc_space_t*);


/** Cache of imported regions. */
typedef struct uct_ipc_cache {
    const uct_ipc_cache_ops_t *ops;
    uct_ipc_stats_t           stats;      /**< UCT_IPC_CACHE_STAT_xxx */
    int                       is_bounded; /**< Atomic: note the time of use */
    pthread_rwlock_t          lock;       /**< Protects all below, see rule 1 */
    khash_t(uct_ipc_space)    spaces;
    ucs_list_link_t           lru;        /**< All regions, see rule 4 */
    unsigned long             num_regions;
    size_t                    total_size; /**< Of the regions, in bytes */
    unsigned long             max_regions;
    size_t                    max_size;
} uct_ipc_cache_t;


/** Initializer of a cache in static memory, where it can outlive everything
 *  that a late handler may touch. */
#define UCT_IPC_CACHE_INITIALIZER(_cache, _ops) \
    { \
        .ops         = (_ops), \
        .stats       = UCT_IPC_STATS_INITIALIZER(uct_ipc_cache_stat_names, \
                                                 uct_ipc_cache_stats_get), \
        .lock        = PTHREAD_RWLOCK_INITIALIZER, \
        .spaces      = KHASH_STATIC_INITIALIZER, \
        .lru         = UCS_LIST_INITIALIZER(&(_cache)->lru, &(_cache)->lru), \
        .max_regions = ULONG_MAX, \
        .max_size    = SIZE_MAX \
    }


/**
 * Bound the cache. What exceeds the bounds goes when the next region is
 * inserted.
 *
 * @param [in] cache        Cache to bound.
 * @param [in] max_regions  Most regions, ULONG_MAX for no bound.
 * @param [in] max_size     Most bytes that they map, SIZE_MAX for no bound.
 */
void uct_ipc_cache_set_bounds(uct_ipc_cache_t *cache, unsigned long max_regions,
                              size_t max_size);


/**
 * Initialize the common part of a region: pinned once for the caller and with
 * one reference, that of the mapping.
 *
 * @param [out] region       Region to initialize.
 * @param [in]  address      Remote address of the allocation.
 * @param [in]  length       Length in bytes; address + length has been checked
 *                           against overflow with room for alignment.
 * @param [in]  mapped_addr  Local address of the mapping.
 */
void uct_ipc_region_init(uct_ipc_region_t *region, uintptr_t address,
                         size_t length, void *mapped_addr);


/**
 * Find the region of a key.
 *
 * @param [in] cache     Cache to search.
 * @param [in] space_id  Address space of the key.
 * @param [in] address   Remote address of the allocation.
 * @param [in] key       Passed to ops->match().
 *
 * @return Region, pinned and with one reference for the caller, or NULL.
 */
uct_ipc_region_t *uct_ipc_cache_find(uct_ipc_cache_t *cache,
                                     const uct_ipc_space_id_t *space_id,
                                     uintptr_t address, const void *key);


/**
 * Insert a region. Regions that overlap are claimed: their memory was freed
 * without notice, or the address would not have been given out again.
 *
 * @param [in]  cache     Cache to insert to.
 * @param [in]  space_id  Address space of the region.
 * @param [in]  region    New region, from @ref uct_ipc_region_init.
 * @param [in]  key       Key of the region, passed to ops->match().
 * @param [out] found_p   Filled with @a region, or with the region that another
 *                        thread has inserted for the same key meanwhile, pinned
 *                        and with one reference for the caller, in which case
 *                        @a region remains the caller's.
 *
 * @return UCS_OK, or an error, in which case @a region remains the caller's.
 */
ucs_status_t uct_ipc_cache_insert(uct_ipc_cache_t *cache,
                                  const uct_ipc_space_id_t *space_id,
                                  uct_ipc_region_t *region, const void *key,
                                  uct_ipc_region_t **found_p);


/**
 * Evict the least recently used region which is not pinned.
 *
 * @param [in] cache            Cache.
 * @param [in] no_handler_only  Only a region that no handler watches: only such
 *                              a one gives its lifetime channel back at once.
 *
 * @return Nonzero if a region was evicted.
 */
int uct_ipc_cache_evict(uct_ipc_cache_t *cache, int no_handler_only);


/**
 * Claim a region: take it out of the table, and detach it now or when its last
 * pin goes. May be called from any thread, also from a handler. The caller
 * holds a reference.
 *
 * @return Nonzero if this call has claimed it, 0 if it was dead already.
 */
int uct_ipc_cache_claim(uct_ipc_cache_t *cache, uct_ipc_region_t *region);


/**
 * Claim all regions.
 *
 * @return Number of regions taken out of the tables.
 */
unsigned uct_ipc_cache_purge(uct_ipc_cache_t *cache);


/**
 * Claim the regions of one peer of which nobody tells when the memory is freed.
 * The time it takes grows with the number of spaces, and of that peer's
 * regions.
 *
 * @param [in] cache  Cache to purge.
 * @param [in] pid    Process id of the peer, in any namespace.
 *
 * @return Number of regions taken out of the tables.
 */
unsigned uct_ipc_cache_purge_untold(uct_ipc_cache_t *cache, pid_t pid);


/** Detach the mapping and drop its reference, after the life word has said that
 *  the caller, who has taken back the last pin, is the one to do it. */
void uct_ipc_cache_detach_deferred(uct_ipc_cache_t *cache,
                                   uct_ipc_region_t *region);


/** Count a hit, and note the time where that decides what is evicted. */
static UCS_F_ALWAYS_INLINE void
uct_ipc_cache_used(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    /* Not an atomic addition: that would double the cost of a hit. The line is
     * that of the word which was changed just now. */
    __atomic_store_n(&region->num_hits,
                     __atomic_load_n(&region->num_hits, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    UCS_STATS_UPDATE_COUNTER(cache->stats.node, UCT_IPC_CACHE_STAT_HITS, 1);
    if (ucs_unlikely(__atomic_load_n(&cache->is_bounded, __ATOMIC_RELAXED))) {
        __atomic_store_n(&region->last_used, ucs_get_time(), __ATOMIC_RELAXED);
    }
}


/** Drop a reference of a region. */
static UCS_F_ALWAYS_INLINE void
uct_ipc_cache_put(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    if (uct_ipc_region_unref(region)) {
        cache->ops->free(region);
    }
}


/** Take back a pin, and detach the mapping if it was the last pin of a dead
 *  region. */
static UCS_F_ALWAYS_INLINE void
uct_ipc_cache_unpin(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    if (uct_ipc_region_unpin(region)) {
        uct_ipc_cache_detach_deferred(cache, region);
    }
}

#endif
