#if !UCX_HAS_CUDA_SHARED_QUEUES
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "cuda_ipc_flush.h"

#include <uct/cuda/base/cuda_iface.h>
#include <ucs/debug/log.h>


/*
 * All streams of the interface share one queue, and what is in it completes
 * when its event is ready, wherever it stands. A marker is reached when its
 * stream has nothing before it in the queue. It counts as work of the stream,
 * so that a later flush puts a marker behind it, and a stream on which there
 * are only markers left still wakes up who waits for the event descriptor.
 *
 * While there are markers, poll_limit is 0. That sends progress here, also one
 * that is under way and has called the callback which flushes.
 */

ucs_status_t
uct_cuda_ipc_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_cuda_ipc_iface_t *iface    = ucs_derived_of(tl_ep->iface,
                                                    uct_cuda_ipc_iface_t);
    uct_base_ep_t UCS_V_UNUSED *ep = ucs_derived_of(tl_ep, uct_base_ep_t);
    unsigned num_streams           = 0;
    uct_cuda_ipc_event_desc_t *marker;
    ucs_queue_head_t markers;
    ucs_status_t status;
    unsigned i;

    if (ucs_queue_is_empty(&iface->outstanding_d2d_event_q)) {
        UCT_TL_EP_STAT_FLUSH(ep);
        return UCS_OK;
    }

    if (comp != NULL) {
        for (i = 0; i < iface->config.max_streams; ++i) {
            num_streams += (iface->stream_refcount[i] > 0);
        }

        status = uct_cuda_flush_start(&iface->flush, comp, num_streams,
                                      &markers);
        if (status != UCS_OK) {
            return status;
        }

        iface->poll_limit = 0;
        for (i = 0; !ucs_queue_is_empty(&markers); ++i) {
            if (iface->stream_refcount[i] > 0) {
                marker = ucs_queue_pull_elem_non_empty(
                        &markers, uct_cuda_ipc_event_desc_t, super.queue);
                marker->stream_id = i;
                ucs_queue_push(&iface->outstanding_d2d_event_q,
                               &marker->super.queue);
                ++iface->stream_refcount[i];
            }
        }
    }

    UCT_TL_EP_STAT_FLUSH_WAIT(ep);
    return UCS_INPROGRESS;
}

/* Whether the context of the copies is the current one */
static int uct_cuda_ipc_is_in_context(uct_cuda_ipc_iface_t *iface)
{
    CUcontext current;

    return (cuCtxGetCurrent(&current) == CUDA_SUCCESS) &&
           (current == iface->cuda_context);
}

/* Give back what a copy has held mapped */
static UCS_F_ALWAYS_INLINE void
uct_cuda_ipc_event_unmap(uct_cuda_ipc_iface_t *iface,
                         const uct_cuda_ipc_event_desc_t *desc)
{
    ucs_status_t status;

    status = uct_cuda_ipc_unmap_memhandle(desc->pid, desc->d_bptr,
                                          desc->mapped_addr,
                                          iface->config.enable_cache);
    if (ucs_unlikely(status != UCS_OK)) {
        ucs_error("failed to unmap %p: %s", desc->mapped_addr,
                  ucs_status_string(status));
    }
}

/* The same while another context is current: the cache looks for the device of
 * the current one. A mapping does not outlive its context, and a destroyed
 * context must not be used: of all calls that are older than CUDA 12, only the
 * one for the version says that it is gone. */
static UCS_F_NOINLINE void
uct_cuda_ipc_event_unmap_in_context(uct_cuda_ipc_iface_t *iface,
                                    const uct_cuda_ipc_event_desc_t *desc)
{
    CUcontext context;
    unsigned version;

    if ((cuCtxGetApiVersion(iface->cuda_context, &version) != CUDA_SUCCESS) ||
        (cuCtxPushCurrent(iface->cuda_context) != CUDA_SUCCESS)) {
        ucs_debug("%p was unmapped with cuda context %p", desc->mapped_addr,
                  iface->cuda_context);
        return;
    }

    uct_cuda_ipc_event_unmap(iface, desc);
    UCT_CUDADRV_FUNC_LOG_ERR(cuCtxPopCurrent(&context));
}

static UCS_F_ALWAYS_INLINE void
uct_cuda_ipc_event_dequeue(uct_cuda_ipc_iface_t *iface, ucs_queue_iter_t iter,
                           uct_cuda_ipc_event_desc_t *desc)
{
    ucs_queue_del_iter(&iface->outstanding_d2d_event_q, iter);
    --iface->stream_refcount[desc->stream_id];
    if (desc->super.comp != NULL) {
        uct_invoke_completion(desc->super.comp, UCS_OK);
    }
}

