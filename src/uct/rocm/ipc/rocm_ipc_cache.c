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

#include <pthread.h>
#include <string.h>
#include <unistd.h>


struct uct_rocm_ipc_rkey_past {
    uct_rocm_ipc_rkey_past_t *next;
    uct_rocm_ipc_region_t    *region;
};


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
    int                         signal_import; /* For uct_rkey_ptr() */
    khash_t(uct_rocm_ipc_peers) peers;
} uct_rocm_ipc_users = {
    .lock          = PTHREAD_MUTEX_INITIALIZER,
    .signal_import = 1,
    .peers         = KHASH_STATIC_INITIALIZER
};


static int uct_rocm_ipc_region_match(const uct_ipc_region_t *ipc_region,
                                     const void *arg)
{
    const uct_rocm_ipc_region_t *region =
            ucs_derived_of(ipc_region, uct_rocm_ipc_region_t);
    const uct_rocm_ipc_key_t *key       = arg;

    /* The handle of new memory at an old address differs. The signal is
     * compared as well, should a runtime ever give the same handle again. */
    return !memcmp(&region->handle, &key->ipc, sizeof(key->ipc)) &&
           !memcmp(&region->signal_handle, &key->signal, sizeof(key->signal));
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

static void uct_rocm_ipc_region_release_channel(uct_ipc_region_t *ipc_region)
{
    uct_rocm_ipc_region_t *region = ucs_derived_of(ipc_region,
                                                   uct_rocm_ipc_region_t);

    if (region->has_signal) {
        uct_rocm_ipc_signal_destroy(region->signal);
    }
}

static void uct_rocm_ipc_region_free(uct_ipc_region_t *ipc_region)
{
    ucs_free(ucs_derived_of(ipc_region, uct_rocm_ipc_region_t));
}

/* The handler and the thread that arms it both read the signal, in any order;
 * the last one to leave destroys it */
static void uct_rocm_ipc_region_leave_signal(uct_rocm_ipc_region_t *region)
{
    if (__atomic_sub_fetch(&region->signal_users, 1, __ATOMIC_ACQ_REL) == 0) {
        uct_rocm_ipc_signal_destroy(region->signal);
    }
}

static void uct_rocm_ipc_region_claim_freed(uct_rocm_ipc_region_t *region)
{
    /* Published by the claim */
    __atomic_store_n(&region->super.owner_freed, 1, __ATOMIC_RELAXED);
    uct_ipc_cache_claim(&uct_rocm_ipc_cache, &region->super);
}

/* Called once, from the runtime's thread: the owner frees the memory */
static bool
uct_rocm_ipc_region_freed_handler(hsa_signal_value_t value, void *arg)
{
    uct_rocm_ipc_region_t *region = arg;

    uct_rocm_ipc_region_claim_freed(region);
    uct_rocm_ipc_region_leave_signal(region);
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

    region->signal_users = 2;
    uct_ipc_region_ref(&region->super);
    status = uct_rocm_ipc_signal_watch(region->signal,
                                       uct_rocm_ipc_region_freed_handler,
                                       region);
    if (status != UCS_OK) {
        if (uct_ipc_region_unwatch(&region->super)) {
            uct_rocm_ipc_signal_destroy(region->signal);
        }
        uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
        return;
    }

    /* Closed race: the owner has freed the memory after the signal was read
     * and before the handler was armed, and the runtime has not noticed */
    if (!uct_rocm_ipc_signal_is_alive(region->signal)) {
        uct_rocm_ipc_region_claim_freed(region);
    }

    uct_rocm_ipc_region_leave_signal(region);
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
uct_rocm_ipc_region_attach(const uct_rocm_ipc_key_t *key, int signal_import,
                           uct_rocm_ipc_region_t **region_p)
{
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
    region->has_signal    = signal_import &&
                            (key->dev_num & UCT_ROCM_IPC_KEY_FLAG_SIGNAL);
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
uct_rocm_ipc_region_import(const uct_rocm_ipc_key_t *key,
                           const uct_ipc_space_id_t *space_id,
                           int signal_import, uct_ipc_region_t **found_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_region_attach(key, signal_import, &region);
    if (status != UCS_OK) {
        return status;
    }

    uct_ipc_region_ref(&region->super); /* For the caller */
    uct_ipc_region_ref(&region->super); /* While the handler is being armed */
    status = uct_ipc_cache_insert(&uct_rocm_ipc_cache, space_id, &region->super,
                                  key, found_p);
    if ((status != UCS_OK) || (*found_p != &region->super)) {
        /* Nobody else has seen the region */
        uct_rocm_ipc_region_detach(&region->super);
        uct_rocm_ipc_region_release_channel(&region->super);
        uct_rocm_ipc_region_free(&region->super);
        return status;
    }

    ucs_debug("attached remote memory 0x%"PRIx64" length %"PRIu64" at %p",
              key->address, key->length, region->super.mapped_addr);
    uct_rocm_ipc_region_arm(region);
    uct_ipc_cache_put(&uct_rocm_ipc_cache, &region->super);
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

    /* The former region is dead, but another thread may be just about to pin
     * it through this key, so it is kept with the key */
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

ucs_status_t
uct_rocm_ipc_rkey_pin_slow(uct_rocm_ipc_rkey_t *rkey, pid_t peer_pid,
                           int signal_import, uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region = __atomic_load_n(&rkey->region,
                                                    __ATOMIC_ACQUIRE);
    uct_ipc_space_id_t space_id;
    uct_ipc_region_t *found;
    ucs_status_t status;

    if ((region != NULL) && uct_rocm_ipc_region_is_freed(region)) {
        goto err_freed;
    }

    uct_rocm_ipc_rkey_space_id(rkey, peer_pid, &space_id);
    found = uct_ipc_cache_find(&uct_rocm_ipc_cache, &space_id,
                               rkey->key.address, &rkey->key);
    if (found == NULL) {
        status = uct_rocm_ipc_region_import(&rkey->key, &space_id,
                                            signal_import, &found);
        if (status != UCS_OK) {
            return status;
        }
    }

    region = ucs_derived_of(found, uct_rocm_ipc_region_t);
    status = uct_rocm_ipc_rkey_remember(rkey, region);
    if (status != UCS_OK) {
        uct_rocm_ipc_region_unpin(region);
        return status;
    }

    /* Freed while it was attached: the contents may be anything by now */
    if (uct_rocm_ipc_region_is_freed(region)) {
        uct_rocm_ipc_region_unpin(region);
        goto err_freed;
    }

    *region_p = region;
    return UCS_OK;

err_freed:
    ucs_diag("remote memory 0x%"PRIx64" length %"PRIu64" was freed by its"
             " owner", rkey->key.address, rkey->key.length);
    return UCS_ERR_INVALID_ADDR;
}

ucs_status_t
uct_rocm_ipc_rkey_attach_once(uct_rocm_ipc_rkey_t *rkey, int signal_import,
                              uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_region_attach(&rkey->key, signal_import, &region);
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

/* Copy the fields that the key has: an old peer's key may end after dev_num */
static void
uct_rocm_ipc_key_read(uct_rocm_ipc_key_t *key, const void *buffer)
{
    size_t size = ucs_offsetof(uct_rocm_ipc_key_t, pid);

    memset(key, 0, sizeof(*key));
    memcpy(key, buffer, size);
    if (key->dev_num & UCT_ROCM_IPC_KEY_FLAG_PID) {
        size = ucs_offsetof(uct_rocm_ipc_key_t, signal);
        if (key->dev_num & UCT_ROCM_IPC_KEY_FLAG_SIGNAL) {
            size = sizeof(*key);
        }
        memcpy(key, buffer, size);
    }
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

static ucs_status_t uct_rocm_ipc_rkey_hold(uct_rocm_ipc_rkey_t *rkey,
                                           uct_rocm_ipc_region_t **held_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    *held_p = __atomic_load_n(&rkey->held, __ATOMIC_ACQUIRE);
    if (*held_p != NULL) {
        return uct_rocm_ipc_region_is_freed(*held_p) ? UCS_ERR_INVALID_ADDR :
                                                       UCS_OK;
    }

    status = uct_rocm_ipc_rkey_pin(rkey, 0, uct_rocm_ipc_users.signal_import,
                                   &region);
    if (status != UCS_OK) {
        return status;
    }

    if (__atomic_compare_exchange_n(&rkey->held, held_p, region, 0,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        *held_p = region; /* Keeps the pin */
    } else {
        uct_rocm_ipc_region_unpin(region); /* Another thread was first */
    }

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

void uct_rocm_ipc_cache_open(int signal_import)
{
    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    ++uct_rocm_ipc_users.open_count;
    uct_rocm_ipc_users.pid           = getpid();
    uct_rocm_ipc_users.signal_import = signal_import;
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
}

void uct_rocm_ipc_cache_close(void)
{
    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    if (--uct_rocm_ipc_users.open_count == 0) {
        uct_ipc_cache_purge(&uct_rocm_ipc_cache, NULL, NULL);
    }
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
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

static int uct_rocm_ipc_is_unwatched(const uct_ipc_space_id_t *space_id,
                                     const uct_ipc_region_t *ipc_region,
                                     const void *arg)
{
    const uct_rocm_ipc_region_t *region =
            ucs_derived_of(ipc_region, uct_rocm_ipc_region_t);

    return (space_id->pid == *(const pid_t*)arg) && !region->has_signal;
}

void uct_rocm_ipc_cache_peer_close(pid_t pid)
{
    khiter_t iter;

    pthread_mutex_lock(&uct_rocm_ipc_users.lock);
    iter = kh_get(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers, pid);
    if (--kh_val(&uct_rocm_ipc_users.peers, iter) == 0) {
        kh_del(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers, iter);
        uct_ipc_cache_purge(&uct_rocm_ipc_cache, uct_rocm_ipc_is_unwatched,
                            &pid);
    }
    pthread_mutex_unlock(&uct_rocm_ipc_users.lock);
}

/* Not in a child that has forked: the mappings are the parent's */
UCS_STATIC_CLEANUP {
    if ((uct_rocm_ipc_users.open_count > 0) &&
        (uct_rocm_ipc_users.pid == getpid())) {
        uct_ipc_cache_purge(&uct_rocm_ipc_cache, NULL, NULL);
    }

    kh_destroy_inplace(uct_rocm_ipc_peers, &uct_rocm_ipc_users.peers);
}
