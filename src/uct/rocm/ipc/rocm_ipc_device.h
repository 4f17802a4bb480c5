#if UCX_HAS_ROCM_DEVICE_EP
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_DEVICE_H_
#define UCT_ROCM_IPC_DEVICE_H_

#include "rocm_ipc_ep.h"

#include <uct/api/device/uct_device_types.h>


/**
 * @file rocm_ipc_device.h
 * @brief Copies that device code starts by itself: it stores through a mapping
 *        of the peer's memory, which has to stay meanwhile.
 */


/** Endpoint to one peer, which device code may use as well */
typedef struct uct_rocm_ipc_device_ep {
    uct_rocm_ipc_ep_t super;
    uct_device_ep_h   handle; /**< In device memory, NULL if nobody has asked
                                   for it */
} uct_rocm_ipc_device_ep_t;


UCS_CLASS_DECLARE(uct_rocm_ipc_device_ep_t, const uct_ep_params_t*);


/** Hand out the endpoint as device code sees it, valid as long as the
 *  endpoint. */
ucs_status_t
uct_rocm_ipc_ep_get_device_ep(uct_ep_h tl_ep, uct_device_ep_h *device_ep_p);


/**
 * Describe memory as device code addresses it. That of a peer stays mapped until
 * it is released by @ref uct_rocm_ipc_mem_elem_release, whatever becomes of the
 * remote key; the owner's free waits for that.
 *
 * @param [in]  uct_rkey          Key of a peer's memory, or UCT_INVALID_RKEY
 *                                for local memory.
 * @param [out] mem_elem          Description.
 * @param [out] release_handle_p  For @ref uct_rocm_ipc_mem_elem_release.
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the owner has freed the memory, or an
 *         error of attaching.
 */
ucs_status_t uct_rocm_ipc_mem_elem_pack(uct_md_h uct_md, uct_mem_h memh,
                                        uct_rkey_t uct_rkey,
                                        uct_device_mem_elem_t *mem_elem,
                                        void **release_handle_p);


/** Let go of the memory. Device code must not use it any more. */
void uct_rocm_ipc_mem_elem_release(uct_md_h uct_md, void *release_handle);

#endif
#endif
