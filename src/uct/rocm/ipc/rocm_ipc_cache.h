/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_CACHE_H_
#define UCT_ROCM_IPC_CACHE_H_

#include "rocm_ipc_md.h"
#include "rocm_ipc_region.h"

#include <uct/base/ipc/ipc_cache.h>
#include <uct/base/ipc/ipc_watcher.h>


/**
 * @file rocm_ipc_cache.h
 * @brief What this process has imported, and who uses it.
 */


/** All imported regions of this process */
extern uct_ipc_cache_t uct_rocm_ipc_cache;


/** The thread which watches them and their owners */
extern uct_ipc_watcher_t uct_rocm_ipc_watcher;


/**
 * Count a memory domain as a user of the cache.
 *
 * @param [in] config  Its configuration, which from now on holds for the bounds
 *                     of the cache, and for uct_rkey_ptr(), which knows no
 *                     memory domain.
 */
void uct_rocm_ipc_cache_open(const uct_rocm_ipc_md_config_t *config);


/** With the last user: detach all that is not pinned. */
void uct_rocm_ipc_cache_close(void);


/** Count an endpoint to a peer. @return UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t uct_rocm_ipc_cache_peer_open(pid_t pid);


/** With the last endpoint to a peer: detach those mappings of its memory which
 *  no handler watches, since nobody would tell when they are stale. */
void uct_rocm_ipc_cache_peer_close(pid_t pid);


/** @return Whether uct_rkey_ptr() watches lifetime signals. */
int uct_rocm_ipc_cache_signal_import(void);


/**
 * Find the region of a key, or attach the memory and insert it. No lock may be
 * held.
 *
 * @param [in]  import    What to import.
 * @param [out] region_p  Region, pinned and with a reference for the caller. It
 *                        may turn out to be dead by now, and is not what the
 *                        key means then.
 *
 * @return UCS_OK, or what @ref uct_rocm_ipc_region_attach returns.
 */
ucs_status_t uct_rocm_ipc_cache_get(const uct_rocm_ipc_import_t *import,
                                    uct_rocm_ipc_region_t **region_p);


/** Give back a region that was pinned for as long as the user holds on to its
 *  memory, without an endpoint. */
void uct_rocm_ipc_region_let_go(uct_rocm_ipc_region_t *region);


/** Give back a pinned region, from any thread. */
static UCS_F_ALWAYS_INLINE void
uct_rocm_ipc_region_unpin(uct_rocm_ipc_region_t *region)
{
    uct_ipc_cache_unpin(&uct_rocm_ipc_cache, &region->super);
}

#endif
