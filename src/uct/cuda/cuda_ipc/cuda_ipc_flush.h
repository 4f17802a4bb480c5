#if !UCX_HAS_CUDA_SHARED_QUEUES
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_IPC_FLUSH_H_
#define UCT_CUDA_IPC_FLUSH_H_

#include "cuda_ipc_iface.h"


/**
 * @file cuda_ipc_flush.h
 * @brief Flush of cuda_ipc in UCX 1.18 and older, where all streams of an
 *        interface share one queue.
 */


/** As of @ref uct_ep_flush, or UCS_ERR_NO_MEMORY. */
ucs_status_t
uct_cuda_ipc_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);


/**
 * Complete what has been reached: what is needed while there are markers, or
 * where a copy has failed.
 *
 * @return How much was completed, markers included.
 */
unsigned uct_cuda_ipc_iface_progress_flush(uct_cuda_ipc_iface_t *iface);


/** Drop all that is queued, without completing it. Warn if that is anything. */
void uct_cuda_ipc_iface_drop_events(uct_cuda_ipc_iface_t *iface);

#endif
#endif
