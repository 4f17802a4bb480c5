/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_SIGNAL_H_
#define UCT_ROCM_IPC_SIGNAL_H_

#include <ucs/sys/compiler_def.h>
#include <ucs/type/status.h>

#include <hsa.h>
#include <hsa_ext_amd.h>


/**
 * @file rocm_ipc_signal.h
 * @brief Every HSA signal of the component: the lifetime signals which
 *        importers watch, and the completion signals of copies.
 */


/** Value of a lifetime signal while the memory is valid */
#define UCT_ROCM_IPC_SIGNAL_ALIVE 1

/** Value of a lifetime signal after the owner has freed the memory */
#define UCT_ROCM_IPC_SIGNAL_FREED 0


/**
 * @return Name of an HSA status for a log message.
 */
const char *uct_rocm_ipc_hsa_status_string(hsa_status_t status);


/**
 * Create a lifetime signal with the value "alive".
 *
 * @param [out] signal_p  New signal, for @ref uct_rocm_ipc_signal_destroy.
 * @param [out] handle_p  Handle by which other processes attach to it.
 *
 * @return HSA_STATUS_SUCCESS, or why there is no signal; the caller logs it.
 */
hsa_status_t uct_rocm_ipc_signal_create(hsa_signal_t *signal_p,
                                        hsa_amd_ipc_signal_t *handle_p);


/**
 * Attach to the lifetime signal of a peer, and check that the memory is alive.
 *
 * @param [in]  handle    Handle from the peer's key; may be garbage.
 * @param [out] signal_p  Signal, for @ref uct_rocm_ipc_signal_destroy.
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the memory was freed or the handle
 *         names no signal, UCS_ERR_NO_MEMORY if the runtime is out of signals,
 *         which the caller logs.
 */
ucs_status_t uct_rocm_ipc_signal_attach(const hsa_amd_ipc_signal_t *handle,
                                        hsa_signal_t *signal_p);


/**
 * Call @a handler once, from the runtime's thread, when the memory is freed.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED if the runtime refuses to watch the
 *         signal.
 */
ucs_status_t uct_rocm_ipc_signal_watch(hsa_signal_t signal,
                                       hsa_amd_signal_handler handler,
                                       void *arg);


/**
 * Create the completion signal of a copy.
 *
 * @return UCS_OK or UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_rocm_ipc_signal_create_completion(hsa_signal_t *signal_p);


/** Release any signal. A failure is logged and goes no further. */
void uct_rocm_ipc_signal_destroy(hsa_signal_t signal);


/** @return Nonzero while the memory that the signal stands for is valid. */
static UCS_F_ALWAYS_INLINE int uct_rocm_ipc_signal_is_alive(hsa_signal_t signal)
{
    return hsa_signal_load_scacquire(signal) >= UCT_ROCM_IPC_SIGNAL_ALIVE;
}


/** Tell importers that the memory is gone. Safe in a memory hook: the runtime
 *  looks the signal up and stores a value. */
static UCS_F_ALWAYS_INLINE void
uct_rocm_ipc_signal_set_freed(hsa_signal_t signal)
{
    hsa_signal_store_screlease(signal, UCT_ROCM_IPC_SIGNAL_FREED);
}

#endif
