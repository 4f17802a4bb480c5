/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_COMPAT_H_
#define UCT_IPC_COMPAT_H_

/**
 * @file ipc_compat.h
 * @brief What differs between the versions of UCX, as far as this folder uses
 *        it: where the macros are that align a number.
 */

#if UCX_HAS_PTR_ARITH
#include <ucs/sys/ptr_arith.h>
#else
#include <ucs/sys/math.h>
#endif

#endif
