/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_REGION_H_
#define UCT_ROCM_IPC_REGION_H_

#include "rocm_ipc_channel.h"
#include "rocm_ipc_md.h"

#include <uct/base/ipc/ipc_cache.h>
#include <uct/base/ipc/ipc_region.h>


/**
 * @file rocm_ipc_region.h
 * @brief One mapping of a peer's allocation: how it is attached and detached,
 *        and how it is noticed that the memory is gone.
 */


/** Region of this transport. */
typedef struct uct_rocm_ipc_region {
    uct_ipc_region_t       super;
    uint64_t               address;       /**< Of the key it was attached by */
    uint64_t               length;
    hsa_amd_ipc_memory_t   handle;
    hsa_amd_ipc_signal_t   signal_handle; /**< Zeroed if there is none */
    int                    with_signal;   /**< Was attached with its signal */
    uct_rocm_ipc_channel_t *channel;      /**< Lifetime channel, NULL after it
                                               was released; under the lock of
                                               the channels */
    hsa_agent_t            agent;         /**< Agent which copies use, 0 if it
                                               is not visible here */
    pid_t                  owner_pid;     /**< 0 if the key did not say */
} uct_rocm_ipc_region_t;


/** What is to be imported. */
typedef struct uct_rocm_ipc_import {
    const uct_rocm_ipc_key_t *key;
    int                      with_signal; /**< Attach the lifetime signal */
    int                      is_cached;   /**< Goes to the cache */
    uct_ipc_space_id_t       space_id;    /**< Place in the cache */
} uct_rocm_ipc_import_t;


/**
 * Attach the memory of a key. The lifetime signal comes first: memory that is
 * gone must not be attached, since a runtime may wait for it for ever. No lock
 * may be held.
 *
 * @param [in]  import    What to import.
 * @param [out] region_p  New region, pinned for the caller and in no table.
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the memory was freed or the key is
 *         garbage, UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_rocm_ipc_region_attach(const uct_rocm_ipc_import_t *import,
                                        uct_rocm_ipc_region_t **region_p);


/** Undo @ref uct_rocm_ipc_region_attach for a region which nobody else has
 *  seen. */
void uct_rocm_ipc_region_discard(uct_rocm_ipc_region_t *region);


/** Drop a reference. */
void uct_rocm_ipc_region_put(uct_ipc_region_t *region);


/** Claim the region, since the owner has freed the memory. */
void uct_rocm_ipc_region_freed(uct_ipc_region_t *region);


/** Claim the region if its signal says that the memory was freed. The caller
 *  holds a reference. */
void uct_rocm_ipc_region_check(uct_ipc_region_t *region);


/** @return The channel of the region with a reference for the caller, or NULL
 *          if the region has none, or has let go of it. */
uct_rocm_ipc_channel_t *
uct_rocm_ipc_region_get_channel(uct_rocm_ipc_region_t *region);


/** Tell the user that the memory of a key is gone. */
void uct_rocm_ipc_log_freed(const uct_rocm_ipc_key_t *key);


/** @return Nonzero if the owner is known to have freed the memory. */
static UCS_F_ALWAYS_INLINE int
uct_rocm_ipc_region_is_freed(const uct_rocm_ipc_region_t *region)
{
    return __atomic_load_n(&region->super.owner_freed, __ATOMIC_RELAXED);
}


/* Operations of the cache, see uct_ipc_cache_ops_t */
int uct_rocm_ipc_region_match(const uct_ipc_region_t *region, const void *arg);
void uct_rocm_ipc_region_detach(uct_ipc_region_t *region);
void uct_rocm_ipc_region_release_channel(uct_ipc_region_t *region);
void uct_rocm_ipc_region_free(uct_ipc_region_t *region);

/* Operations of the watcher, see uct_ipc_watcher_ops_t */
void uct_rocm_ipc_region_still_pinned(uct_ipc_region_t *region);

#endif
