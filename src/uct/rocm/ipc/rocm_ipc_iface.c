/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_iface.h"
#include "rocm_ipc_ep.h"
#include "rocm_ipc_export.h"
#include "rocm_ipc_signal.h"

#include <uct/rocm/base/rocm_base.h>
#include <uct/rocm/base/rocm_compat.h>
#include <ucs/debug/log.h>
#include <ucs/sys/uid.h>
#include <ucs/time/time.h>

#include <sched.h>
#include <unistd.h>


/* How many finished copies one call of progress handles at most */
#define UCT_ROCM_IPC_MAX_COMPLETIONS 16

/* How long closing an interface waits for copies in flight, in seconds */
#define UCT_ROCM_IPC_CLOSE_TIMEOUT 1.0


static ucs_config_field_t uct_rocm_ipc_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_rocm_ipc_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"MIN_ZCOPY", UCT_ROCM_IPC_MIN_ZCOPY,
     "Length of the shortest copy for which this transport is chosen.",
     ucs_offsetof(uct_rocm_ipc_iface_config_t, params.min_zcopy),
     UCS_CONFIG_TYPE_MEMUNITS},

    {"LAT", UCT_ROCM_IPC_LATENCY,
     "Latency by which UCX ranks this transport.",
     ucs_offsetof(uct_rocm_ipc_iface_config_t, params.latency),
     UCS_CONFIG_TYPE_TIME},

    {"CACHE_IPC_HANDLES", "y",
     "Keep the memory of a peer mapped after a copy, for the next one.\n"
     "Otherwise it is mapped and unmapped for every single copy, which is\n"
     "slow.",
     ucs_offsetof(uct_rocm_ipc_iface_config_t, params.cache_ipc_handles),
     UCS_CONFIG_TYPE_BOOL},

    {"SIGPOOL_MAX_ELEMS", UCT_ROCM_IPC_MAX_COPIES,
     "How many copies can be in flight at a time, each of which has a signal.",
     ucs_offsetof(uct_rocm_ipc_iface_config_t, params.sigpool_max_elems),
     UCS_CONFIG_TYPE_UINT},

    {NULL}
};


static double uct_rocm_ipc_iface_get_bw(void)
{
    hsa_amd_link_info_type_t link_type = HSA_AMD_LINK_INFO_TYPE_PCIE;

    uct_rocm_base_get_link_type(&link_type);

    /* The figures by which UCX has ranked this transport so far */
    switch (link_type) {
    case HSA_AMD_LINK_INFO_TYPE_PCIE:
        return 200.0 * UCS_GBYTE;
    case HSA_AMD_LINK_INFO_TYPE_XGMI:
        return 400.0 * UCS_GBYTE;
    default:
        return 100.0 * UCS_GBYTE;
    }
}

static ucs_status_t
uct_rocm_ipc_iface_get_device_address(uct_iface_h tl_iface,
                                      uct_device_addr_t *addr)
{
    *(uint64_t*)addr = ucs_get_system_id();
    return UCS_OK;
}

static ucs_status_t
uct_rocm_ipc_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *addr)
{
    *(pid_t*)addr = getpid();
    return UCS_OK;
}

static int
uct_rocm_ipc_iface_is_reachable_v2(const uct_iface_h tl_iface,
                                   const uct_iface_is_reachable_params_t *params)
{
    if (!uct_iface_is_reachable_params_addrs_valid(params)) {
        return 0;
    }

    if (*(const uint64_t*)params->device_addr != ucs_get_system_id()) {
        uct_iface_fill_info_str_buf(params, "the peer is on another node");
        return 0;
    }

    if (*(const pid_t*)params->iface_addr == getpid()) {
        uct_iface_fill_info_str_buf(params, "the peer is this process");
        return 0;
    }

    return uct_iface_scope_is_reachable(tl_iface, params);
}

