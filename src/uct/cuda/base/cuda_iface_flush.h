#if UCX_HAS_CUDA_SHARED_QUEUES
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_IFACE_FLUSH_H_
#define UCT_CUDA_IFACE_FLUSH_H_

#include "cuda_flush.h"
#include "cuda_iface.h"


/**
 * @file cuda_iface_flush.h
 * @brief Flush of what the interfaces of CUDA share in UCX 1.19 and newer.
 */


#if !UCX_HAS_CUDA_BASE_EP_FLUSH
/** As of @ref uct_ep_flush, or UCS_ERR_NO_MEMORY. */
ucs_status_t
uct_cuda_base_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);


#endif
/** The end of an interface, before its contexts and streams are given up: drop
 *  all that is queued, without completing it, and warn of that. */
void uct_cuda_base_iface_flush_cleanup(uct_cuda_iface_t *iface);
#if !UCX_HAS_CUDA_CTX_RSC_VALID && !UCX_HAS_CUDA_CTX_RSC_CHECK


/** @return Whether the context of a pool of events was destroyed. */
static inline int uct_cuda_base_event_mp_is_lost(ucs_mpool_t *event_mp)
{
    return uct_cuda_ctx_rsc_is_lost(
            ucs_container_of(event_mp, uct_cuda_ctx_rsc_t, event_mp));
}
#endif

#endif
#endif
