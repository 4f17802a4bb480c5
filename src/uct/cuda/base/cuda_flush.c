/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "cuda_flush.h"

#include <ucs/arch/cpu.h>
#include <ucs/debug/log.h>
#include <ucs/sys/math.h>


/* Few flushes are under way at a time, each with a few markers */
#define UCT_CUDA_FLUSH_MP_CHUNK  32
#define UCT_CUDA_MARKER_MP_CHUNK 128


/* The last marker was reached */
static void uct_cuda_flush_done(uct_completion_t *self)
{
    uct_cuda_flush_t *flush = ucs_container_of(self, uct_cuda_flush_t, super);
    uct_completion_t *comp  = flush->comp;
    ucs_status_t status     = self->status;

    /* The user may flush again from the callback: be done with this one */
    if (--flush->ctx->num_flushes == 0) {
        flush->ctx->is_watched = flush->ctx->has_lost;
    }

    flush->ctx->num_markers -= flush->num_markers;
    ucs_mpool_put(flush);
    uct_invoke_completion(comp, status);
}

static void uct_cuda_flush_mp_obj_init(ucs_mpool_t *mp, void *obj, void *chunk)
{
    uct_cuda_flush_t *flush = obj;

    flush->super.func = uct_cuda_flush_done;
    flush->ctx        = ucs_container_of(mp, uct_cuda_flush_ctx_t, flush_mp);
}

static void uct_cuda_marker_mp_obj_init(ucs_mpool_t *mp, void *obj, void *chunk)
{
    uct_cuda_event_desc_t *marker = obj;

    marker->event = NULL;
}

static ucs_mpool_ops_t uct_cuda_flush_mp_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = uct_cuda_flush_mp_obj_init,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};

static ucs_mpool_ops_t uct_cuda_marker_mp_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = uct_cuda_marker_mp_obj_init,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};

ucs_status_t uct_cuda_flush_init(uct_cuda_flush_ctx_t *ctx, size_t marker_size)
{
    ucs_status_t status;

    ctx->num_flushes = 0;
    ctx->num_markers = 0;
    ctx->has_lost    = 0;
    ctx->is_watched  = 0;

    status = uct_cuda_mpool_init(&ctx->flush_mp, sizeof(uct_cuda_flush_t),
                                 UCT_CUDA_FLUSH_MP_CHUNK, UINT_MAX,
                                 &uct_cuda_flush_mp_ops, "cuda flushes");
    if (status != UCS_OK) {
        return status;
    }

    status = uct_cuda_mpool_init(&ctx->marker_mp, marker_size,
                                 UCT_CUDA_MARKER_MP_CHUNK, UINT_MAX,
                                 &uct_cuda_marker_mp_ops, "cuda flush markers");
    if (status != UCS_OK) {
        ucs_mpool_cleanup(&ctx->flush_mp, 1);
    }

    return status;
}

void uct_cuda_flush_cleanup(uct_cuda_flush_ctx_t *ctx, const char *name)
{
    if (ctx->num_flushes > 0) {
        ucs_warn("%s interface destroyed with %u outstanding flushes: their "
                 "completions will not be called",
                 name, ctx->num_flushes);
    }

    ucs_mpool_cleanup(&ctx->marker_mp, 1);
    ucs_mpool_cleanup(&ctx->flush_mp, 1);
}

int uct_cuda_ctx_rsc_is_lost(const uct_cuda_ctx_rsc_t *ctx_rsc)
{
#if CUDA_VERSION >= 12000
    unsigned long long ctx_id;
#else
    unsigned version;
#endif

    if (ctx_rsc->ctx == NULL) {
        return 0;
    }

    /* Before CUDA 12 all that can be told is that the handle is not that of a
     * context */
#if CUDA_VERSION >= 12000
    return (cuCtxGetId(ctx_rsc->ctx, &ctx_id) != CUDA_SUCCESS) ||
           (ctx_id != ctx_rsc->ctx_id);
#else
    return cuCtxGetApiVersion(ctx_rsc->ctx, &version) != CUDA_SUCCESS;
#endif
}

