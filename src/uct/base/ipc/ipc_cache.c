/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ipc_cache.h"
#include "ipc_compat.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>


KHASH_IMPL(uct_ipc_space, uct_ipc_space_id_t, uct_ipc_space_t*, 1,
           uct_ipc_space_id_hash, uct_ipc_space_id_equal);


const char *const uct_ipc_cache_stat_names[] = {
    [UCT_IPC_CACHE_STAT_REGIONS]  = "regions",
    [UCT_IPC_CACHE_STAT_HITS]     = "hits",
    [UCT_IPC_CACHE_STAT_MISSES]   = "misses",
    [UCT_IPC_CACHE_STAT_FREED]    = "freed",
    [UCT_IPC_CACHE_STAT_REPLACED] = "replaced",
    [UCT_IPC_CACHE_STAT_EVICTED]  = "evicted",
    [UCT_IPC_CACHE_STAT_DEFERRED] = "deferred_detaches",
    [UCT_IPC_CACHE_STAT_HANDLERS] = "handlers"
};


static ucs_pgt_dir_t *uct_ipc_cache_pgd_alloc(const ucs_pgtable_t *pgtable)
{
    void *ptr;
    int ret;

    ret = ucs_posix_memalign(&ptr,
                             ucs_max(sizeof(void*), UCS_PGT_ENTRY_MIN_ALIGN),
                             sizeof(ucs_pgt_dir_t), "ipc_cache_pgd");
    return (ret == 0) ? ptr : NULL;
}

static void
uct_ipc_cache_pgd_release(const ucs_pgtable_t *pgtable, ucs_pgt_dir_t *pgd)
{
    ucs_free(pgd);
}

static uct_ipc_space_t *
uct_ipc_cache_space_find(uct_ipc_cache_t *cache,
                         const uct_ipc_space_id_t *space_id)
{
    khiter_t iter = kh_get(uct_ipc_space, &cache->spaces, *space_id);

    return (iter == kh_end(&cache->spaces)) ? NULL :
                                              kh_val(&cache->spaces, iter);
}

static uct_ipc_space_t *
uct_ipc_cache_space_get(uct_ipc_cache_t *cache,
                        const uct_ipc_space_id_t *space_id)
{
    uct_ipc_space_t *space;
    khiter_t iter;
    int ret;

    space = uct_ipc_cache_space_find(cache, space_id);
    if (space != NULL) {
        return space;
    }

    space = ucs_malloc(sizeof(*space), "ipc_cache_space");
    if (space == NULL) {
        goto err;
    }

    if (ucs_pgtable_init(&space->pgtable, uct_ipc_cache_pgd_alloc,
                         uct_ipc_cache_pgd_release) != UCS_OK) {
        goto err_free;
    }

    iter = kh_put(uct_ipc_space, &cache->spaces, *space_id, &ret);
    if (ret == UCS_KH_PUT_FAILED) {
        goto err_cleanup;
    }

    space->id                    = *space_id;
    kh_val(&cache->spaces, iter) = space;
    ucs_list_head_init(&space->regions);
    return space;

err_cleanup:
    ucs_pgtable_cleanup(&space->pgtable);
err_free:
    ucs_free(space);
err:
    ucs_error("failed to allocate the page table of a peer");
    return NULL;
}

/* Peers come and go, so an empty space does not stay */
static void
uct_ipc_cache_space_put(uct_ipc_cache_t *cache, uct_ipc_space_t *space)
{
    if (!ucs_list_is_empty(&space->regions)) {
        return;
    }

    kh_del(uct_ipc_space, &cache->spaces,
           kh_get(uct_ipc_space, &cache->spaces, space->id));
    ucs_pgtable_cleanup(&space->pgtable);
    ucs_free(space);
}

static size_t uct_ipc_region_size(const uct_ipc_region_t *region)
{
    return region->super.end - region->super.start;
}

/* Called under the write lock. Returns what is left to do: the reference of the
 * table passes to the caller, unless somebody else has unlinked the region. */
static unsigned
uct_ipc_cache_unlink(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    uct_ipc_space_t *space = region->space;
    ucs_status_t status;

    if (space == NULL) {
        return 0;
    }

    status = ucs_pgtable_remove(&space->pgtable, &region->super);
    ucs_assertv_always(status == UCS_OK, "region %p is not in its page table",
                       region);
    ucs_list_del(&region->list);
    ucs_list_del(&region->lru_list);
    --cache->num_regions;
    uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_REGIONS, -1);
    __atomic_add_fetch(&cache->stats.values[UCT_IPC_CACHE_STAT_HITS],
                       __atomic_load_n(&region->num_hits, __ATOMIC_RELAXED),
                       __ATOMIC_RELAXED);
    cache->total_size -= uct_ipc_region_size(region);
    region->space      = NULL;
    return UCT_IPC_REGION_TODO_PUT;
}

