/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_EP_H_
#define UCT_ROCM_IPC_EP_H_

#include "rocm_ipc_iface.h"

#include <ucs/type/class.h>


/** Endpoint to one peer */
typedef struct uct_rocm_ipc_ep {
    uct_base_ep_t              super;
    pid_t                      remote_pid; /**< Process id of the peer */
    uct_rocm_ipc_flush_scope_t scope;      /**< Copies and flushes on it */
} uct_rocm_ipc_ep_t;


UCS_CLASS_DECLARE(uct_rocm_ipc_ep_t, const uct_ep_params_t*);


/** Start a copy of local device memory to that of the peer. */
ucs_status_t uct_rocm_ipc_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                       size_t iovcnt, uint64_t remote_addr,
                                       uct_rkey_t rkey, uct_completion_t *comp);


/** Start a copy of the peer's device memory to local device memory. */
ucs_status_t uct_rocm_ipc_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                       size_t iovcnt, uint64_t remote_addr,
                                       uct_rkey_t rkey, uct_completion_t *comp);


/** Complete when the copies which were started before are done. */
ucs_status_t
uct_rocm_ipc_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);

#endif
