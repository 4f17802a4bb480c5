#if !UCX_HAS_CUDA_SHARED_QUEUES
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_EVENT_H_
#define UCT_CUDA_EVENT_H_

#include <ucs/datastruct/queue_types.h>
#include <uct/api/uct.h>

#include <cuda.h>


/**
 * @file cuda_event.h
 * @brief What the queues of the CUDA transports consist of.
 *
 * The transports of UCX 1.18 and older define these structures for themselves.
 * Here they are those of UCX 1.19 and newer, so that the same code serves both.
 */


/** A copy, or a marker: something in the queue of a stream. */
typedef struct {
    ucs_queue_elem_t queue;
    CUevent          event; /**< Recorded behind the copy; NULL: a marker */
    uct_completion_t *comp; /**< Called when the event is reached, or NULL */
} uct_cuda_event_desc_t;


/** A stream, with what has been issued on it and not been seen to complete. */
typedef struct {
    ucs_queue_elem_t queue;       /**< In the interface's active queue */
    CUstream         stream;
    ucs_queue_head_t event_queue; /**< Of @ref uct_cuda_event_desc_t, in order
                                       of issue */
} uct_cuda_queue_desc_t;


/** A context. Handles are used again, so that it is known by its id, too. */
typedef struct {
    CUcontext          ctx;
    unsigned long long ctx_id; /**< 0 before CUDA 12 */
} uct_cuda_ctx_rsc_t;

#endif
#endif