/* Whether the context of a copy has been destroyed. This is asked where it may
 * matter: a question to the driver costs as much as one for an event. Contexts
 * do not change while an interface is looked through, so @a *asked_p keeps what
 * was asked last, and @a *is_lost_p the answer. */
static UCS_F_ALWAYS_INLINE int
uct_cuda_flush_copy_is_lost(uct_cuda_flush_ctx_t *ctx,
                            uct_cuda_event_desc_t *copy,
                            const uct_cuda_ctx_rsc_t **asked_p, int *is_lost_p)
{
    const uct_cuda_ctx_rsc_t *ctx_rsc;

    ctx_rsc = uct_cuda_flush_ctx_rsc(ctx, copy);
    if (ctx_rsc != *asked_p) {
        *asked_p       = ctx_rsc;
        *is_lost_p     = uct_cuda_ctx_rsc_is_lost(ctx_rsc);
        ctx->has_lost |= *is_lost_p;
    }

    return *is_lost_p;
}

ucs_status_t uct_cuda_flush_start(uct_cuda_flush_ctx_t *ctx,
                                  uct_completion_t *comp, unsigned num_markers,
                                  ucs_queue_head_t *markers)
{
    uct_cuda_event_desc_t *marker;
    uct_cuda_flush_t *flush;
    unsigned i;

    ucs_queue_head_init(markers);
    if (ucs_unlikely(num_markers >
                     uct_cuda_flush_max_markers(ctx) - ctx->num_markers)) {
        goto err;
    }

    flush = ucs_mpool_get(&ctx->flush_mp);
    if (ucs_unlikely(flush == NULL)) {
        goto err;
    }

    for (i = 0; i < num_markers; ++i) {
        marker = ucs_mpool_get(&ctx->marker_mp);
        if (ucs_unlikely(marker == NULL)) {
            goto err_put;
        }

        marker->comp = &flush->super;
        ucs_queue_push(markers, &marker->queue);
    }

    flush->super.count  = num_markers;
    flush->super.status = UCS_OK;
    flush->comp         = comp;
    flush->num_markers  = num_markers;
    ctx->num_markers   += num_markers;
    if (ctx->num_flushes++ == 0) {
        uct_cuda_flush_note_context(ctx);
        ctx->is_watched = 1;
    }

    return UCS_OK;

err_put:
    while (!ucs_queue_is_empty(markers)) {
        ucs_mpool_put(ucs_queue_pull_elem_non_empty(markers,
                                                    uct_cuda_event_desc_t,
                                                    queue));
    }
    ucs_mpool_put(flush);
err:
    ucs_error("failed to allocate a flush with %u markers", num_markers);
    return UCS_ERR_NO_MEMORY;
}

ucs_status_t uct_cuda_queues_flush(uct_base_ep_t *ep, uct_cuda_flush_ctx_t *ctx,
                                   ucs_queue_head_t *active_queue,
                                   uct_completion_t *comp)
{
    uct_cuda_queue_desc_t *q_desc;
    ucs_queue_head_t markers;
    ucs_status_t status;

    if (ucs_queue_is_empty(active_queue)) {
        UCT_TL_EP_STAT_FLUSH(ep);
        return UCS_OK;
    }

    if (comp != NULL) {
        status = uct_cuda_flush_start(ctx, comp, ucs_queue_length(active_queue),
                                      &markers);
        if (status != UCS_OK) {
            return status;
        }

        ucs_queue_for_each(q_desc, active_queue, queue) {
            ucs_queue_push(&q_desc->event_queue,
                           ucs_queue_pull_non_empty(&markers));
        }
    }

    UCT_TL_EP_STAT_FLUSH_WAIT(ep);
    return UCS_INPROGRESS;
}

