/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_FLUSH_CTX_H_
#define UCT_CUDA_FLUSH_CTX_H_

#include <ucs/datastruct/mpool.h>
#if !UCX_HAS_CUDA_SHARED_QUEUES

#include "cuda_event.h"
#endif


/**
 * @file cuda_flush_ctx.h
 * @brief What an interface of CUDA has in it to be flushed: see cuda_flush.h.
 */


typedef struct uct_cuda_flush_ctx {
    ucs_mpool_t        flush_mp;        /**< Of @ref uct_cuda_flush_t */
    ucs_mpool_t        marker_mp;       /**< Of the transport's descriptors */
    unsigned           num_flushes;     /**< Not completed yet */
    unsigned           num_markers;     /**< Of these */
    int                has_lost;        /**< Work whose context was destroyed */
    int                is_watched;      /**< There are flushes, or has_lost */
#if !UCX_HAS_CUDA_SHARED_QUEUES
    unsigned           max_markers;     /**< At a time; UINT_MAX: no limit */
    unsigned           max_copies;      /**< That a progress completes */
    CUcontext          *cuda_context_p; /**< The interface's */
    uct_cuda_ctx_rsc_t ctx_rsc;         /**< What was flushed last, or NULL */
#endif
} uct_cuda_flush_ctx_t;

#endif
