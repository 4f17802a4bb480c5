/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_FLUSH_H_
#define UCT_CUDA_FLUSH_H_

#include "cuda_event.h"

#include <uct/base/uct_iface.h>
#include <ucs/datastruct/mpool.h>
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
 *  4. Where the context was destroyed, its events must not be looked at any more.
 *     This is asked as long as a flush is outstanding: all work fails then.
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
    struct uct_cuda_flush_ctx *ctx;
} uct_cuda_flush_t;


/** What an interface needs to be flushed. */
typedef struct uct_cuda_flush_ctx {
    ucs_mpool_t        flush_mp;     /**< Of @ref uct_cuda_flush_t */
    ucs_mpool_t        marker_mp;    /**< Of the transport's descriptors */
    unsigned           num_flushes;  /**< Not completed yet */
    unsigned           max_copies;   /**< That a progress completes, not 0 */
    CUcontext          cuda_context; /**< Of what was flushed last, or NULL */
    unsigned long long context_id;   /**< Handles of contexts are used again */
} uct_cuda_flush_ctx_t;


/**
 * Prepare an interface for flushes.
 *
 * @param [in] ctx         Part of the interface.
 * @param [in] marker_size Size of the transport's event descriptors, which
 *                         begin with a @ref uct_cuda_event_desc_t.
 * @param [in] max_markers How many markers there may be at a time, at least
 *                         128; UINT_MAX is no limit.
 * @param [in] max_copies  How many copies a progress completes at most; 0 is
 *                         taken for 1.
 *
 * @return UCS_OK, or the error of a pool, then nothing is left to clean up.
 */
ucs_status_t uct_cuda_flush_init(uct_cuda_flush_ctx_t *ctx, size_t marker_size,
                                 unsigned max_markers, unsigned max_copies);


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
 * @param [in]  ctx          Part of the interface.
 * @param [in]  cuda_context Of the outstanding work.
 * @param [in]  comp         Called once when the last marker is reached.
 * @param [in]  num_markers  How many, at least one.
 * @param [out] markers      Filled with this many @ref uct_cuda_event_desc_t.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY, then nothing has changed.
 */
ucs_status_t
uct_cuda_flush_start(uct_cuda_flush_ctx_t *ctx, CUcontext cuda_context,
                     uct_completion_t *comp, unsigned num_markers,
                     ucs_queue_head_t *markers);


/**
 * @param [in] ctx Part of the interface.
 *
 * @return Whether the context of what was flushed last has been destroyed.
 *         0 if nothing ever was.
 */
int uct_cuda_flush_context_is_gone(const uct_cuda_flush_ctx_t *ctx);


/**
 * Flush an interface that has a queue for each stream.
 *
 * @param [in] ep           Endpoint, for its statistics.
 * @param [in] ctx          Part of the interface.
 * @param [in] cuda_context Of the outstanding work.
 * @param [in] active_queue Of @ref uct_cuda_queue_desc_t: all whose event queue
 *                          is not empty, and no other.
 * @param [in] comp         As of @ref uct_ep_flush.
 *
 * @return As of @ref uct_ep_flush, or UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_cuda_queues_flush(uct_base_ep_t *ep, uct_cuda_flush_ctx_t *ctx,
                                   CUcontext cuda_context,
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
unsigned uct_cuda_queues_progress(const uct_cuda_flush_ctx_t *ctx,
                                  ucs_queue_head_t *active_queue);


/**
 * Drop all that is queued, without completing it.
 *
 * @param [in] active_queue As of @ref uct_cuda_queues_flush; empty afterwards.
 */
void uct_cuda_queues_drop(ucs_queue_head_t *active_queue);


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