void uct_ipc_region_init(uct_ipc_region_t *region, uintptr_t address,
                         size_t length, void *mapped_addr)
{
    region->super.start = ucs_align_down_pow2(address, UCS_PGT_ADDR_ALIGN);
    region->super.end = ucs_align_up_pow2(address + length, UCS_PGT_ADDR_ALIGN);
    region->life      = 1;
    region->refcount  = 1;
    region->num_hits  = 0;
    region->space     = NULL;
    region->has_channel = 0;
    region->has_handler = 0;
    region->owner_freed = 0;
    region->mapped_addr = mapped_addr;
    region->dead_since  = 0;
}

/* Called under the lock, for reading at least */
static uct_ipc_region_t *
uct_ipc_cache_pin_match(uct_ipc_cache_t *cache, uct_ipc_space_t *space,
                        uintptr_t address, const void *key)
{
    ucs_pgt_region_t *pgt_region = ucs_pgtable_lookup(&space->pgtable, address);
    uct_ipc_region_t *region;

    if (pgt_region == NULL) {
        return NULL;
    }

    region = ucs_derived_of(pgt_region, uct_ipc_region_t);
    if (!cache->ops->match(region, key) || !uct_ipc_region_pin(region)) {
        return NULL;
    }

    uct_ipc_region_ref(region);
    uct_ipc_cache_used(cache, region);
    return region;
}

uct_ipc_region_t *uct_ipc_cache_find(uct_ipc_cache_t *cache,
                                     const uct_ipc_space_id_t *space_id,
                                     uintptr_t address, const void *key)
{
    uct_ipc_region_t *region = NULL;
    uct_ipc_space_t *space;

    pthread_rwlock_rdlock(&cache->lock);
    space = uct_ipc_cache_space_find(cache, space_id);
    if (space != NULL) {
        region = uct_ipc_cache_pin_match(cache, space, address, key);
    }
    pthread_rwlock_unlock(&cache->lock);
    return region;
}

static void
uct_ipc_cache_detach(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    cache->ops->detach(region);
    uct_ipc_cache_put(cache, region);
}

void uct_ipc_cache_detach_deferred(uct_ipc_cache_t *cache,
                                   uct_ipc_region_t *region)
{
    uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_DEFERRED, 1);
    uct_ipc_cache_detach(cache, region);
}

/* Called without the lock: what remains to be done after a claim */
static void uct_ipc_cache_finish(uct_ipc_cache_t *cache,
                                 uct_ipc_region_t *region, unsigned todo)
{
    if (todo & UCT_IPC_REGION_TODO_CHANNEL) {
        cache->ops->release_channel(region);
    }

    if (todo & UCT_IPC_REGION_TODO_DETACH) {
        uct_ipc_cache_detach(cache, region);
    }

    if (todo & UCT_IPC_REGION_TODO_PUT) {
        uct_ipc_cache_put(cache, region);
    }
}

int uct_ipc_cache_claim(uct_ipc_cache_t *cache, uct_ipc_region_t *region)
{
    unsigned todo = uct_ipc_region_claim(region);
    uct_ipc_space_t *space;

    if (todo == 0) {
        return 0;
    }

    pthread_rwlock_wrlock(&cache->lock);
    space = region->space;
    if (space != NULL) {
        todo |= uct_ipc_cache_unlink(cache, region);
        uct_ipc_cache_space_put(cache, space);
    }
    pthread_rwlock_unlock(&cache->lock);

    uct_ipc_cache_finish(cache, region, todo);
    return 1;
}

/* Called under the write lock: claim a region and move it to a list. If it was
 * claimed by another thread, which waits for the lock to unlink it, this is
 * done here, and only the reference of the table is left to be dropped. */
static void uct_ipc_cache_take(uct_ipc_cache_t *cache, uct_ipc_region_t *region,
                               ucs_list_link_t *taken)
{
    region->todo  = uct_ipc_region_claim(region);
    region->todo |= uct_ipc_cache_unlink(cache, region);
    ucs_list_add_tail(taken, &region->list);
}

/* Called without the lock, for regions from uct_ipc_cache_take() */
static unsigned
uct_ipc_cache_finish_taken(uct_ipc_cache_t *cache, ucs_list_link_t *taken)
{
    unsigned count = 0;
    uct_ipc_region_t *region, *tmp;

    ucs_list_for_each_safe(region, tmp, taken, list) {
        uct_ipc_cache_finish(cache, region, region->todo);
        ++count;
    }

    return count;
}

