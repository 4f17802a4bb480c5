/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef ROCM_IPC_COMPAT_H
#define ROCM_IPC_COMPAT_H

extern "C" {
#include <uct/api/uct.h>
}

/**
 * @file rocm_ipc_compat.h
 * @brief What rocm_ipc of this version of UCX declares.
 */
namespace rocm_ipc {

const uint64_t stock_md_flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY;

#if UCX_HAS_ROCM_DEVICE_EP
const uint64_t stock_iface_flags = UCT_IFACE_FLAG_GET_ZCOPY |
                                   UCT_IFACE_FLAG_PUT_ZCOPY |
                                   UCT_IFACE_FLAG_PENDING |
                                   UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                                   UCT_IFACE_FLAG_DEVICE_EP;
#else
const uint64_t stock_iface_flags = UCT_IFACE_FLAG_GET_ZCOPY |
                                   UCT_IFACE_FLAG_PUT_ZCOPY |
                                   UCT_IFACE_FLAG_PENDING |
                                   UCT_IFACE_FLAG_CONNECT_TO_IFACE;
#endif

#if UCX_HAS_ROCM_IPC_MIN_ZCOPY
const size_t stock_min_zcopy = 128;
const double stock_latency   = 1e-7;
#else
const size_t stock_min_zcopy = 0;
const double stock_latency   = 1e-9;
#endif

} /* namespace rocm_ipc */

#endif