static ucs_status_t
uct_rocm_ipc_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(tl_iface,
                                                 uct_rocm_ipc_iface_t);

    uct_base_iface_query(&iface->super, attr);

    attr->cap.put.min_zcopy       = iface->config.min_zcopy;
    attr->cap.put.max_zcopy       = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = sizeof(uint32_t);
    attr->cap.put.align_mtu       = attr->cap.put.opt_zcopy_align;
    attr->cap.put.max_iov         = 1;

    attr->cap.get.min_zcopy       = iface->config.min_zcopy;
    attr->cap.get.max_zcopy       = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = sizeof(uint32_t);
    attr->cap.get.align_mtu       = attr->cap.get.opt_zcopy_align;
    attr->cap.get.max_iov         = 1;

    attr->iface_addr_len  = sizeof(pid_t);
    attr->device_addr_len = sizeof(uint64_t);
    attr->ep_addr_len     = 0;
    attr->max_conn_priv   = 0;
    attr->cap.flags = UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
                      UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                      UCT_ROCM_IPC_IFACE_FLAGS;

    attr->latency             = ucs_linear_func_make(iface->config.latency, 0);
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared    = uct_rocm_ipc_iface_get_bw();
    attr->overhead            = 0;
    attr->priority            = 0;

    /* The CPU starts the copies */
    uct_rocm_iface_attr_set_ctl_device(attr, UCS_SYS_DEVICE_ID_UNKNOWN);
    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_flush(uct_rocm_ipc_iface_t *iface,
                                uct_rocm_ipc_flush_scope_t *scope,
                                uct_completion_t *comp)
{
    uct_rocm_ipc_flush_t *flush;

    if (ucs_list_is_empty(&scope->copies)) {
        return UCS_OK;
    }

    if (comp == NULL) {
        return UCS_INPROGRESS;
    }

    flush = ucs_mpool_get(&iface->flush_pool);
    if (flush == NULL) {
        ucs_error("failed to allocate a ROCm IPC flush");
        return UCS_ERR_NO_MEMORY;
    }

    flush->sn =
            ucs_list_tail(&scope->copies, uct_rocm_ipc_scope_elem_t, list)->sn;
    flush->status = UCS_OK;
    flush->comp   = comp;
    ucs_queue_push(&scope->flushes, &flush->queue);
    return UCS_INPROGRESS;
}

/* Called for a copy which has failed */
static void uct_rocm_ipc_flush_scope_failed(uct_rocm_ipc_flush_scope_t *scope,
                                            uint64_t sn, ucs_status_t status)
{
    uct_rocm_ipc_flush_t *flush;

    ucs_queue_for_each(flush, &scope->flushes, queue) {
        if ((flush->sn >= sn) && (flush->status == UCS_OK)) {
            flush->status = status;
        }
    }
}

/* Complete the first flush of a scope if its copies are done. The completion
 * may destroy the endpoint. Returns nonzero if a flush was completed. */
static int uct_rocm_ipc_flush_scope_progress(uct_rocm_ipc_flush_scope_t *scope)
{
    uct_rocm_ipc_flush_t *flush;
    uct_completion_t *comp;
    ucs_status_t status;
    uint64_t oldest_sn;

    if (ucs_likely(ucs_queue_is_empty(&scope->flushes))) {
        return 0;
    }

    oldest_sn = ucs_list_is_empty(&scope->copies) ?
                        UINT64_MAX :
                        ucs_list_head(&scope->copies, uct_rocm_ipc_scope_elem_t,
                                      list)
                                ->sn;
    flush = ucs_queue_head_elem_non_empty(&scope->flushes, uct_rocm_ipc_flush_t,
                                          queue);
    if (flush->sn >= oldest_sn) {
        return 0;
    }

    comp   = flush->comp;
    status = flush->status;
    ucs_queue_pull_non_empty(&scope->flushes);
    ucs_mpool_put(flush);
    uct_invoke_completion(comp, status);
    return 1;
}

static ucs_status_t uct_rocm_ipc_iface_flush(uct_iface_h tl_iface,
                                             unsigned flags,
                                             uct_completion_t *comp)
{
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(tl_iface,
                                                 uct_rocm_ipc_iface_t);
    ucs_status_t status;

    status = uct_rocm_ipc_flush(iface, &iface->scope, comp);
    if (status == UCS_OK) {
        UCT_TL_IFACE_STAT_FLUSH(&iface->super);
    } else if (status == UCS_INPROGRESS) {
        UCT_TL_IFACE_STAT_FLUSH_WAIT(&iface->super);
    }

    return status;
}

uct_rocm_ipc_op_t *uct_rocm_ipc_iface_op_get(uct_rocm_ipc_iface_t *iface)
{
    uct_rocm_ipc_op_t *op = ucs_mpool_get(&iface->op_pool);

    if (ucs_unlikely(op == NULL)) {
        ucs_error("no descriptor for a ROCm IPC copy: increase"
                  " UCX_ROCM_IPC_SIGPOOL_MAX_ELEMS, or have fewer in flight");
        return NULL;
    }

    /* Not when the pool grows, which cannot fail half way */
    if (ucs_unlikely(op->signal.handle == 0) &&
        (uct_rocm_ipc_signal_create_completion(&op->signal) != UCS_OK)) {
        op->signal.handle = 0;
        ucs_mpool_put(op);
        return NULL;
    }

    return op;
}

