/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_ep.h"
#include "rocm_ipc_signal.h"

#include <uct/rocm/base/rocm_base.h>
#include <uct/base/uct_iov.inl>
#include <ucs/debug/log.h>

#include <inttypes.h>


#define uct_rocm_ipc_trace_data(_name, _length, _remote_addr, _rkey) \
    ucs_trace_data(_name " [length %zu] to 0x%"PRIx64" rkey 0x%lx", _length, \
                   _remote_addr, _rkey)


UCS_CLASS_INIT_FUNC(uct_rocm_ipc_ep_t, const uct_ep_params_t *params)
{
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(params->iface,
                                                 uct_rocm_ipc_iface_t);

    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);

    self->remote_pid = *(const pid_t*)params->iface_addr;
    uct_rocm_ipc_flush_scope_init(&self->scope);
    return uct_rocm_ipc_cache_peer_open(self->remote_pid);
}

/* The copies in flight go on, and so do the flushes which wait for them: these
 * pass to the interface, where at most they wait for more than they have to */
static UCS_CLASS_CLEANUP_FUNC(uct_rocm_ipc_ep_t)
{
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(self->super.super.iface,
                                                 uct_rocm_ipc_iface_t);
    uct_rocm_ipc_op_t *op;

    ucs_list_for_each(op, &self->scope.copies, ep_elem.list) {
        op->ep = NULL;
    }

    ucs_queue_splice(&iface->scope.flushes, &self->scope.flushes);
    if (iface->active_ep == self) {
        iface->active_ep = NULL;
    }

    uct_rocm_ipc_cache_peer_close(self->remote_pid);
}

UCS_CLASS_DEFINE(uct_rocm_ipc_ep_t, uct_base_ep_t);

/* Let all GPUs of this process access a local buffer, as a copy to or from
 * another GPU needs it */
static ucs_status_t uct_rocm_ipc_allow_access(const void *base_addr)
{
    hsa_agent_t *gpu_agents;
    hsa_status_t status;
    int num_gpus;

    num_gpus = uct_rocm_base_get_gpu_agents(&gpu_agents);
    status = hsa_amd_agents_allow_access(num_gpus, gpu_agents, NULL, base_addr);
    if (status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to let the GPUs access local memory %p: %s",
                  base_addr, uct_rocm_ipc_hsa_status_string(status));
        return UCS_ERR_INVALID_ADDR;
    }

    return UCS_OK;
}

static UCS_F_ALWAYS_INLINE ucs_status_t
uct_rocm_ipc_ep_pin(uct_rocm_ipc_ep_t *ep, const uct_rocm_ipc_iface_t *iface,
                    uct_rocm_ipc_rkey_t *rkey, uct_rocm_ipc_region_t **region_p)
{
    if (ucs_likely(iface->config.cache_ipc_handles)) {
        return uct_rocm_ipc_rkey_pin(rkey, ep->remote_pid, iface->signal_import,
                                     region_p);
    }

    return uct_rocm_ipc_rkey_attach_once(rkey, iface->signal_import, region_p);
}

static UCS_F_ALWAYS_INLINE ucs_status_t uct_rocm_ipc_ep_start_copy(
        uct_rocm_ipc_ep_t *ep, uct_rocm_ipc_iface_t *iface,
        uct_rocm_ipc_region_t *region, void *remote_ptr, void *local_ptr,
        size_t length, uct_completion_t *comp, int is_put)
{
    hsa_agent_t remote_agent = region->agent;
    hsa_amd_pointer_info_t local;
    uct_rocm_ipc_op_t *op;
    ucs_status_t status;
    hsa_status_t hsa_status;

    if (ucs_unlikely(uct_rocm_ipc_pointer_info(local_ptr, &local) != UCS_OK)) {
        ucs_error("local address %p is not ROCm memory", local_ptr);
        return UCS_ERR_INVALID_ADDR;
    }

    if (ucs_unlikely(remote_agent.handle == 0)) {
        remote_agent = local.agentOwner; /* The owner's GPU is not visible */
    } else {
        status = uct_rocm_ipc_allow_access(local.agentBaseAddress);
        if (ucs_unlikely(status != UCS_OK)) {
            return status;
        }
    }

    op = uct_rocm_ipc_iface_op_get(iface);
    if (ucs_unlikely(op == NULL)) {
        return UCS_ERR_NO_MEMORY;
    }

    hsa_signal_store_screlease(op->signal, 1);
    hsa_status = is_put ?
                         hsa_amd_memory_async_copy(remote_ptr, remote_agent,
                                                   local_ptr, local.agentOwner,
                                                   length, 0, NULL,
                                                   op->signal) :
                         hsa_amd_memory_async_copy(local_ptr, local.agentOwner,
                                                   remote_ptr, remote_agent,
                                                   length, 0, NULL, op->signal);
    if (ucs_unlikely(hsa_status != HSA_STATUS_SUCCESS)) {
        ucs_error("failed to start a copy: %s",
                  uct_rocm_ipc_hsa_status_string(hsa_status));
        ucs_mpool_put(op);
        return UCS_ERR_IO_ERROR;
    }

    op->region = region;
    op->comp   = comp;
    op->ep     = ep;
    uct_rocm_ipc_flush_scope_add(&ep->scope, &op->ep_elem, ++iface->sn);
    uct_rocm_ipc_flush_scope_add(&iface->scope, &op->iface_elem, iface->sn);
    ucs_trace("started copy %p: remote %p local %p length %zu", op, remote_ptr,
              local_ptr, length);
    return UCS_INPROGRESS;
}

