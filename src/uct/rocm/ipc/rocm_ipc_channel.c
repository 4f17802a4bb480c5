/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_channel.h"
#include "rocm_ipc_cache.h"
#include "rocm_ipc_region.h"

#include <ucs/datastruct/khash.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>

#include <pthread.h>
#include <string.h>


struct uct_rocm_ipc_channel {
    hsa_amd_ipc_signal_t handle;    /* As the key has it */
    hsa_signal_t         signal;
    unsigned             refcount;
    int                  is_listed; /* Can be found */
    int                  is_armed;  /* A handler holds a reference */
    uct_ipc_region_t     *region;   /* Which the handler claims, with a
                                       reference, or NULL */
    uct_ipc_owner_t      *owner;    /* With a reference, or NULL */
};


static UCS_F_ALWAYS_INLINE khint_t
uct_rocm_ipc_signal_handle_hash(hsa_amd_ipc_signal_t handle)
{
    khint_t hash = 0;
    size_t i;

    for (i = 0; i < ucs_static_array_size(handle.handle); ++i) {
        hash = (hash * 31) + kh_int_hash_func(handle.handle[i]);
    }

    return hash;
}

static UCS_F_ALWAYS_INLINE int
uct_rocm_ipc_signal_handle_equal(hsa_amd_ipc_signal_t handle1,
                                 hsa_amd_ipc_signal_t handle2)
{
    return !memcmp(&handle1, &handle2, sizeof(handle1));
}

KHASH_INIT(uct_rocm_ipc_channels, hsa_amd_ipc_signal_t,
           uct_rocm_ipc_channel_t *, 1, uct_rocm_ipc_signal_handle_hash,
           uct_rocm_ipc_signal_handle_equal);


/* Never destroyed, since the runtime's handler thread may use it to the end */
static struct {
    pthread_mutex_t                lock;
    khash_t(uct_rocm_ipc_channels) listed;
} uct_rocm_ipc_channels = {
    .lock   = PTHREAD_MUTEX_INITIALIZER,
    .listed = KHASH_STATIC_INITIALIZER
};


/* Called under the lock */
static uct_rocm_ipc_channel_t *
uct_rocm_ipc_channel_find(const hsa_amd_ipc_signal_t *handle)
{
    khiter_t iter = kh_get(uct_rocm_ipc_channels, &uct_rocm_ipc_channels.listed,
                           *handle);

    return (iter == kh_end(&uct_rocm_ipc_channels.listed)) ?
                   NULL :
                   kh_val(&uct_rocm_ipc_channels.listed, iter);
}

/* Called under the lock. A channel which cannot be listed serves one region. */
static void uct_rocm_ipc_channel_list(uct_rocm_ipc_channel_t *channel)
{
    khiter_t iter;
    int ret;

    iter = kh_put(uct_rocm_ipc_channels, &uct_rocm_ipc_channels.listed,
                  channel->handle, &ret);
    if ((ret == UCS_KH_PUT_FAILED) || (ret == UCS_KH_PUT_KEY_PRESENT)) {
        return;
    }

    kh_val(&uct_rocm_ipc_channels.listed, iter) = channel;
    channel->is_listed                          = 1;
}

/* Called under the lock */
static void uct_rocm_ipc_channel_unlist(uct_rocm_ipc_channel_t *channel)
{
    if (!channel->is_listed) {
        return;
    }

    kh_del(uct_rocm_ipc_channels, &uct_rocm_ipc_channels.listed,
           kh_get(uct_rocm_ipc_channels, &uct_rocm_ipc_channels.listed,
                  channel->handle));
    channel->is_listed = 0;
}