static void uct_ipc_cache_overlap_cb(const ucs_pgtable_t *pgtable,
                                     ucs_pgt_region_t *pgt_region, void *arg)
{
    *(uct_ipc_region_t**)arg = ucs_derived_of(pgt_region, uct_ipc_region_t);
}

/* Called under the write lock: put a region to its place in the order of use.
 * Most often that is at the end. */
static void uct_ipc_cache_lru_add(uct_ipc_cache_t *cache,
                                  uct_ipc_region_t *region, ucs_time_t time)
{
    ucs_list_link_t *prev = cache->lru.prev;

    while ((prev != &cache->lru) &&
           (ucs_container_of(prev, uct_ipc_region_t, lru_list)->lru_time >
            time)) {
        prev = prev->prev;
    }

    region->lru_time = time;
    ucs_list_insert_after(prev, &region->lru_list);
}

/* Called under the write lock: the least recently used region that may go */
static uct_ipc_region_t *
uct_ipc_cache_lru_find(uct_ipc_cache_t *cache, int no_handler_only)
{
    ucs_list_link_t *next = cache->lru.next;
    uct_ipc_region_t *region;
    ucs_time_t last_used;

    while (next != &cache->lru) {
        region    = ucs_container_of(next, uct_ipc_region_t, lru_list);
        last_used = __atomic_load_n(&region->last_used, __ATOMIC_RELAXED);
        next      = next->next;
        if (uct_ipc_region_is_pinned(region) ||
            (no_handler_only && uct_ipc_region_has_handler(region))) {
            continue;
        }

        if (last_used <= region->lru_time) {
            return region;
        }

        ucs_list_del(&region->lru_list);
        uct_ipc_cache_lru_add(cache, region, last_used);
        if (region->lru_list.next == next) {
            next = &region->lru_list; /* It is still the next one */
        }
    }

    return NULL;
}

/* Called under the write lock */
static void uct_ipc_cache_evict_region(uct_ipc_cache_t *cache,
                                       uct_ipc_region_t *region,
                                       ucs_list_link_t *taken)
{
    uct_ipc_space_t *space = region->space;

    uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_EVICTED, 1);
    uct_ipc_cache_take(cache, region, taken);
    uct_ipc_cache_space_put(cache, space);
}

/* Called under the write lock */
static void uct_ipc_cache_shrink(uct_ipc_cache_t *cache, ucs_list_link_t *taken)
{
    uct_ipc_region_t *region;

    while ((cache->num_regions > cache->max_regions) ||
           (cache->total_size > cache->max_size)) {
        region = uct_ipc_cache_lru_find(cache, 0);
        if (region == NULL) {
            break;
        }

        uct_ipc_cache_evict_region(cache, region, taken);
    }
}

/* Called under the write lock */
static ucs_status_t
uct_ipc_cache_link(uct_ipc_cache_t *cache, uct_ipc_space_t *space,
                   uct_ipc_region_t *region, ucs_list_link_t *taken)
{
    uct_ipc_region_t *overlap;
    ucs_status_t status;

    while ((status = ucs_pgtable_insert(&space->pgtable, &region->super)) ==
           UCS_ERR_ALREADY_EXISTS) {
        overlap = NULL;
        ucs_pgtable_search_range(&space->pgtable, region->super.start,
                                 region->super.end - 1,
                                 uct_ipc_cache_overlap_cb, &overlap);
        ucs_assert_always(overlap != NULL);
        uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_REPLACED, 1);
        uct_ipc_cache_take(cache, overlap, taken);
    }

    if (status == UCS_OK) {
        ucs_list_add_tail(&space->regions, &region->list);
        region->last_used = ucs_get_time();
        uct_ipc_cache_lru_add(cache, region, region->last_used);
        ++cache->num_regions;
        uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_REGIONS, 1);
        uct_ipc_stats_add(&cache->stats, UCT_IPC_CACHE_STAT_MISSES, 1);
        cache->total_size += uct_ipc_region_size(region);
        region->space      = space;
        uct_ipc_region_ref(region);
    } else {
        ucs_error("failed to insert remote range 0x%lx..0x%lx: %s",
                  region->super.start, region->super.end,
                  ucs_status_string(status));
    }

    return status;
}

