#if UCX_HAS_ROCM_DEVICE_EP
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <hip/hip_runtime.h>

extern "C" {
#include <uct/api/device/uct_device_types.h>
#include <uct/api/v2/uct_v2.h>
}

namespace rocm_ipc {

void peer_transport::device_ep(const command &cmd, answer &ans)
{
    uct_device_ep_h device_ep = NULL;
    uint8_t tl_id             = 0;

    ans.head.status    = uct_ep_get_device_ep(m_eps.get(cmd.head.number[0]),
                                              &device_ep);
    ans.head.number[0] = (uintptr_t)device_ep;
    if ((ans.head.status == UCS_OK) &&
        (hipMemcpy(&tl_id, device_ep, sizeof(tl_id), hipMemcpyDeviceToHost) !=
         hipSuccess)) {
        ans.head.status = UCS_ERR_INVALID_ADDR;
    }
    ans.head.number[1] = tl_id;
}

void peer_transport::elem_pack(const command &cmd, answer &ans)
{
    uct_device_mem_elem_t elem = {};
    void *release_handle       = NULL;
    uct_rkey_t rkey            = UCT_INVALID_RKEY;

    if (cmd.head.number[0] != 0) {
        rkey = m_rkeys.get(cmd.head.number[0]).rkey;
    }

    ans.head.status = uct_md_mem_elem_pack(m_md, NULL, rkey, &elem,
                                           &release_handle);
    if (ans.head.status == UCS_OK) {
        ans.head.number[0] = m_elems.add(release_handle);
        ans.head.number[1] = (uint64_t)elem.rocm_ipc_mem_element.mapped_offset;
    }
}

void peer_transport::elem_release(const command &cmd, answer &)
{
    uct_md_mem_elem_release(m_md, m_elems.remove(cmd.head.number[0]));
}

} /* namespace rocm_ipc */
#endif
