/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_cache.h"

#include <ucs/datastruct/khash.h>
#include <ucs/debug/log.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>


/* Number of endpoints to each peer */
KHASH_MAP_INIT_INT(uct_rocm_ipc_peers, unsigned);


static const uct_ipc_cache_ops_t uct_rocm_ipc_cache_ops = {
    .match           = uct_rocm_ipc_region_match,
    .detach          = uct_rocm_ipc_region_detach,
    .release_channel = uct_rocm_ipc_region_release_channel,
    .free            = uct_rocm_ipc_region_free
};

static const uct_ipc_watcher_ops_t uct_rocm_ipc_watcher_ops = {
    .check        = uct_rocm_ipc_region_check,
    .owner_died   = uct_rocm_ipc_region_freed,
    .owners_died  = uct_rocm_ipc_channels_owners_died,
    .still_pinned = uct_rocm_ipc_region_still_pinned,
    .put          = uct_rocm_ipc_region_put
};

/* Never destroyed, since the runtime's handler thread may use it to the end */
uct_ipc_cache_t uct_rocm_ipc_cache =
        UCT_IPC_CACHE_INITIALIZER(&uct_rocm_ipc_cache, &uct_rocm_ipc_cache_ops);

uct_ipc_watcher_t uct_rocm_ipc_watcher = UCT_IPC_WATCHER_INITIALIZER(
        &uct_rocm_ipc_watcher, &uct_rocm_ipc_watcher_ops);

static struct {
    pthread_mutex_t             lock;
    unsigned                    open_count;    /* Memory domains */
    pid_t                       pid;           /* Process which opened it */
    int                         at_exit;       /* Purge is registered */
    int                         signal_import; /* For uct_rkey_ptr() */
    khash_t(uct_rocm_ipc_peers) peers;
} uct_rocm_ipc_users = {
    .lock          = PTHREAD_MUTEX_INITIALIZER,
    .signal_import = 1,
    .peers         = KHASH_STATIC_INITIALIZER
};


/* Have the region claimed when the memory is freed or the owner dies */
static void uct_rocm_ipc_cache_watch(uct_rocm_ipc_region_t *region)
{
    uct_ipc_region_t *ipc_region    = &region->super;
    uct_rocm_ipc_channel_t *channel = uct_rocm_ipc_region_get_channel(region);
    int has_handler                 = 0;
    int is_watched;

    if (channel != NULL) {
        has_handler = uct_rocm_ipc_channel_arm(channel, ipc_region);
        uct_rocm_ipc_channel_put(channel);
    } else if (ipc_region->owner == NULL) {
        return; /* Nothing to look at */
    }

    is_watched = uct_ipc_watcher_add(&uct_rocm_ipc_watcher, ipc_region);

    __atomic_store_n(&ipc_region->has_handler, has_handler, __ATOMIC_RELAXED);
    __atomic_store_n(&ipc_region->has_channel,
                     has_handler || (is_watched && region->with_signal),
                     __ATOMIC_RELAXED);
}

/* Attach the memory of a key and insert it to the cache. The region found is
 * pinned, and has a reference for the caller. */