ucs_status_t uct_ipc_cache_insert(uct_ipc_cache_t *cache,
                                  const uct_ipc_space_id_t *space_id,
                                  uct_ipc_region_t *region, const void *key,
                                  uct_ipc_region_t **found_p)
{
    uct_ipc_region_t *found;
    uct_ipc_space_t *space;
    ucs_list_link_t taken;
    ucs_status_t status;

    ucs_list_head_init(&taken);

    pthread_rwlock_wrlock(&cache->lock);
    space = uct_ipc_cache_space_get(cache, space_id);
    if (space == NULL) {
        status = UCS_ERR_NO_MEMORY;
        goto out_unlock;
    }

    /* Closed race: since the lock is not held while memory is attached, another
     * thread may have attached the same memory meanwhile */
    found = uct_ipc_cache_pin_match(cache, space, region->super.start, key);
    if (found != NULL) {
        *found_p = found;
        status   = UCS_OK;
        goto out_unlock;
    }

    status = uct_ipc_cache_link(cache, space, region, &taken);
    if (status == UCS_OK) {
        *found_p = region;
    }
    uct_ipc_cache_space_put(cache, space);
    uct_ipc_cache_shrink(cache, &taken);

out_unlock:
    pthread_rwlock_unlock(&cache->lock);
    uct_ipc_cache_finish_taken(cache, &taken);
    return status;
}

void uct_ipc_cache_set_bounds(uct_ipc_cache_t *cache, unsigned long max_regions,
                              size_t max_size)
{
    pthread_rwlock_wrlock(&cache->lock);
    cache->max_regions = max_regions;
    cache->max_size    = max_size;
    __atomic_store_n(&cache->is_bounded,
                     (max_regions != ULONG_MAX) || (max_size != SIZE_MAX),
                     __ATOMIC_RELAXED);
    pthread_rwlock_unlock(&cache->lock);
}

int uct_ipc_cache_evict(uct_ipc_cache_t *cache, int no_handler_only)
{
    uct_ipc_region_t *region;
    ucs_list_link_t taken;

    ucs_list_head_init(&taken);

    pthread_rwlock_wrlock(&cache->lock);
    region = uct_ipc_cache_lru_find(cache, no_handler_only);
    if (region != NULL) {
        uct_ipc_cache_evict_region(cache, region, &taken);
    }
    pthread_rwlock_unlock(&cache->lock);

    return uct_ipc_cache_finish_taken(cache, &taken);
}

/* Called under the write lock */
static void uct_ipc_cache_take_space(uct_ipc_cache_t *cache,
                                     uct_ipc_space_t *space, int untold_only,
                                     ucs_list_link_t *taken)
{
    uct_ipc_region_t *region, *tmp;

    ucs_list_for_each_safe(region, tmp, &space->regions, list) {
        if (!untold_only ||
            !__atomic_load_n(&region->has_channel, __ATOMIC_RELAXED)) {
            uct_ipc_cache_take(cache, region, taken);
        }
    }

    uct_ipc_cache_space_put(cache, space);
}

/* pid NULL: all regions of all peers; otherwise those of which nobody tells */
static unsigned
uct_ipc_cache_purge_spaces(uct_ipc_cache_t *cache, const pid_t *pid)
{
    uct_ipc_space_t *space;
    ucs_list_link_t taken;
    khiter_t iter;

    ucs_list_head_init(&taken);

    pthread_rwlock_wrlock(&cache->lock);
    for (iter = kh_begin(&cache->spaces); iter != kh_end(&cache->spaces);
         ++iter) {
        if (!kh_exist(&cache->spaces, iter)) {
            continue;
        }

        space = kh_val(&cache->spaces, iter);
        if ((pid == NULL) || (space->id.pid == *pid)) {
            uct_ipc_cache_take_space(cache, space, pid != NULL, &taken);
        }
    }
    pthread_rwlock_unlock(&cache->lock);

    return uct_ipc_cache_finish_taken(cache, &taken);
}

unsigned uct_ipc_cache_purge(uct_ipc_cache_t *cache)
{
    return uct_ipc_cache_purge_spaces(cache, NULL);
}

unsigned uct_ipc_cache_purge_untold(uct_ipc_cache_t *cache, pid_t pid)
{
    return uct_ipc_cache_purge_spaces(cache, &pid);
}

uint64_t uct_ipc_cache_stats_get(const uct_ipc_stats_t *stats, unsigned counter)
{
    uct_ipc_cache_t *cache = ucs_container_of(stats, uct_ipc_cache_t, stats);
    uct_ipc_region_t *region;
    uint64_t value;

    if (counter != UCT_IPC_CACHE_STAT_HITS) {
        return uct_ipc_stats_get(stats, counter);
    }

    /* Each region counts its own, until it leaves the table */
    pthread_rwlock_rdlock(&cache->lock);
    value = uct_ipc_stats_get(stats, counter);
    ucs_list_for_each(region, &cache->lru, lru_list) {
        value += __atomic_load_n(&region->num_hits, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&cache->lock);
    return value;
}
