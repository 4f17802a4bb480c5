/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_RKEY_H_
#define UCT_ROCM_IPC_RKEY_H_

#include "rocm_ipc_cache.h"


/**
 * @file rocm_ipc_rkey.h
 * @brief Remote keys, and the fast path: from a key to a pinned region.
 */


/* A region which a remote key remembered before its present one */
typedef struct uct_rocm_ipc_rkey_past uct_rocm_ipc_rkey_past_t;


/** Unpacked remote key. Several threads may use one at the same time; whoever
 *  releases it is alone. A region that it remembers is not freed before it is
 *  released, so that a hit needs no lock. */
typedef struct uct_rocm_ipc_rkey {
    uct_rocm_ipc_region_t    *region; /**< Atomic: region used last, or NULL */
    uct_rocm_ipc_region_t    *held;   /**< Atomic: region pinned by
                                           uct_rkey_ptr(), or NULL */
    uct_rocm_ipc_rkey_past_t *past;   /**< Atomic: list of former regions */
    uct_rocm_ipc_key_t       key;     /**< Key, zeroed where it has no field */
} uct_rocm_ipc_rkey_t;


/**
 * Unpack a key.
 *
 * @param [in]  buffer  Key as packed by any version of this transport; may be
 *                      garbage, but is readable up to its end.
 * @param [out] rkey_p  New remote key.
 *
 * @return UCS_OK, UCS_ERR_INVALID_PARAM if the key names no range of memory,
 *         UCS_ERR_NO_MEMORY.
 */
ucs_status_t
uct_rocm_ipc_rkey_create(const void *buffer, uct_rocm_ipc_rkey_t **rkey_p);


/** Release a remote key, and the pointer if it has handed one out. */
void uct_rocm_ipc_rkey_destroy(uct_rocm_ipc_rkey_t *rkey);


/**
 * Hand out a local pointer to remote memory, valid until the key is released.
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the owner has freed the memory or the
 *         address is outside of the key, or an error of attaching.
 */
ucs_status_t uct_rocm_ipc_rkey_map(uct_rocm_ipc_rkey_t *rkey,
                                   uint64_t remote_addr, void **addr_p);


/**
 * Pin the region of a key, and attach the memory first if needed: what
 * @ref uct_rocm_ipc_rkey_pin does when the key remembers no live region.
 */
ucs_status_t uct_rocm_ipc_rkey_pin_slow(uct_rocm_ipc_rkey_t *rkey,
                                        pid_t peer_pid, int signal_import,
                                        uct_rocm_ipc_region_t **region_p);


/**
 * Attach the memory of a key for one operation, without the cache.
 * Parameters and result are as for @ref uct_rocm_ipc_rkey_pin.
 */
ucs_status_t uct_rocm_ipc_rkey_attach_once(uct_rocm_ipc_rkey_t *rkey,
                                           int signal_import,
                                           uct_rocm_ipc_region_t **region_p);


/**
 * Pin the region of a key. May be called from any thread.
 *
 * @param [in]  rkey           Remote key.
 * @param [in]  peer_pid       Process which sent the key, if the key does not
 *                             say so itself.
 * @param [in]  signal_import  Whether to watch the lifetime signal.
 * @param [out] region_p       Region, to be given back by
 *                             @ref uct_rocm_ipc_region_unpin.
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the owner has freed the memory or the
 *         key is garbage, UCS_ERR_NO_MEMORY.
 */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_rocm_ipc_rkey_pin(uct_rocm_ipc_rkey_t *rkey, pid_t peer_pid,
                      int signal_import, uct_rocm_ipc_region_t **region_p)
{
    /* Acquire: the region was written before the key has remembered it */
    uct_rocm_ipc_region_t *region = __atomic_load_n(&rkey->region,
                                                    __ATOMIC_ACQUIRE);

    if (ucs_likely((region != NULL) && uct_ipc_region_pin(&region->super))) {
        uct_ipc_cache_used(&uct_rocm_ipc_cache, &region->super);
        *region_p = region;
        return UCS_OK;
    }

    return uct_rocm_ipc_rkey_pin_slow(rkey, peer_pid, signal_import, region_p);
}

#endif
