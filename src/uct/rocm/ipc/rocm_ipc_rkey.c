/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_rkey.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>

#include <inttypes.h>
#include <string.h>


struct uct_rocm_ipc_rkey_past {
    uct_rocm_ipc_rkey_past_t *next;
    uct_rocm_ipc_region_t    *region;
};


/* Copy the fields that the key has: an old peer's key may end after dev_num,
 * where it has put the number of a device, or -1 if it knew none */
static void uct_rocm_ipc_key_read(uct_rocm_ipc_key_t *key, const void *buffer)
{
    size_t size = ucs_offsetof(uct_rocm_ipc_key_t, pid);
    uint32_t unknown_flags;

    memset(key, 0, sizeof(*key));
    memcpy(key, buffer, size);

    unknown_flags = key->dev_num &
                    ~(UCT_ROCM_IPC_KEY_DEV_MASK | UCT_ROCM_IPC_KEY_FLAGS);
    if (unknown_flags || !(key->dev_num & UCT_ROCM_IPC_KEY_FLAG_PID)) {
        key->dev_num &= UCT_ROCM_IPC_KEY_DEV_MASK;
        return;
    }

    size = (key->dev_num & UCT_ROCM_IPC_KEY_FLAG_SIGNAL) ?
                   sizeof(*key) :
                   ucs_offsetof(uct_rocm_ipc_key_t, signal);
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
        ucs_error("remote key of memory 0x%" PRIx64 " length %" PRIu64 " is not"
                  " valid",
                  rkey->key.address, rkey->key.length);
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
        uct_rocm_ipc_region_let_go(rkey->held);
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

/* Takes over a reference of the region */
static ucs_status_t uct_rocm_ipc_rkey_remember(uct_rocm_ipc_rkey_t *rkey,
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

static void uct_rocm_ipc_rkey_space_id(const uct_rocm_ipc_rkey_t *rkey,
                                       pid_t peer_pid,
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

static void uct_rocm_ipc_import_init(uct_rocm_ipc_import_t *import,
                                     const uct_rocm_ipc_rkey_t *rkey,
                                     pid_t peer_pid, int signal_import,
                                     int is_cached)
{
    import->key         = &rkey->key;
    import->is_cached   = is_cached;
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

    status = uct_rocm_ipc_cache_get(import, &region);
    if (status != UCS_OK) {
        return status;
    }

    if (uct_ipc_region_is_dead(&region->super)) {
        /* Freed, or claimed for another reason, in which case nobody knows any
         * more whether it was freed. If there is new memory at that address,
         * the next attempt attaches it. */
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

ucs_status_t uct_rocm_ipc_rkey_pin_slow(uct_rocm_ipc_rkey_t *rkey,
                                        pid_t peer_pid, int signal_import,
                                        uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region = __atomic_load_n(&rkey->region,
                                                    __ATOMIC_ACQUIRE);
    uct_rocm_ipc_import_t import;
    ucs_status_t status;

    if ((region != NULL) && uct_rocm_ipc_region_is_freed(region)) {
        uct_rocm_ipc_log_freed(&rkey->key);
        return UCS_ERR_INVALID_ADDR;
    }

    uct_rocm_ipc_import_init(&import, rkey, peer_pid, signal_import, 1);

    /* A dead region is not found again, so that the second attempt attaches by
     * this key, and knows. Each further one needs a further claim meanwhile. */
    do {
        status = uct_rocm_ipc_rkey_find_region(rkey, &import, region_p);
    } while (status == UCS_ERR_NO_RESOURCE);

    return status;
}

ucs_status_t uct_rocm_ipc_rkey_attach_once(uct_rocm_ipc_rkey_t *rkey,
                                           int signal_import,
                                           uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    uct_rocm_ipc_import_t import;
    ucs_status_t status;

    uct_rocm_ipc_import_init(&import, rkey, 0, signal_import, 0);
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
        status = uct_rocm_ipc_rkey_pin(rkey, 0,
                                       uct_rocm_ipc_cache_signal_import(),
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
        uct_rocm_ipc_log_freed(&rkey->key);
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
        ucs_error("remote address 0x%" PRIx64 " is not in the memory 0x%" PRIx64
                  " length %" PRIu64 " of the remote key",
                  remote_addr, rkey->key.address, rkey->key.length);
        return UCS_ERR_INVALID_ADDR;
    }

    status = uct_rocm_ipc_rkey_hold(rkey, &held);
    if (status != UCS_OK) {
        return status;
    }

    *addr_p = UCS_PTR_BYTE_OFFSET(held->super.mapped_addr, offset);
    return UCS_OK;
}