static void uct_rocm_ipc_iface_complete_op(uct_rocm_ipc_iface_t *iface,
                                           uct_rocm_ipc_op_t *op,
                                           ucs_status_t status)
{
    uct_completion_t *comp = op->comp;

    iface->active_ep = op->ep;
    ucs_list_del(&op->iface_elem.list);
    if (op->ep != NULL) {
        ucs_list_del(&op->ep_elem.list);
    }

    if (ucs_unlikely(status != UCS_OK)) {
        uct_rocm_ipc_flush_scope_failed(&iface->scope, op->iface_elem.sn,
                                        status);
        if (op->ep != NULL) {
            uct_rocm_ipc_flush_scope_failed(&op->ep->scope, op->ep_elem.sn,
                                            status);
        }
    }

    ucs_trace("finished copy %p: %s", op, ucs_status_string(status));

    /* Before the completion, so that the owner's free does not wait for it */
    uct_rocm_ipc_region_unpin(op->region);
    ucs_mpool_put(op);

    if (comp != NULL) {
        uct_invoke_completion(comp, status);
    }

    while ((iface->active_ep != NULL) &&
           uct_rocm_ipc_flush_scope_progress(&iface->active_ep->scope))
        ;
    while (uct_rocm_ipc_flush_scope_progress(&iface->scope))
        ;
}

static unsigned uct_rocm_ipc_iface_progress(uct_iface_h tl_iface)
{
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(tl_iface,
                                                 uct_rocm_ipc_iface_t);
    unsigned count              = 0;
    uct_rocm_ipc_op_t *op, *tmp;
    hsa_signal_value_t value;

    ucs_list_for_each_safe(op, tmp, &iface->scope.copies, iface_elem.list) {
        value = hsa_signal_load_scacquire(op->signal);
        if (value > 0) {
            continue;
        }

        /* The runtime reports a failed copy by a negative value */
        uct_rocm_ipc_iface_complete_op(iface, op,
                                       (value == 0) ? UCS_OK :
                                                      UCS_ERR_IO_ERROR);
        if (++count >= UCT_ROCM_IPC_MAX_COMPLETIONS) {
            break;
        }
    }

    return count + uct_rocm_ipc_exports_progress();
}

static UCS_CLASS_DECLARE_DELETE_FUNC(uct_rocm_ipc_iface_t, uct_iface_t);

static UCS_CLASS_DEFINE_NEW_FUNC(UCT_ROCM_IPC_EP_CLASS, uct_ep_t,
                                 const uct_ep_params_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(UCT_ROCM_IPC_EP_CLASS, uct_ep_t);

UCT_ROCM_IFACE_INTERNAL_OPS_DEFINE(uct_rocm_ipc);

static uct_iface_ops_t uct_rocm_ipc_iface_ops = {
    .ep_put_zcopy             = uct_rocm_ipc_ep_put_zcopy,
    .ep_get_zcopy             = uct_rocm_ipc_ep_get_zcopy,
    .ep_pending_add           = (uct_ep_pending_add_func_t)
            ucs_empty_function_return_busy,
    .ep_pending_purge         = (uct_ep_pending_purge_func_t)
            ucs_empty_function,
    .ep_flush                 = uct_rocm_ipc_ep_flush,
    .ep_fence                 = uct_base_ep_fence,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(UCT_ROCM_IPC_EP_CLASS),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(
                                        UCT_ROCM_IPC_EP_CLASS),
    .iface_flush              = uct_rocm_ipc_iface_flush,
    .iface_fence              = uct_base_iface_fence,
    .iface_progress_enable    = uct_base_iface_progress_enable,
    .iface_progress_disable   = uct_base_iface_progress_disable,
    .iface_progress           = uct_rocm_ipc_iface_progress,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(
                                        uct_rocm_ipc_iface_t),
    .iface_query              = uct_rocm_ipc_iface_query,
    .iface_get_address        = uct_rocm_ipc_iface_get_address,
    .iface_get_device_address = uct_rocm_ipc_iface_get_device_address,
    .iface_is_reachable       = UCT_ROCM_IFACE_IS_REACHABLE(uct_rocm_ipc)
};

static void uct_rocm_ipc_op_init(ucs_mpool_t *mp, void *obj, void *chunk)
{
    ((uct_rocm_ipc_op_t*)obj)->signal.handle = 0;
}

static void uct_rocm_ipc_op_cleanup(ucs_mpool_t *mp, void *obj)
{
    uct_rocm_ipc_op_t *op = obj;

    if (op->signal.handle != 0) {
        uct_rocm_ipc_signal_destroy(op->signal);
    }
}

static ucs_mpool_ops_t uct_rocm_ipc_op_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = uct_rocm_ipc_op_init,
    .obj_cleanup   = uct_rocm_ipc_op_cleanup,
    .obj_str       = NULL
};

static ucs_mpool_ops_t uct_rocm_ipc_flush_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = NULL,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};