UCS_F_NOINLINE void
uct_cuda_event_failed(uct_cuda_event_desc_t *desc, ucs_queue_iter_t behind,
                      ucs_queue_head_t *queue, CUresult result)
{
    const char *reason;

    if (cuGetErrorString(result, &reason) != CUDA_SUCCESS) {
        reason = "unknown error";
    }

    ucs_error("cuda copy failed: %s", reason);
    if (desc->comp != NULL) {
        uct_completion_update_status(desc->comp, UCS_ERR_IO_ERROR);
    }

    for (; !ucs_queue_iter_end(queue, behind);
         behind = ucs_queue_iter_next(behind)) {
        desc = ucs_queue_iter_elem(desc, behind, queue);
        if (uct_cuda_event_is_marker(desc)) {
            uct_completion_update_status(desc->comp, UCS_ERR_IO_ERROR);
        }
    }
}

/* Whether the first copy of a queue is reached. One that failed is, and that
 * was said. */
static UCS_F_ALWAYS_INLINE int
uct_cuda_queue_copy_is_done(ucs_queue_head_t *event_queue,
                            uct_cuda_event_desc_t *desc, int is_lost)
{
    CUresult result;

    result = ucs_unlikely(is_lost) ? CUDA_ERROR_CONTEXT_IS_DESTROYED :
                                     cuEventQuery(desc->event);
    if (ucs_likely(result == CUDA_SUCCESS)) {
        return 1;
    } else if (result == CUDA_ERROR_NOT_READY) {
        return 0;
    }

    uct_cuda_event_failed(desc, &desc->queue.next, event_queue, result);
    return 1;
}

/* Complete the first of a queue; returns whether it was the last one, too */
static UCS_F_ALWAYS_INLINE int
uct_cuda_queue_complete_head(const uct_cuda_flush_ctx_t *ctx,
                             ucs_queue_head_t *active_queue,
                             ucs_queue_iter_t iter,
                             ucs_queue_head_t *event_queue,
                             uct_cuda_event_desc_t *desc, int is_copy)
{
    int is_last;

    /* An empty queue is not active any more before the callback is called: a
     * copy from there makes it active again. */
    ucs_queue_pull_non_empty(event_queue);
    is_last = ucs_queue_is_empty(event_queue);
    if (is_last) {
        ucs_queue_del_iter(active_queue, iter);
    }

    if (desc->comp != NULL) {
        uct_invoke_completion(desc->comp, UCS_OK);
    }

    if (is_copy) {
        uct_cuda_flush_complete_event(ctx, desc);
    }

    ucs_mpool_put(desc);
    return is_last;
}

static UCS_F_ALWAYS_INLINE unsigned
uct_cuda_active_queues_progress(uct_cuda_flush_ctx_t *ctx,
                                ucs_queue_head_t *active_queue, int is_watched)
{
    ucs_queue_iter_t iter           = ucs_queue_iter_begin(active_queue);
    const uct_cuda_ctx_rsc_t *asked = NULL;
    int is_lost                     = 0;
    unsigned num_copies             = 0;
    unsigned num_markers            = 0;
    uct_cuda_queue_desc_t *q_desc;
    uct_cuda_event_desc_t *desc;
    ucs_queue_head_t *event_queue;
    int is_last;

    while (!ucs_queue_iter_end(active_queue, iter)) {
        q_desc      = ucs_queue_iter_elem(q_desc, iter, queue);
        event_queue = &q_desc->event_queue;
        desc = ucs_queue_head_elem_non_empty(event_queue, uct_cuda_event_desc_t,
                                             queue);
        if (uct_cuda_event_is_marker(desc)) {
            uct_cuda_queue_complete_head(ctx, active_queue, iter, event_queue,
                                         desc, 0);
            if (++num_markers == UCT_CUDA_FLUSH_MAX_MARKERS) {
                break;
            }
        } else if ((num_copies < uct_cuda_flush_max_copies(ctx)) &&
                   uct_cuda_queue_copy_is_done(
                           event_queue, desc,
                           is_watched &&
                                   uct_cuda_flush_copy_is_lost(ctx, desc,
                                                               &asked,
                                                               &is_lost))) {
            is_last = uct_cuda_queue_complete_head(ctx, active_queue, iter,
                                                   event_queue, desc, 1);
            if ((++num_copies == uct_cuda_flush_max_copies(ctx)) && !is_last) {
                /* Let it be the turn of others next time */
                ucs_queue_del_iter(active_queue, iter);
                ucs_queue_push(active_queue, &q_desc->queue);
            }
        } else {
            iter = ucs_queue_iter_next(iter);
        }
    }

    return num_copies + num_markers;
}