/* The whole of a cached copy: check the range, pin the region, start the copy.
 * The pin goes when progress finds the copy done. */
static ucs_status_t uct_rocm_ipc_ep_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                          size_t iovcnt, uint64_t remote_addr,
                                          uct_rkey_t uct_rkey,
                                          uct_completion_t *comp, int is_put)
{
    uct_rocm_ipc_ep_t *ep       = ucs_derived_of(tl_ep, uct_rocm_ipc_ep_t);
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(tl_ep->iface,
                                                 uct_rocm_ipc_iface_t);
    uct_rocm_ipc_rkey_t *rkey   = (uct_rocm_ipc_rkey_t*)uct_rkey;
    size_t length               = uct_iov_total_length(iov, iovcnt);
    uint64_t offset             = remote_addr - rkey->key.address;
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    UCT_SKIP_ZERO_LENGTH(length);

    /* An address below the key wraps around to a large offset */
    if (ucs_unlikely((offset >= rkey->key.length) ||
                     (length > rkey->key.length - offset))) {
        ucs_error("remote memory 0x%"PRIx64" length %zu is not in the memory"
                  " 0x%"PRIx64" length %"PRIu64" of the remote key",
                  remote_addr, length, rkey->key.address, rkey->key.length);
        return UCS_ERR_INVALID_PARAM;
    }

    status = uct_rocm_ipc_ep_pin(ep, iface, rkey, &region);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    status = uct_rocm_ipc_ep_start_copy(
            ep, iface, region,
            UCS_PTR_BYTE_OFFSET(region->super.mapped_addr, offset), iov->buffer,
            length, comp, is_put);
    if (ucs_unlikely(status != UCS_INPROGRESS)) {
        uct_rocm_ipc_region_unpin(region);
    }

    return status;
}

ucs_status_t uct_rocm_ipc_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                       size_t iovcnt, uint64_t remote_addr,
                                       uct_rkey_t rkey, uct_completion_t *comp)
{
    ucs_status_t status;

    UCT_CHECK_IOV_SIZE(iovcnt, 1ul, "uct_rocm_ipc_ep_put_zcopy");

    status = uct_rocm_ipc_ep_zcopy(tl_ep, iov, iovcnt, remote_addr, rkey, comp,
                                   1);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, ucs_derived_of(tl_ep, uct_base_ep_t),
                                 PUT, ZCOPY, uct_iov_total_length(iov, iovcnt));
    uct_rocm_ipc_trace_data("PUT_ZCOPY", uct_iov_total_length(iov, iovcnt),
                            remote_addr, rkey);
    return status;
}

ucs_status_t uct_rocm_ipc_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                       size_t iovcnt, uint64_t remote_addr,
                                       uct_rkey_t rkey, uct_completion_t *comp)
{
    ucs_status_t status;

    UCT_CHECK_IOV_SIZE(iovcnt, 1ul, "uct_rocm_ipc_ep_get_zcopy");

    status = uct_rocm_ipc_ep_zcopy(tl_ep, iov, iovcnt, remote_addr, rkey, comp,
                                   0);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, ucs_derived_of(tl_ep, uct_base_ep_t),
                                 GET, ZCOPY, uct_iov_total_length(iov, iovcnt));
    uct_rocm_ipc_trace_data("GET_ZCOPY", uct_iov_total_length(iov, iovcnt),
                            remote_addr, rkey);
    return status;
}

/* A copy cannot be cancelled, so that every flush waits */
ucs_status_t
uct_rocm_ipc_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_rocm_ipc_ep_t *ep       = ucs_derived_of(tl_ep, uct_rocm_ipc_ep_t);
    uct_rocm_ipc_iface_t *iface = ucs_derived_of(tl_ep->iface,
                                                 uct_rocm_ipc_iface_t);
    ucs_status_t status;

    status = uct_rocm_ipc_flush(iface, &ep->scope, comp);
    if (status == UCS_OK) {
        UCT_TL_EP_STAT_FLUSH(&ep->super);
    } else if (status == UCS_INPROGRESS) {
        UCT_TL_EP_STAT_FLUSH_WAIT(&ep->super);
    }

    return status;
}