static UCS_CLASS_INIT_FUNC(uct_rocm_ipc_iface_t, uct_md_h md,
                           uct_worker_h worker,
                           const uct_iface_params_t *params,
                           const uct_iface_config_t *tl_config)
{
    const uct_rocm_ipc_iface_config_t *config =
            ucs_derived_of(tl_config, uct_rocm_ipc_iface_config_t);
    ucs_mpool_params_t mp_params;
    ucs_status_t status;

    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &uct_rocm_ipc_iface_ops,
                              &uct_rocm_ipc_iface_internal_ops, md, worker,
                              params,
                              tl_config UCS_STATS_ARG(
                                      (params->field_mask &
                                       UCT_IFACE_PARAM_FIELD_STATS_ROOT) ?
                                              params->stats_root :
                                              ucs_stats_get_root())
                                      UCS_STATS_ARG(UCT_ROCM_IPC_TL_NAME));

    self->config        = config->params;
    self->signal_import = ucs_derived_of(md, uct_rocm_ipc_md_t)->signal_import;
    self->active_ep     = NULL;
    self->sn            = 0;
    uct_rocm_ipc_flush_scope_init(&self->scope);

    ucs_mpool_params_reset(&mp_params);
    mp_params.elem_size       = sizeof(uct_rocm_ipc_op_t);
    mp_params.elems_per_chunk = ucs_min(config->params.sigpool_max_elems, 128);
    mp_params.max_elems       = config->params.sigpool_max_elems;
    mp_params.ops             = &uct_rocm_ipc_op_mpool_ops;
    mp_params.name            = "rocm_ipc_ops";
    status = ucs_mpool_init(&mp_params, &self->op_pool);
    if (status != UCS_OK) {
        return status;
    }

    ucs_mpool_params_reset(&mp_params);
    mp_params.elem_size       = sizeof(uct_rocm_ipc_flush_t);
    mp_params.elems_per_chunk = 16;
    mp_params.ops             = &uct_rocm_ipc_flush_mpool_ops;
    mp_params.name            = "rocm_ipc_flushes";
    status = ucs_mpool_init(&mp_params, &self->flush_pool);
    if (status != UCS_OK) {
        ucs_mpool_cleanup(&self->op_pool, 1);
        return status;
    }

    return UCS_OK;
}

/* Give the copies in flight a chance to finish, as they use memory which the
 * peer may be waiting to free. The signal and the mapping of a copy which does
 * not finish cannot be released, since the GPU may still be using them. */
static void uct_rocm_ipc_iface_drain(uct_rocm_ipc_iface_t *iface)
{
    ucs_time_t deadline = ucs_get_time() +
                          ucs_time_from_sec(UCT_ROCM_IPC_CLOSE_TIMEOUT);
    uct_rocm_ipc_op_t *op, *tmp;
    uct_rocm_ipc_flush_t *flush;

    if (ucs_list_is_empty(&iface->scope.copies)) {
        return;
    }

    ucs_warn("rocm_ipc interface is closed while %lu copies are in flight",
             ucs_list_length(&iface->scope.copies));
    while (!ucs_list_is_empty(&iface->scope.copies) &&
           (ucs_get_time() < deadline)) {
        uct_rocm_ipc_iface_progress(&iface->super.super);
        sched_yield();
    }

    ucs_list_for_each_safe(op, tmp, &iface->scope.copies, iface_elem.list) {
        ucs_list_del(&op->iface_elem.list);
        op->signal.handle = 0;
        if (op->comp != NULL) {
            uct_invoke_completion(op->comp, UCS_ERR_CANCELED);
        }
        ucs_mpool_put(op);
    }

    ucs_queue_for_each_extract(flush, &iface->scope.flushes, queue, 1) {
        uct_invoke_completion(flush->comp, UCS_ERR_CANCELED);
        ucs_mpool_put(flush);
    }
}

static UCS_CLASS_CLEANUP_FUNC(uct_rocm_ipc_iface_t)
{
    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_rocm_ipc_iface_drain(self);
    ucs_mpool_cleanup(&self->flush_pool, 1);
    ucs_mpool_cleanup(&self->op_pool, 1);
}

UCS_CLASS_DEFINE(uct_rocm_ipc_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_rocm_ipc_iface_t, uct_iface_t, uct_md_h,
                                 uct_worker_h, const uct_iface_params_t*,
                                 const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_rocm_ipc_iface_t, uct_iface_t);

UCT_TL_DEFINE(&uct_rocm_ipc_component, rocm_ipc, uct_rocm_base_query_devices,
              uct_rocm_ipc_iface_t, "ROCM_IPC_",
              uct_rocm_ipc_iface_config_table, uct_rocm_ipc_iface_config_t);
