/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_CUDA_COMPAT_H_
#define UCT_CUDA_COMPAT_H_

#include "cuda_flush_ctx.h"

#if UCX_HAS_CUDA_SHARED_QUEUES
#include <uct/cuda/base/cuda_iface.h>
#include <ucs/datastruct/mpool.inl>
#else
#include <ucs/arch/cpu.h>
#include <ucs/debug/log.h>
#endif
#include <ucs/sys/compiler_def.h>
#include <ucs/sys/math.h>


/**
 * @file cuda_compat.h
 * @brief What differs between releases of UCX for the flush of CUDA endpoints.
 */


/** Make a pool of objects that are aligned to cache lines. */
static inline ucs_status_t
uct_cuda_mpool_init(ucs_mpool_t *mp, size_t elem_size, unsigned elems_per_chunk,
                    unsigned max_elems, ucs_mpool_ops_t *ops, const char *name)
{
#if UCX_HAS_MPOOL_PARAMS
    ucs_mpool_params_t params;

    ucs_mpool_params_reset(&params);
    params.elem_size       = elem_size;
    params.elems_per_chunk = elems_per_chunk;
    params.max_elems       = max_elems;
    params.ops             = ops;
    params.name            = name;
    return ucs_mpool_init(&params, mp);
#else
    return ucs_mpool_init(mp, 0, elem_size, 0, UCS_SYS_CACHE_LINE_SIZE,
                          elems_per_chunk, max_elems, ops, name);
#endif
}


#if UCX_HAS_CUDA_SHARED_QUEUES
static UCS_F_ALWAYS_INLINE uct_cuda_iface_t *
uct_cuda_flush_iface(const uct_cuda_flush_ctx_t *flush)
{
    return ucs_container_of(flush, uct_cuda_iface_t, flush);
}


#endif
#if !UCX_HAS_CUDA_SHARED_QUEUES
/** What an interface has to say to @ref uct_cuda_flush_init in addition. */
static inline void
uct_cuda_flush_set_config(uct_cuda_flush_ctx_t *flush, unsigned max_events,
                          unsigned max_poll, CUcontext *cuda_context_p)
{
    flush->max_markers    = max_events;
    flush->max_copies     = ucs_max(max_poll, 1);
    flush->cuda_context_p = cuda_context_p;
    flush->ctx_rsc.ctx    = NULL;
}


#endif
/** @return How many markers there may be at a time; UINT_MAX is no limit. */
static UCS_F_ALWAYS_INLINE unsigned
uct_cuda_flush_max_markers(const uct_cuda_flush_ctx_t *flush)
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    return uct_cuda_flush_iface(flush)->config.max_events;
#else
    return flush->max_markers;
#endif
}


/** @return How many copies a progress completes at most, not 0. */
static UCS_F_ALWAYS_INLINE unsigned
uct_cuda_flush_max_copies(const uct_cuda_flush_ctx_t *flush)
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    return ucs_max(uct_cuda_flush_iface(flush)->config.max_poll, 1);
#else
    return flush->max_copies;
#endif
}


/** @return The context of a copy. */
static UCS_F_ALWAYS_INLINE const uct_cuda_ctx_rsc_t *
uct_cuda_flush_ctx_rsc(const uct_cuda_flush_ctx_t *flush,
                       uct_cuda_event_desc_t *copy)
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    /* It comes from the pool of its context */
    return ucs_container_of(ucs_mpool_obj_owner(copy), uct_cuda_ctx_rsc_t,
                            event_mp);
#else
    return &flush->ctx_rsc;
#endif
}


/** @return The context of all copies, or NULL if there may be several. */
static UCS_F_ALWAYS_INLINE const uct_cuda_ctx_rsc_t *
uct_cuda_flush_only_ctx_rsc(const uct_cuda_flush_ctx_t *flush)
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    return NULL;
#else
    return &flush->ctx_rsc;
#endif
}


/** The first of all outstanding flushes is being made. */
static inline void uct_cuda_flush_note_context(uct_cuda_flush_ctx_t *flush)
{
#if !UCX_HAS_CUDA_SHARED_QUEUES
    flush->ctx_rsc.ctx    = *flush->cuda_context_p;
    flush->ctx_rsc.ctx_id = 0;
#if CUDA_VERSION >= 12000
    if (cuCtxGetId(flush->ctx_rsc.ctx, &flush->ctx_rsc.ctx_id) !=
        CUDA_SUCCESS) {
        ucs_debug("cuda context %p is lost", flush->ctx_rsc.ctx);
    }
#endif
#endif
}


/** Give back what a copy has held, apart from its descriptor. */
static UCS_F_ALWAYS_INLINE void
uct_cuda_flush_complete_event(const uct_cuda_flush_ctx_t *flush,
                              uct_cuda_event_desc_t *copy)
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    uct_cuda_iface_t *iface = uct_cuda_flush_iface(flush);

    iface->ops->complete_event(&iface->super.super, copy);
#endif
}

#if UCX_HAS_CUDA_SHARED_QUEUES

/** Unmap what a copy of cuda_ipc was to use. */
#if UCX_HAS_CUDA_IPC_MD_CACHE
#define uct_cuda_ipc_unmap_key(_iface, _key, _mapped_addr, _cuda_device) \
    uct_cuda_ipc_unmap_memhandle((_key)->super.super.pid, \
                                 (_key)->super.pid_ns, \
                                 (uintptr_t)(_key)->super.super.d_bptr, \
                                 _mapped_addr, _cuda_device, \
                                 uct_cuda_ipc_component.enable_remote_cache)
#elif UCX_HAS_CUDA_IPC_PID_NS
#define uct_cuda_ipc_unmap_key(_iface, _key, _mapped_addr, _cuda_device) \
    uct_cuda_ipc_unmap_memhandle((_key)->super.super.pid, \
                                 (_key)->super.pid_ns, \
                                 (uintptr_t)(_key)->super.super.d_bptr, \
                                 _mapped_addr, _cuda_device, \
                                 (_iface)->config.enable_cache)
#else
#define uct_cuda_ipc_unmap_key(_iface, _key, _mapped_addr, _cuda_device) \
    uct_cuda_ipc_unmap_memhandle((_key)->super.pid, \
                                 (uintptr_t)(_key)->super.d_bptr, \
                                 _mapped_addr, _cuda_device, \
                                 (_iface)->config.enable_cache)
#endif
#endif

#endif