static ucs_status_t
uct_rocm_ipc_channel_create(const hsa_amd_ipc_signal_t *handle,
                            uct_ipc_owner_t *owner,
                            uct_rocm_ipc_channel_t **channel_p)
{
    uct_rocm_ipc_channel_t *channel;
    ucs_status_t status;

    channel = ucs_calloc(1, sizeof(*channel), "rocm_ipc_channel");
    if (channel == NULL) {
        ucs_error("failed to allocate a ROCm IPC lifetime channel");
        return UCS_ERR_NO_MEMORY;
    }

    status = uct_rocm_ipc_signal_attach(handle, &channel->signal);
    if (status != UCS_OK) {
        ucs_free(channel);
        return status;
    }

    channel->handle   = *handle;
    channel->owner    = uct_ipc_watcher_owner_ref(&uct_rocm_ipc_watcher, owner);
    channel->refcount = 1;
    *channel_p        = channel;
    return UCS_OK;
}

static uct_rocm_ipc_channel_t *
uct_rocm_ipc_channel_get_listed(const hsa_amd_ipc_signal_t *handle)
{
    uct_rocm_ipc_channel_t *channel;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    channel = uct_rocm_ipc_channel_find(handle);
    if (channel != NULL) {
        ++channel->refcount;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
    return channel;
}

ucs_status_t uct_rocm_ipc_channel_get(const hsa_amd_ipc_signal_t *handle,
                                      uct_ipc_owner_t *owner,
                                      uct_rocm_ipc_channel_t **channel_p)
{
    uct_rocm_ipc_channel_t *channel;
    ucs_status_t status;

    channel = uct_rocm_ipc_channel_get_listed(handle);
    if (channel != NULL) {
        if (uct_rocm_ipc_channel_is_alive(channel)) {
            *channel_p = channel;
            return UCS_OK;
        }

        /* The handler is late. The handle may be that of a new signal. */
        pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
        uct_rocm_ipc_channel_unlist(channel);
        pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
        uct_rocm_ipc_channel_put(channel);
    }

    status = uct_rocm_ipc_channel_create(handle, owner, &channel);
    if (status != UCS_OK) {
        return status;
    }

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    uct_rocm_ipc_channel_list(channel);
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
    *channel_p = channel;
    return UCS_OK;
}

uct_rocm_ipc_channel_t *
uct_rocm_ipc_channel_ref(uct_rocm_ipc_channel_t **slot_p)
{
    uct_rocm_ipc_channel_t *channel;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    channel = *slot_p;
    if (channel != NULL) {
        ++channel->refcount;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
    return channel;
}

/* Have the handler claim a region. Takes over a reference of it. */
static void uct_rocm_ipc_channel_set_region(uct_rocm_ipc_channel_t *channel,
                                            uct_ipc_region_t *region)
{
    uct_ipc_region_t *unused;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    if (uct_ipc_region_is_dead(region)) {
        /* Closed race: the region was evicted, and the same memory imported
         * again by another thread, whose region must not be replaced */
        unused = region;
    } else {
        unused          = channel->region;
        channel->region = region;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    if (unused != NULL) {
        uct_rocm_ipc_region_put(unused);
    }
}

/* Forget a region, or any if it is NULL */
static void uct_rocm_ipc_channel_clear_region(uct_rocm_ipc_channel_t *channel,
                                              uct_ipc_region_t *region)
{
    uct_ipc_region_t *unused = NULL;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    if ((region == NULL) || (channel->region == region)) {
        unused          = channel->region;
        channel->region = NULL;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    if (unused != NULL) {
        uct_rocm_ipc_region_put(unused);
    }
}

void uct_rocm_ipc_channel_put(uct_rocm_ipc_channel_t *channel)
{
    unsigned refcount;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    refcount = --channel->refcount;
    if (refcount == 0) {
        uct_rocm_ipc_channel_unlist(channel);
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    if (refcount == 0) {
        /* Left by a region that was imported after the handler was called */
        uct_rocm_ipc_channel_clear_region(channel, NULL);
        uct_rocm_ipc_signal_destroy(channel->signal);
        uct_ipc_watcher_owner_put(&uct_rocm_ipc_watcher, channel->owner);
        ucs_free(channel);
    }
}

void uct_rocm_ipc_channel_release(uct_rocm_ipc_channel_t **slot_p)
{
    uct_rocm_ipc_channel_t *channel;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    channel = *slot_p;
    *slot_p = NULL;
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    if (channel != NULL) {
        uct_rocm_ipc_channel_put(channel);
    }
}

/* Called once, from the runtime's thread: the owner frees the memory */
static bool uct_rocm_ipc_channel_handler(hsa_signal_value_t value, void *arg)
{
    uct_rocm_ipc_channel_t *channel = arg;
    uct_ipc_region_t *region;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    region          = channel->region;
    channel->region = NULL;
    uct_rocm_ipc_channel_unlist(channel);
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    if (region != NULL) {
        uct_rocm_ipc_region_freed(region);
        uct_rocm_ipc_region_put(region);
    }

    uct_ipc_stats_add(&uct_rocm_ipc_cache.stats, UCT_IPC_CACHE_STAT_HANDLERS,
                      -1);
    uct_rocm_ipc_channel_put(channel);
    return false;
}

/* Returns nonzero if the caller has to arm the handler, for which it then holds
 * a reference */
static int uct_rocm_ipc_channel_begin_arm(uct_rocm_ipc_channel_t *channel)
{
    int was_armed;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    was_armed         = channel->is_armed;
    channel->is_armed = 1;
    channel->refcount += !was_armed;
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
    return !was_armed;
}

int uct_rocm_ipc_channel_arm(uct_rocm_ipc_channel_t *channel,
                             uct_ipc_region_t *region)
{
    /* Before the handler can be called. If that has happened already, for an
     * earlier region, the caller finds the signal freed when it looks next. */
    uct_ipc_region_ref(region);
    uct_rocm_ipc_channel_set_region(channel, region);

    if (!uct_rocm_ipc_channel_begin_arm(channel)) {
        return 1;
    }

    if (uct_rocm_ipc_signal_watch(channel->signal, uct_rocm_ipc_channel_handler,
                                  channel) == UCS_OK) {
        uct_ipc_stats_add(&uct_rocm_ipc_cache.stats,
                          UCT_IPC_CACHE_STAT_HANDLERS, 1);
        return 1;
    }

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    channel->is_armed = 0;
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);

    uct_rocm_ipc_channel_clear_region(channel, region);
    uct_rocm_ipc_channel_put(channel);
    return 0;
}

int uct_rocm_ipc_channel_is_alive(const uct_rocm_ipc_channel_t *channel)
{
    return uct_rocm_ipc_signal_is_alive(channel->signal);
}

/* A channel whose owner has died and whose signal does not say so yet, with a
 * reference, or NULL */
static uct_rocm_ipc_channel_t *uct_rocm_ipc_channel_get_orphan(void)
{
    khash_t(uct_rocm_ipc_channels) *listed = &uct_rocm_ipc_channels.listed;
    uct_rocm_ipc_channel_t *orphan         = NULL;
    uct_rocm_ipc_channel_t *channel;
    khiter_t iter;

    pthread_mutex_lock(&uct_rocm_ipc_channels.lock);
    for (iter = kh_begin(listed); iter != kh_end(listed); ++iter) {
        channel = kh_exist(listed, iter) ? kh_val(listed, iter) : NULL;
        if ((channel != NULL) && (channel->owner != NULL) &&
            uct_ipc_owner_is_dead(channel->owner)) {
            orphan = channel;
            break;
        }
    }

    if (orphan != NULL) {
        uct_rocm_ipc_channel_unlist(orphan);
        ++orphan->refcount;
    }
    pthread_mutex_unlock(&uct_rocm_ipc_channels.lock);
    return orphan;
}

void uct_rocm_ipc_channels_owners_died(void)
{
    uct_rocm_ipc_channel_t *channel;

    while ((channel = uct_rocm_ipc_channel_get_orphan()) != NULL) {
        uct_rocm_ipc_signal_set_freed(channel->signal);
        uct_rocm_ipc_channel_put(channel);
    }
}