/* While it is asked whether contexts are gone */
static UCS_F_NOINLINE unsigned
uct_cuda_watched_queues_progress(uct_cuda_flush_ctx_t *ctx,
                                 ucs_queue_head_t *active_queue)
{
    const uct_cuda_ctx_rsc_t *ctx_rsc = uct_cuda_flush_only_ctx_rsc(ctx);

    if ((ctx_rsc != NULL) && !uct_cuda_ctx_rsc_is_lost(ctx_rsc)) {
        return uct_cuda_active_queues_progress(ctx, active_queue, 0);
    }

    return uct_cuda_active_queues_progress(ctx, active_queue, 1);
}

unsigned uct_cuda_queues_progress(uct_cuda_flush_ctx_t *ctx,
                                  ucs_queue_head_t *active_queue)
{
    if (ucs_queue_is_empty(active_queue)) {
        return 0;
    } else if (ucs_unlikely(ctx->is_watched)) {
        return uct_cuda_watched_queues_progress(ctx, active_queue);
    }

    return uct_cuda_active_queues_progress(ctx, active_queue, 0);
}

int uct_cuda_queue_is_reached(uct_cuda_flush_ctx_t *ctx,
                              ucs_queue_head_t *event_queue)
{
    const uct_cuda_ctx_rsc_t *asked = NULL;
    int is_lost                     = 0;
    uct_cuda_event_desc_t *desc;

    if (ucs_queue_is_empty(event_queue)) {
        return 0;
    }

    desc = ucs_queue_head_elem_non_empty(event_queue, uct_cuda_event_desc_t,
                                         queue);
    return uct_cuda_event_is_marker(desc) ||
           (ctx->is_watched &&
            uct_cuda_flush_copy_is_lost(ctx, desc, &asked, &is_lost)) ||
           (cuEventQuery(desc->event) != CUDA_ERROR_NOT_READY);
}

void uct_cuda_marker_drop(uct_cuda_event_desc_t *marker)
{
    uct_cuda_flush_t *flush = ucs_container_of(marker->comp, uct_cuda_flush_t,
                                               super);

    if (--flush->super.count == 0) {
        ucs_mpool_put(flush);
    }

    ucs_mpool_put(marker);
}

/* Returns how many copies it was */
static size_t
uct_cuda_queue_drop(uct_cuda_flush_ctx_t *ctx, ucs_queue_head_t *event_queue)
{
    size_t num_copies = 0;
    uct_cuda_event_desc_t *desc;

    while (!ucs_queue_is_empty(event_queue)) {
        desc = ucs_queue_pull_elem_non_empty(event_queue, uct_cuda_event_desc_t,
                                             queue);
        if (uct_cuda_event_is_marker(desc)) {
            uct_cuda_marker_drop(desc);
        } else {
            uct_cuda_flush_complete_event(ctx, desc);
            ucs_mpool_put(desc);
            ++num_copies;
        }
    }

    return num_copies;
}

size_t
uct_cuda_queues_drop(uct_cuda_flush_ctx_t *ctx, ucs_queue_head_t *active_queue)
{
    size_t num_copies = 0;
    uct_cuda_queue_desc_t *q_desc;

    while (!ucs_queue_is_empty(active_queue)) {
        q_desc = ucs_queue_pull_elem_non_empty(active_queue,
                                               uct_cuda_queue_desc_t, queue);
        num_copies += uct_cuda_queue_drop(ctx, &q_desc->event_queue);
    }

    return num_copies;
}
