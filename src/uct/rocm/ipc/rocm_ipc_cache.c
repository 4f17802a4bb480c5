/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_cache.h"
#include "rocm_ipc_signal.h"

#include <ucs/datastruct/khash.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


struct uct_rocm_ipc_rkey_past {
    uct_rocm_ipc_rkey_past_t *next;
    uct_rocm_ipc_region_t    *region;
};


/* What is imported */
typedef struct uct_rocm_ipc_import {
    const uct_rocm_ipc_key_t *key;
    int                      with_signal; /* Attach the lifetime signal */
    uct_ipc_space_id_t       space_id;    /* Unused without the cache */
} uct_rocm_ipc_import_t;


/* Number of endpoints to each peer */
KHASH_MAP_INIT_INT(uct_rocm_ipc_peers, unsigned);


static int uct_rocm_ipc_region_match(const uct_ipc_region_t *region,
                                     const void *key);
static void uct_rocm_ipc_region_detach(uct_ipc_region_t *region);
static void uct_rocm_ipc_region_release_channel(uct_ipc_region_t *region);
static void uct_rocm_ipc_region_free(uct_ipc_region_t *region);


static const uct_ipc_cache_ops_t uct_rocm_ipc_cache_ops = {
    .match           = uct_rocm_ipc_region_match,
    .detach          = uct_rocm_ipc_region_detach,
    .release_channel = uct_rocm_ipc_region_release_channel,
    .free            = uct_rocm_ipc_region_free
};

/* Never destroyed, since the runtime's handler thread may use it to the end */
uct_ipc_cache_t uct_rocm_ipc_cache =
        UCT_IPC_CACHE_INITIALIZER(&uct_rocm_ipc_cache_ops);

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


/* A region without a signal is not what an importer looks for who wants one */
static int uct_rocm_ipc_region_match(const uct_ipc_region_t *ipc_region,
                                     const void *arg)
{
    const uct_rocm_ipc_region_t *region =
            ucs_derived_of(ipc_region, uct_rocm_ipc_region_t);
    const uct_rocm_ipc_import_t *import = arg;
    const uct_rocm_ipc_key_t *key       = import->key;

    return !memcmp(&region->handle, &key->ipc, sizeof(key->ipc)) &&
           !memcmp(&region->signal_handle, &key->signal, sizeof(key->signal)) &&
           (region->has_signal || !import->with_signal);
}

static void uct_rocm_ipc_region_detach(uct_ipc_region_t *ipc_region)
{
    hsa_status_t status;

    status = hsa_amd_ipc_memory_detach(ipc_region->mapped_addr);
    if (status != HSA_STATUS_SUCCESS) {
        ucs_warn("failed to detach the memory of a peer from %p: %s",
                 ipc_region->mapped_addr,
                 uct_rocm_ipc_hsa_status_string(status));
    }
}

