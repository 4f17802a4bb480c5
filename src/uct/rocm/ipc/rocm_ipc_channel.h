/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_CHANNEL_H_
#define UCT_ROCM_IPC_CHANNEL_H_

#include "rocm_ipc_signal.h"

#include <uct/base/ipc/ipc_region.h>


/**
 * @file rocm_ipc_channel.h
 * @brief The importer's end of a lifetime channel: a peer's lifetime signal,
 *        attached once however often the memory is mapped and unmapped.
 *
 * The rules:
 *  1. There is one channel for each signal, found by the handle in the key, and
 *     at most one handler is armed on it. HSA cannot disarm a handler, so that
 *     a new one for each mapping would pile up.
 *  2. A reference keeps the channel and the signal. The region holds one until
 *     it is claimed, and an armed handler holds one until it was called; thus
 *     no signal is destroyed while the runtime waits on it.
 *  3. When the handler is called, it claims the region that the channel was
 *     armed for last, and the channel is found no more.
 *  4. One lock protects all channels. It is never held while the runtime is
 *     called, nor while a region is claimed.
 */


typedef struct uct_rocm_ipc_channel uct_rocm_ipc_channel_t;


/**
 * Attach to the lifetime signal of a key, or find that this has been done.
 *
 * @param [in]  handle     Handle from the peer's key; may be garbage.
 * @param [in]  owner      Process whose death ends the channel, or NULL.
 * @param [out] channel_p  Channel, for @ref uct_rocm_ipc_channel_put.
 *
 * @return UCS_OK, or what @ref uct_rocm_ipc_signal_attach returns.
 */
ucs_status_t uct_rocm_ipc_channel_get(const hsa_amd_ipc_signal_t *handle,
                                      uct_ipc_owner_t *owner,
                                      uct_rocm_ipc_channel_t **channel_p);


/** Add a reference to the channel in *slot_p, which another thread may be about
 *  to release. @return Channel, or NULL if it was released. */
uct_rocm_ipc_channel_t *
uct_rocm_ipc_channel_ref(uct_rocm_ipc_channel_t **slot_p);


/** Drop a reference, and let go of the signal with the last one. */
void uct_rocm_ipc_channel_put(uct_rocm_ipc_channel_t *channel);


/** Set *slot_p to NULL, and drop the reference that it held if it was not. */
void uct_rocm_ipc_channel_release(uct_rocm_ipc_channel_t **slot_p);


/**
 * Have @ref uct_rocm_ipc_region_freed called for the region when the owner
 * frees the memory, if the runtime is willing. The caller holds a reference of
 * both.
 *
 * @return Nonzero if a handler is armed.
 */
int uct_rocm_ipc_channel_arm(uct_rocm_ipc_channel_t *channel,
                             uct_ipc_region_t *region);


/** @return Nonzero while the memory is valid. */
int uct_rocm_ipc_channel_is_alive(const uct_rocm_ipc_channel_t *channel);


/** Tell everybody that the memory of dead owners is gone, in their place: so
 *  the handlers are called, also those whose region went before. */
void uct_rocm_ipc_channels_owners_died(void);

#endif
