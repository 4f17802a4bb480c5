/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_EXPORT_H_
#define UCT_ROCM_IPC_EXPORT_H_

#include "rocm_ipc_md.h"

#include <uct/base/ipc/ipc_export.h>


/**
 * @file rocm_ipc_export.h
 * @brief What this process has handed out: one IPC memory handle and one
 *        lifetime signal for each allocation.
 */


/** Table of this process; use the functions below. */
extern uct_ipc_export_table_t uct_rocm_ipc_export_table;


/**
 * Start to follow memory frees. May be called several times, by several memory
 * domains; each call which succeeds needs one @ref uct_rocm_ipc_exports_close.
 *
 * @return UCS_OK, or an error if free events cannot be had in this process.
 */
ucs_status_t uct_rocm_ipc_exports_open(void);


/**
 * With the last call: stop following memory frees, tell importers that the
 * memory is gone, and destroy all exports.
 */
void uct_rocm_ipc_exports_close(void);


/**
 * Write the key of an allocation with everything but the owner's identity, and
 * share the allocation first if this has not been done yet. Can be called from
 * any thread while the exports are open.
 *
 * @param [in]  base     First address of the allocation.
 * @param [in]  length   Its length in bytes.
 * @param [out] key      Fields ipc and signal are filled, and
 *                       UCT_ROCM_IPC_KEY_FLAG_SIGNAL is set in dev_num if the
 *                       memory has a lifetime signal.
 */
ucs_status_t uct_rocm_ipc_export_pack(uintptr_t base, size_t length,
                                      uct_rocm_ipc_key_t *key);


/**
 * Create an IPC memory handle.
 *
 * @return UCS_OK or UCS_ERR_INVALID_ADDR.
 */
ucs_status_t uct_rocm_ipc_memory_create(uintptr_t base, size_t length,
                                        hsa_amd_ipc_memory_t *handle_p);


/** Destroy retired exports which are due.
 *  @return How many were destroyed. */
static UCS_F_ALWAYS_INLINE unsigned uct_rocm_ipc_exports_progress(void)
{
    return uct_ipc_export_table_progress(&uct_rocm_ipc_export_table);
}

#endif