/* Returns nonzero if the caller may read the signal until it leaves it */
static int uct_rocm_ipc_region_enter_signal(uct_rocm_ipc_region_t *region)
{
    uint32_t users;

    if (!region->has_signal) {
        return 0;
    }

    users = __atomic_load_n(&region->signal_users, __ATOMIC_RELAXED);
    do {
        if (users == 0) {
            return 0; /* Destroyed */
        }
    } while (!__atomic_compare_exchange_n(&region->signal_users, &users,
                                          users + 1, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return 1;
}

static void uct_rocm_ipc_region_leave_signal(uct_rocm_ipc_region_t *region)
{
    /* Release and acquire: all reads come before the signal is destroyed */
    if (__atomic_sub_fetch(&region->signal_users, 1, __ATOMIC_ACQ_REL) == 0) {
        uct_rocm_ipc_signal_destroy(region->signal);
    }
}

/* The owner of the signal has no more use for it */
static void uct_rocm_ipc_region_release_channel(uct_ipc_region_t *ipc_region)
{
    uct_rocm_ipc_region_t *region = ucs_derived_of(ipc_region,
                                                   uct_rocm_ipc_region_t);

    if (region->has_signal) {
        uct_rocm_ipc_region_leave_signal(region);
    }
}

static void uct_rocm_ipc_region_free(uct_ipc_region_t *ipc_region)
{
    ucs_free(ucs_derived_of(ipc_region, uct_rocm_ipc_region_t));
}

static void uct_rocm_ipc_region_claim_freed(uct_rocm_ipc_region_t *region)
{
    /* Published by the claim */
    __atomic_store_n(&region->super.owner_freed, 1, __ATOMIC_RELAXED);
    uct_ipc_cache_claim(&uct_rocm_ipc_cache, &region->super);
}

/* Claim the region if its signal says that the memory was freed. The caller
 * holds a reference. */
static void uct_rocm_ipc_region_check_signal(uct_rocm_ipc_region_t *region)
{
    if (!uct_rocm_ipc_region_enter_signal(region)) {
        return;
    }

    if (!uct_rocm_ipc_signal_is_alive(region->signal)) {
        uct_rocm_ipc_region_claim_freed(region);
    }

    uct_rocm_ipc_region_leave_signal(region);
}

/* Called once, from the runtime's thread: the owner frees the memory */
static bool
uct_rocm_ipc_region_freed_handler(hsa_signal_value_t value, void *arg)
{
    uct_rocm_ipc_region_t *region = arg;

    uct_rocm_ipc_region_claim_freed(region);
    uct_rocm_ipc_region_release_channel(&region->super);
    uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
    return false;
}

/* Watch the signal of a region which is in the table. Called without the lock,
 * with a reference. */
static void uct_rocm_ipc_region_arm(uct_rocm_ipc_region_t *region)
{
    ucs_status_t status;

    if (!region->has_signal || !uct_ipc_region_watch(&region->super)) {
        /* Claimed already: the signal belongs to the one who has done that */
        return;
    }

    uct_ipc_region_ref(&region->super); /* For the handler */
    status = uct_rocm_ipc_signal_watch(region->signal,
                                       uct_rocm_ipc_region_freed_handler,
                                       region);
    if (status != UCS_OK) {
        if (uct_ipc_region_unwatch(&region->super)) {
            uct_rocm_ipc_region_release_channel(&region->super);
        }
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
    }
}

static hsa_agent_t uct_rocm_ipc_mapping_agent(const void *mapped_addr)
{
    hsa_agent_t no_agent = {0};
    hsa_amd_pointer_info_t info;

    /* No agent if the owner's GPU is not visible to this process */
    return (uct_rocm_ipc_pointer_info(mapped_addr, &info) == UCS_OK) ?
                   info.agentOwner : no_agent;
}

static ucs_status_t
uct_rocm_ipc_region_attach_memory(uct_rocm_ipc_region_t *region,
                                  const uct_rocm_ipc_key_t *key)
{
    void *mapped_addr;
    hsa_status_t status;

    status = hsa_amd_ipc_memory_attach(&key->ipc, key->length, 0, NULL,
                                       &mapped_addr);
    if (status == HSA_STATUS_SUCCESS) {
        uct_ipc_region_init(&region->super, key->address, key->length,
                            mapped_addr);
        region->agent = uct_rocm_ipc_mapping_agent(mapped_addr);
        return UCS_OK;
    }

    if (region->has_signal && !uct_rocm_ipc_signal_is_alive(region->signal)) {
        ucs_diag("remote memory 0x%"PRIx64" length %"PRIu64" was freed by its"
                 " owner meanwhile", key->address, key->length);
        return UCS_ERR_INVALID_ADDR;
    }

    ucs_error("failed to attach remote memory 0x%"PRIx64" length %"PRIu64": %s",
              key->address, key->length,
              uct_rocm_ipc_hsa_status_string(status));
    return (status == HSA_STATUS_ERROR_OUT_OF_RESOURCES) ?
                   UCS_ERR_NO_MEMORY : UCS_ERR_INVALID_ADDR;
}

/* Attach the memory of a key. The signal comes first: memory that is gone must
 * not be attached, since a runtime may wait for it for ever. */
static ucs_status_t
uct_rocm_ipc_region_attach(const uct_rocm_ipc_import_t *import,
                           uct_rocm_ipc_region_t **region_p)
{
    const uct_rocm_ipc_key_t *key = import->key;
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;
    int ret;

    ret = ucs_posix_memalign((void**)&region,
                             ucs_max(sizeof(void*), UCS_PGT_ENTRY_MIN_ALIGN),
                             sizeof(*region), "rocm_ipc_region");
    if (ret != 0) {
        ucs_error("failed to allocate a ROCm IPC region");
        return UCS_ERR_NO_MEMORY;
    }

    region->handle        = key->ipc;
    region->signal_handle = key->signal;
    region->has_signal    = import->with_signal;
    region->signal_users  = 1;
    if (region->has_signal) {
        status = uct_rocm_ipc_signal_attach(&key->signal, &region->signal);
        if (status != UCS_OK) {
            goto err_free;
        }
    }

    status = uct_rocm_ipc_region_attach_memory(region, key);
    if (status != UCS_OK) {
        goto err_release_channel;
    }

    /* Closed race: freed since the signal was read the first time */
    if (region->has_signal && !uct_rocm_ipc_signal_is_alive(region->signal)) {
        ucs_diag("remote memory 0x%"PRIx64" length %"PRIu64" was freed by its"
                 " owner meanwhile", key->address, key->length);
        uct_rocm_ipc_region_detach(&region->super);
        status = UCS_ERR_INVALID_ADDR;
        goto err_release_channel;
    }

    *region_p = region;
    return UCS_OK;

err_release_channel:
    uct_rocm_ipc_region_release_channel(&region->super);
err_free:
    ucs_free(region);
    return status;
}

/* Attach the memory of a key and insert it to the cache. The region found is
 * pinned, and has a reference for the caller. */
static ucs_status_t
uct_rocm_ipc_region_import(const uct_rocm_ipc_import_t *import,
                           uct_ipc_region_t **found_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_region_attach(import, &region);
    if (status != UCS_OK) {
        return status;
    }

    uct_ipc_region_ref(&region->super); /* For the caller */
    uct_ipc_region_ref(&region->super); /* While the handler is being armed */
    status = uct_ipc_cache_insert(&uct_rocm_ipc_cache, &import->space_id,
                                  &region->super, import, found_p);
    if ((status != UCS_OK) || (*found_p != &region->super)) {
        /* Nobody else has seen the region */
        uct_rocm_ipc_region_detach(&region->super);
        uct_rocm_ipc_region_release_channel(&region->super);
        uct_rocm_ipc_region_free(&region->super);
        return status;
    }

    ucs_debug("attached remote memory 0x%"PRIx64" length %"PRIu64" at %p",
              import->key->address, import->key->length,
              region->super.mapped_addr);
    uct_rocm_ipc_region_arm(region);
    uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
    return UCS_OK;
}

/* Find the region of a key, or import it. The region found is pinned, and has a
 * reference for the caller. */
static ucs_status_t
uct_rocm_ipc_region_get(const uct_rocm_ipc_import_t *import,
                        uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    uct_ipc_region_t *found;
    ucs_status_t status;

    found = uct_ipc_cache_find(&uct_rocm_ipc_cache, &import->space_id,
                               import->key->address, import);
    if (found == NULL) {
        status = uct_rocm_ipc_region_import(import, &found);
        if (status != UCS_OK) {
            return status;
        }
    }

    /* Closed races: the owner has freed the memory after its signal was read
     * and before the handler was armed; or the handler is late, and the key,
     * which may have the same handles, is one of new memory at that address */
    region = ucs_derived_of(found, uct_rocm_ipc_region_t);
    uct_rocm_ipc_region_check_signal(region);
    *region_p = region;
    return UCS_OK;
}

/* Takes over a reference of the region */
static ucs_status_t
uct_rocm_ipc_rkey_remember(uct_rocm_ipc_rkey_t *rkey,
                           uct_rocm_ipc_region_t *region)
{
    uct_rocm_ipc_region_t *old = NULL;
    uct_rocm_ipc_rkey_past_t *past;

    /* Release: whoever loads the region sees its contents */
    if (__atomic_compare_exchange_n(&rkey->region, &old, region, 0,
                                    __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        return UCS_OK;
    }

    if (old == region) {
        /* Another thread has remembered it by the same key */
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
        return UCS_OK;
    }

    /* Another thread may be just about to pin the former region through this
     * key, so it is kept with the key */
    past = ucs_malloc(sizeof(*past), "rocm_ipc_rkey_past");
    if (past == NULL) {
        ucs_error("failed to allocate memory for a ROCm IPC remote key");
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
        return UCS_ERR_NO_MEMORY;
    }

    past->region = __atomic_exchange_n(&rkey->region, region, __ATOMIC_ACQ_REL);
    past->next   = __atomic_load_n(&rkey->past, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&rkey->past, &past->next, past, 1,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        /* Only pushed until the key is released, so no ABA */
    }

    return UCS_OK;
}

static void
uct_rocm_ipc_rkey_space_id(const uct_rocm_ipc_rkey_t *rkey, pid_t peer_pid,
                           uct_ipc_space_id_t *space_id)
{
    memset(space_id, 0, sizeof(*space_id));
    space_id->dev = rkey->key.dev_num & UCT_ROCM_IPC_KEY_DEV_MASK;
    if (rkey->key.dev_num & UCT_ROCM_IPC_KEY_FLAG_PID) {
        space_id->pid    = rkey->key.pid;
        space_id->pid_ns = rkey->key.pid_ns;
    } else {
        space_id->pid    = peer_pid;
    }
}

static int uct_rocm_ipc_region_is_freed(uct_rocm_ipc_region_t *region)
{
    return __atomic_load_n(&region->super.owner_freed, __ATOMIC_RELAXED);
}

static void
uct_rocm_ipc_import_init(uct_rocm_ipc_import_t *import,
                         const uct_rocm_ipc_rkey_t *rkey, pid_t peer_pid,
                         int signal_import)
{
    import->key         = &rkey->key;
    import->with_signal = signal_import &&
                          (rkey->key.dev_num & UCT_ROCM_IPC_KEY_FLAG_SIGNAL);
    uct_rocm_ipc_rkey_space_id(rkey, peer_pid, &import->space_id);
}

/* Do what rkey_pin_slow() does, for a key whose memory is not known as freed */
static ucs_status_t
uct_rocm_ipc_rkey_find_region(uct_rocm_ipc_rkey_t *rkey,
                              const uct_rocm_ipc_import_t *import,
                              uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_region_get(import, &region);
    if (status != UCS_OK) {
        return status;
    }

    if (uct_rocm_ipc_region_is_freed(region)) {
        /* The contents may be anything by now. If there is new memory at that
         * address, the next attempt attaches it. */
        uct_rocm_ipc_region_unpin(region);
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
        return UCS_ERR_NO_RESOURCE;
    }

    status = uct_rocm_ipc_rkey_remember(rkey, region);
    if (status != UCS_OK) {
        uct_rocm_ipc_region_unpin(region);
        return status;
    }

    *region_p = region;
    return UCS_OK;
}

ucs_status_t
uct_rocm_ipc_rkey_pin_slow(uct_rocm_ipc_rkey_t *rkey, pid_t peer_pid,
                           int signal_import, uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region = __atomic_load_n(&rkey->region,
                                                    __ATOMIC_ACQUIRE);
    uct_rocm_ipc_import_t import;
    ucs_status_t status;

    if ((region != NULL) && uct_rocm_ipc_region_is_freed(region)) {
        ucs_diag("remote memory 0x%"PRIx64" length %"PRIu64" was freed by its"
                 " owner", rkey->key.address, rkey->key.length);
        return UCS_ERR_INVALID_ADDR;
    }

    uct_rocm_ipc_import_init(&import, rkey, peer_pid, signal_import);

    /* A region which turns out to be freed is out of the table then, so that
     * the second attempt attaches by this key, and knows */
    do {
        status = uct_rocm_ipc_rkey_find_region(rkey, &import, region_p);
    } while (status == UCS_ERR_NO_RESOURCE);

    return status;
}

ucs_status_t
uct_rocm_ipc_rkey_attach_once(uct_rocm_ipc_rkey_t *rkey, int signal_import,
                              uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    uct_rocm_ipc_import_t import;
    ucs_status_t status;

    uct_rocm_ipc_import_init(&import, rkey, 0, signal_import);
    status = uct_rocm_ipc_region_attach(&import, &region);
    if (status != UCS_OK) {
        return status;
    }

    /* Claimed from the beginning, it is detached when the operation unpins it.
     * Nobody watches it, so that its signal has served. */
    uct_ipc_region_claim(&region->super);
    uct_rocm_ipc_region_release_channel(&region->super);
    *region_p = region;
    return UCS_OK;
}

/* Copy the fields that the key has: an old peer's key may end after dev_num,
 * where it has put the number of a device, or -1 if it knew none */
static void
uct_rocm_ipc_key_read(uct_rocm_ipc_key_t *key, const void *buffer)
{
    size_t size = ucs_offsetof(uct_rocm_ipc_key_t, pid);
    uint32_t unknown_flags;

    memset(key, 0, sizeof(*key));
    memcpy(key, buffer, size);

    unknown_flags = key->dev_num & ~(UCT_ROCM_IPC_KEY_DEV_MASK |
                                     UCT_ROCM_IPC_KEY_FLAGS);
    if (unknown_flags || !(key->dev_num & UCT_ROCM_IPC_KEY_FLAG_PID)) {
        key->dev_num &= UCT_ROCM_IPC_KEY_DEV_MASK;
        return;
    }

    size = (key->dev_num & UCT_ROCM_IPC_KEY_FLAG_SIGNAL) ?
                   sizeof(*key) : ucs_offsetof(uct_rocm_ipc_key_t, signal);
    memcpy(key, buffer, size);
}

ucs_status_t
uct_rocm_ipc_rkey_create(const void *buffer, uct_rocm_ipc_rkey_t **rkey_p)
{
    uct_rocm_ipc_rkey_t *rkey;

    rkey = ucs_malloc(sizeof(*rkey), "rocm_ipc_rkey");
    if (rkey == NULL) {
        ucs_error("failed to allocate a ROCm IPC remote key");
        return UCS_ERR_NO_MEMORY;
    }

    rkey->region = NULL;
    rkey->held   = NULL;
    rkey->past   = NULL;
    uct_rocm_ipc_key_read(&rkey->key, buffer);

    /* With room for the alignment to the page table's unit */
    if ((rkey->key.length == 0) ||
        (rkey->key.address > UINT64_MAX - UCS_PGT_ADDR_ALIGN) ||
        (rkey->key.length >
         UINT64_MAX - UCS_PGT_ADDR_ALIGN - rkey->key.address)) {
        ucs_error("remote key of memory 0x%"PRIx64" length %"PRIu64" is not"
                  " valid", rkey->key.address, rkey->key.length);
        ucs_free(rkey);
        return UCS_ERR_INVALID_PARAM;
    }

    *rkey_p = rkey;
    return UCS_OK;
}

void uct_rocm_ipc_rkey_destroy(uct_rocm_ipc_rkey_t *rkey)
{
    uct_rocm_ipc_rkey_past_t *past;

    if (rkey->held != NULL) {
        if (!(rkey->key.dev_num & UCT_ROCM_IPC_KEY_FLAG_PID)) {
            /* Imported without knowing the peer, whose last endpoint would
             * otherwise be the occasion to detach it */
            uct_ipc_cache_claim(&uct_rocm_ipc_cache, &rkey->held->super);
        }
        uct_rocm_ipc_region_unpin(rkey->held);
    }

    if (rkey->region != NULL) {
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &rkey->region->super);
    }

    while ((past = rkey->past) != NULL) {
        rkey->past = past->next;
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &past->region->super);
        ucs_free(past);
    }

    ucs_free(rkey);
}

/* The region which a key has pinned for uct_rkey_ptr(); the first time it is
 * pinned here */
static ucs_status_t uct_rocm_ipc_rkey_hold(uct_rocm_ipc_rkey_t *rkey,
                                           uct_rocm_ipc_region_t **held_p)
{
    uct_rocm_ipc_region_t *held = __atomic_load_n(&rkey->held,
                                                  __ATOMIC_ACQUIRE);
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    if (held == NULL) {
        status = uct_rocm_ipc_rkey_pin(
                rkey, 0,
                __atomic_load_n(&uct_rocm_ipc_users.signal_import,
                                __ATOMIC_RELAXED),
                &region);
        if (status != UCS_OK) {
            return status;
        }

        if (__atomic_compare_exchange_n(&rkey->held, &held, region, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            held = region; /* Keeps the pin */
        } else {
            uct_rocm_ipc_region_unpin(region); /* Another thread was first */
        }
    }

    if (uct_rocm_ipc_region_is_freed(held)) {
        ucs_diag("remote memory 0x%"PRIx64" length %"PRIu64" was freed by its"
                 " owner", rkey->key.address, rkey->key.length);
        return UCS_ERR_INVALID_ADDR;
    }

    *held_p = held;
    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_rkey_map(uct_rocm_ipc_rkey_t *rkey,
                                   uint64_t remote_addr, void **addr_p)
{
    uint64_t offset = remote_addr - rkey->key.address;
    uct_rocm_ipc_region_t *held;
    ucs_status_t status;

    if (offset >= rkey->key.length) {
        ucs_error("remote address 0x%"PRIx64" is not in the memory 0x%"PRIx64
                  " length %"PRIu64" of the remote key", remote_addr,
                  rkey->key.address, rkey->key.length);
        return UCS_ERR_INVALID_ADDR;
    }

    status = uct_rocm_ipc_rkey_hold(rkey, &held);
    if (status != UCS_OK) {
        return status;
    }

    *addr_p = UCS_PTR_BYTE_OFFSET(held->super.mapped_addr, offset);
    return UCS_OK;
}

/* What a forked child has of the cache is its parent's, and so is the runtime
 * behind it */
static int uct_rocm_ipc_cache_is_mine(void)
{
    return uct_rocm_ipc_users.pid == getpid();
}

static void uct_rocm_ipc_cache_exit(void)
{
    if ((uct_rocm_ipc_users.open_count > 0) && uct_rocm_ipc_cache_is_mine()) {
        uct_ipc_cache_purge(&uct_rocm_ipc_cache);
    }
}

void uct_rocm_ipc_cache_open(int signal_import)
{
    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    if (uct_rocm_ipc_users.open_count++ == 0) {
        uct_rocm_ipc_users.pid = getpid();
    }

    /* For the same reason as in rocm_ipc_export.c not a destructor */
    if (!uct_rocm_ipc_users.at_exit) {
        uct_rocm_ipc_users.at_exit = (atexit(uct_rocm_ipc_cache_exit) == 0);
    }

    __atomic_store_n(&uct_rocm_ipc_users.signal_import, signal_import,
                     __ATOMIC_RELAXED);
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
}

void uct_rocm_ipc_cache_close(void)
{
    int is_last;

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    is_last = (--uct_rocm_ipc_users.open_count == 0);
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);

    if (is_last && uct_rocm_ipc_cache_is_mine()) {
        uct_ipc_cache_purge(&uct_rocm_ipc_cache);
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
        uct_ipc_cache_purge_unwatched(&uct_rocm_ipc_cache, pid);
    }
}
