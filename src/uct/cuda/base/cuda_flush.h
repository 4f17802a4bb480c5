/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_FLUSH_H_
#define UCT_CUDA_FLUSH_H_

#include "cuda_compat.h"
#include "cuda_flush_ctx.h"

#include <uct/base/uct_iface.h>
#include <ucs/datastruct/queue.h>


/**
 * @file cuda_flush.h
 * @brief Flush of an endpoint of a CUDA transport.
 *
 * The endpoints of an interface share its streams, so a flush of one of them
 * waits for all work of the interface. The rules:
 *  1. A flush with a completion puts one marker behind the work of every stream
 *     that has any. Nothing is issued on the stream: a marker has no event. It
 *     is reached when all that is before it on its stream has been seen to
 *     complete, and so completes after it, and in the order of the flushes.
 *  2. A flush completes with its last marker, once. The status is that of the
 *     work before its markers: what failed of it, failed the flush.
 *  3. All descriptors are taken before the first marker is queued: a flush that
 *     fails has changed nothing.
 *  4. Where a context was destroyed, its events must not be looked at any more.
 *     This is asked as long as a flush is outstanding, and from then on: all
 *     work in that context fails.
 *  5. Copies of an interface, its flushes and its progress are serialized by
 *     the caller, as UCT demands. A completion callback may copy and flush; it
 *     must not progress, and it leaves the current context as it was.
 */


/** How many markers a progress completes at most: more than there are, but for
 *  callbacks which flush again and again. */
#define UCT_CUDA_FLUSH_MAX_MARKERS 1024


/** One call of flush, from its own pool. */
typedef struct {
    uct_completion_t          super;  /**< Counts the markers that are not
                                           reached; keeps the first error */
    uct_completion_t          *comp;  /**< The user's */
    unsigned                  num_markers;
    struct uct_cuda_flush_ctx *ctx;
} uct_cuda_flush_t;


/**
 * Prepare an interface for flushes.
 *
 * @param [in] ctx         Part of the interface.
 * @param [in] marker_size Size of the transport's event descriptors, which
 *                         begin with a @ref uct_cuda_event_desc_t.
 *
 * @return UCS_OK, or the error of a pool, then nothing is left to clean up.
 */
ucs_status_t uct_cuda_flush_init(uct_cuda_flush_ctx_t *ctx, size_t marker_size);


/**
 * The end of an interface. Warns of flushes that have not completed; they never
 * will. What the queues held has been dropped: markers by @ref
 * uct_cuda_marker_drop.
 *
 * @param [in] ctx  Part of the interface.
 * @param [in] name The transport's, for the warning.
 */
void uct_cuda_flush_cleanup(uct_cuda_flush_ctx_t *ctx, const char *name);


/**
 * Make a flush and its markers. The caller queues each of these, at once.
 *
 * @param [in]  ctx         Part of the interface.
 * @param [in]  comp        Called once when the last marker is reached.
 * @param [in]  num_markers How many, at least one.
 * @param [out] markers     Filled with this many @ref uct_cuda_event_desc_t.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY, then nothing has changed.
 */
ucs_status_t uct_cuda_flush_start(uct_cuda_flush_ctx_t *ctx,
                                  uct_completion_t *comp, unsigned num_markers,
                                  ucs_queue_head_t *markers);


/** @return Whether a context has been destroyed; 0 if there never was one. */
int uct_cuda_ctx_rsc_is_lost(const uct_cuda_ctx_rsc_t *ctx_rsc);


/**
 * Flush an interface that has a queue for each stream.
 *
 * @param [in] ep           Endpoint, for its statistics.
 * @param [in] ctx          Part of the interface.
 * @param [in] active_queue Of @ref uct_cuda_queue_desc_t: all whose event queue
 *                          is not empty, and no other.
 * @param [in] comp         As of @ref uct_ep_flush.
 *
 * @return As of @ref uct_ep_flush, or UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_cuda_queues_flush(uct_base_ep_t *ep, uct_cuda_flush_ctx_t *ctx,
                                   ucs_queue_head_t *active_queue,
                                   uct_completion_t *comp);


/**
 * Complete what has been reached in the queues of an interface that has one for
 * each stream. Markers are completed as soon as they are reached. The queue that
 * uses up the number of copies is the last one next time.
 *
 * @param [in] ctx          Part of the interface.
 * @param [in] active_queue As of @ref uct_cuda_queues_flush.
 *
 * @return How much was completed, markers included.
 */
unsigned uct_cuda_queues_progress(uct_cuda_flush_ctx_t *ctx,
                                  ucs_queue_head_t *active_queue);


/** @return Whether the first of a queue can be completed. It may be empty. */
int uct_cuda_queue_is_reached(uct_cuda_flush_ctx_t *ctx,
                              ucs_queue_head_t *event_queue);


/**
 * Drop all that is queued, without completing it.
 *
 * @param [in] ctx          Part of the interface.
 * @param [in] active_queue As of @ref uct_cuda_queues_flush; empty afterwards.
 *
 * @return How many copies it was.
 */
size_t
uct_cuda_queues_drop(uct_cuda_flush_ctx_t *ctx, ucs_queue_head_t *active_queue);


/**
 * Say why a copy failed, and fail it, and the flushes which wait for it.
 *
 * @param [in] desc   The copy. It is still to be completed.
 * @param [in] behind What was queued behind it, up to the end of the queue, or
 *                    where the iterator is at the end, nothing.
 * @param [in] queue  The queue that it was in.
 * @param [in] result What the runtime said of its event.
 */
void uct_cuda_event_failed(uct_cuda_event_desc_t *desc, ucs_queue_iter_t behind,
                           ucs_queue_head_t *queue, CUresult result);


/**
 * Give back a marker that is not in a queue any more, without completing it.
 * The last one of a flush takes the flush with it.
 *
 * @param [in] marker From @ref uct_cuda_flush_start.
 */
void uct_cuda_marker_drop(uct_cuda_event_desc_t *marker);


#if !UCX_HAS_CUDA_SHARED_QUEUES
/** @return Whether work is outstanding in a context that was destroyed, as far
 *  as this is asked. */
static inline int uct_cuda_flush_is_lost(const uct_cuda_flush_ctx_t *ctx)
{
    return ctx->is_watched && uct_cuda_ctx_rsc_is_lost(&ctx->ctx_rsc);
}


#endif
/** @return Whether it is a marker, not a copy. */
static UCS_F_ALWAYS_INLINE int
uct_cuda_event_is_marker(const uct_cuda_event_desc_t *desc)
{
    return desc->event == NULL;
}


/** @return Whether something that is first on its stream can be completed. */
static UCS_F_ALWAYS_INLINE int
uct_cuda_event_is_reached(const uct_cuda_event_desc_t *desc)
{
    return uct_cuda_event_is_marker(desc) ||
           (cuEventQuery(desc->event) != CUDA_ERROR_NOT_READY);
}

#endif