static ucs_status_t
uct_rocm_ipc_cache_import(const uct_rocm_ipc_import_t *import,
                          uct_ipc_region_t **found_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_region_attach(import, &region);
    if (status != UCS_OK) {
        return status;
    }

    uct_ipc_region_ref(&region->super); /* For the caller */
    status = uct_ipc_cache_insert(&uct_rocm_ipc_cache, &import->space_id,
                                  &region->super, import, found_p);
    if ((status != UCS_OK) || (*found_p != &region->super)) {
        uct_rocm_ipc_region_discard(region);
        return status;
    }

    ucs_debug("attached remote memory 0x%"PRIx64" length %"PRIu64" at %p",
              import->key->address, import->key->length,
              region->super.mapped_addr);
    uct_rocm_ipc_cache_watch(region);
    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_cache_get(const uct_rocm_ipc_import_t *import,
                                    uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    uct_ipc_region_t *found;
    ucs_status_t status;

    found = uct_ipc_cache_find(&uct_rocm_ipc_cache, &import->space_id,
                               import->key->address, import);
    if (found == NULL) {
        status = uct_rocm_ipc_cache_import(import, &found);
        if (status != UCS_OK) {
            return status;
        }
    }

    /* Closed races: the owner has freed the memory after its signal was read
     * and before the handler was armed; or the handler is late, and the key,
     * which may have the same handles, is one of new memory at that address */
    region = ucs_derived_of(found, uct_rocm_ipc_region_t);
    uct_rocm_ipc_region_check(found);
    *region_p = region;
    return UCS_OK;
}

void uct_rocm_ipc_region_let_go(uct_rocm_ipc_region_t *region)
{
    if (region->owner_pid == 0) {
        /* Imported without knowing the peer, whose last endpoint would
         * otherwise be the occasion to detach it */
        uct_ipc_cache_claim(&uct_rocm_ipc_cache, &region->super);
    }

    uct_rocm_ipc_region_unpin(region);
}

int uct_rocm_ipc_cache_signal_import(void)
{
    return __atomic_load_n(&uct_rocm_ipc_users.signal_import, __ATOMIC_RELAXED);
}

/* What a forked child has of the cache is its parent's, and so is the runtime
 * behind it */
static int uct_rocm_ipc_cache_is_mine(void)
{
    return uct_rocm_ipc_users.pid == getpid();
}

static void uct_rocm_ipc_cache_shutdown(void)
{
    if (uct_rocm_ipc_cache_is_mine()) {
        uct_ipc_cache_purge(&uct_rocm_ipc_cache);
        uct_ipc_watcher_stop(&uct_rocm_ipc_watcher);
    }
}

static void uct_rocm_ipc_cache_exit(void)
{
    if (uct_rocm_ipc_users.open_count > 0) {
        uct_rocm_ipc_cache_shutdown();
    }
}

void uct_rocm_ipc_cache_open(const uct_rocm_ipc_md_config_t *config)
{
    uct_ipc_cache_set_bounds(&uct_rocm_ipc_cache, config->cache_max_regions,
                             config->cache_max_size);

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    if (uct_rocm_ipc_users.open_count++ == 0) {
        uct_rocm_ipc_users.pid = getpid();
        uct_ipc_stats_node_alloc(&uct_rocm_ipc_cache.stats, "rocm_ipc_regions");
    }

    /* For the same reason as in rocm_ipc_export.c not a destructor */
    if (!uct_rocm_ipc_users.at_exit) {
        uct_rocm_ipc_users.at_exit = (atexit(uct_rocm_ipc_cache_exit) == 0);
    }

    __atomic_store_n(&uct_rocm_ipc_users.signal_import,
                     config->signal_invalidate, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
}

void uct_rocm_ipc_cache_close(void)
{
    int is_last;

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    is_last = (--uct_rocm_ipc_users.open_count == 0);
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);

    if (is_last) {
        uct_rocm_ipc_cache_shutdown();
        uct_ipc_stats_node_free(&uct_rocm_ipc_cache.stats);
    }
}

ucs_status_t uct_rocm_ipc_cache_peer_open(pid_t pid)
{
    ucs_status_t status = UCS_OK;
    khiter_t iter;
    int ret;

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    iter = kh_put(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers, pid, &ret);
    if (ret == UCS_KH_PUT_FAILED) {
        ucs_error("failed to allocate the entry of peer %d", pid);
        status = UCS_ERR_NO_MEMORY;
    } else if (ret == UCS_KH_PUT_KEY_PRESENT) {
        ++kh_val(&uct_rocm_ipc_users.peers, iter);
    } else {
        kh_val(&uct_rocm_ipc_users.peers, iter) = 1;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
    return status;
}

void uct_rocm_ipc_cache_peer_close(pid_t pid)
{
    khiter_t iter;
    int is_last;

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    iter    = kh_get(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers, pid);
    is_last = (--kh_val(&uct_rocm_ipc_users.peers, iter) == 0);
    if (is_last) {
        kh_del(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers, iter);
    }
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);

    if (is_last && uct_rocm_ipc_cache_is_mine()) {
        uct_ipc_cache_purge_untold(&uct_rocm_ipc_cache, pid);
    }
}