static UCS_F_ALWAYS_INLINE unsigned
uct_cuda_ipc_progress_with_markers(uct_cuda_ipc_iface_t *iface, int in_context)
{
    ucs_queue_head_t *queue   = &iface->outstanding_d2d_event_q;
    const unsigned max_copies = iface->flush.max_copies;
    uint64_t busy_streams     = 0;
    unsigned num_copies       = 0;
    unsigned num_markers      = 0;
    uct_cuda_ipc_event_desc_t *desc;
    ucs_queue_iter_t iter;
    CUresult result;

    ucs_queue_for_each_safe(desc, iter, queue, super.queue) {
        if (uct_cuda_event_is_marker(&desc->super)) {
            if (busy_streams & UCS_BIT(desc->stream_id)) {
                continue;
            }

            uct_cuda_ipc_event_dequeue(iface, iter, desc);
            ucs_mpool_put(desc);
            if (++num_markers == UCT_CUDA_FLUSH_MAX_MARKERS) {
                break;
            }
            continue;
        }

        if (num_copies == max_copies) {
            break;
        }

        result = cuEventQuery(desc->super.event);
        if (ucs_unlikely(result != CUDA_SUCCESS)) {
            if (result == CUDA_ERROR_NOT_READY) {
                busy_streams |= UCS_BIT(desc->stream_id);
                continue;
            }

            uct_cuda_event_failed(&desc->super, &desc->super.queue.next, queue,
                                  result);
        }

        uct_cuda_ipc_event_dequeue(iface, iter, desc);
        if (in_context) {
            uct_cuda_ipc_event_unmap(iface, desc);
        } else {
            uct_cuda_ipc_event_unmap_in_context(iface, desc);
        }

        ucs_mpool_put(desc);
        ++num_copies;
    }

    return num_copies + num_markers;
}

/* The context is gone, and nothing of it can be asked any more */
static UCS_F_NOINLINE unsigned
uct_cuda_ipc_iface_fail(uct_cuda_ipc_iface_t *iface)
{
    ucs_queue_head_t *queue = &iface->outstanding_d2d_event_q;
    unsigned count          = 0;
    uct_cuda_ipc_event_desc_t *desc;
    int is_marker;

    while (!ucs_queue_is_empty(queue)) {
        desc = ucs_queue_head_elem_non_empty(queue, uct_cuda_ipc_event_desc_t,
                                             super.queue);
        is_marker = uct_cuda_event_is_marker(&desc->super);
        if (!is_marker) {
            uct_cuda_event_failed(&desc->super, &desc->super.queue.next, queue,
                                  CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }

        uct_cuda_ipc_event_dequeue(iface, ucs_queue_iter_begin(queue), desc);
        ucs_mpool_put(desc);
        ++count;
    }

    return count;
}

unsigned uct_cuda_ipc_iface_progress_flush(uct_cuda_ipc_iface_t *iface)
{
    unsigned count;

    /* Asked once: a callback leaves the context as it was */
    if (uct_cuda_ctx_rsc_is_lost(&iface->flush.ctx_rsc)) {
        count = uct_cuda_ipc_iface_fail(iface);
    } else if (ucs_likely(uct_cuda_ipc_is_in_context(iface))) {
        count = uct_cuda_ipc_progress_with_markers(iface, 1);
    } else {
        count = uct_cuda_ipc_progress_with_markers(iface, 0);
    }

    if (iface->flush.num_flushes == 0) {
        iface->poll_limit = iface->config.max_poll;
    }

    return count;
}

void uct_cuda_ipc_iface_drop_events(uct_cuda_ipc_iface_t *iface)
{
    ucs_queue_head_t *queue = &iface->outstanding_d2d_event_q;
    uct_cuda_ipc_event_desc_t *desc;

    if (!ucs_queue_is_empty(queue)) {
        ucs_warn("cuda_ipc interface destroyed with %zu outstanding events",
                 ucs_queue_length(queue));
    }

    while (!ucs_queue_is_empty(queue)) {
        desc = ucs_queue_pull_elem_non_empty(queue, uct_cuda_ipc_event_desc_t,
                                             super.queue);
        --iface->stream_refcount[desc->stream_id];
        if (uct_cuda_event_is_marker(&desc->super)) {
            uct_cuda_marker_drop(&desc->super);
        } else {
            uct_cuda_ipc_event_unmap_in_context(iface, desc);
            ucs_mpool_put(desc);
        }
    }
}
#endif
