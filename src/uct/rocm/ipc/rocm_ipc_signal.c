/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_signal.h"

#include <ucs/debug/log.h>


const char *uct_rocm_ipc_hsa_status_string(hsa_status_t status)
{
    const char *string;

    if (hsa_status_string(status, &string) != HSA_STATUS_SUCCESS) {
        return "unknown HSA status";
    }

    return string;
}

hsa_status_t uct_rocm_ipc_signal_create(hsa_signal_t *signal_p,
                                        hsa_amd_ipc_signal_t *handle_p)
{
    hsa_status_t status;

    status = hsa_amd_signal_create(UCT_ROCM_IPC_SIGNAL_ALIVE, 0, NULL,
                                   HSA_AMD_SIGNAL_IPC, signal_p);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }

    status = hsa_amd_ipc_signal_create(*signal_p, handle_p);
    if (status != HSA_STATUS_SUCCESS) {
        uct_rocm_ipc_signal_destroy(*signal_p);
    }

    return status;
}

ucs_status_t uct_rocm_ipc_signal_attach(const hsa_amd_ipc_signal_t *handle,
                                        hsa_signal_t *signal_p)
{
    hsa_status_t status;

    status = hsa_amd_ipc_signal_attach(handle, signal_p);
    if (status == HSA_STATUS_ERROR_OUT_OF_RESOURCES) {
        return UCS_ERR_NO_MEMORY;
    } else if (status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to attach the lifetime signal of remote memory: %s",
                  uct_rocm_ipc_hsa_status_string(status));
        return UCS_ERR_INVALID_ADDR;
    }

    if (!uct_rocm_ipc_signal_is_alive(*signal_p)) {
        ucs_diag("remote memory was freed by its owner");
        uct_rocm_ipc_signal_destroy(*signal_p);
        return UCS_ERR_INVALID_ADDR;
    }

    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_signal_watch(hsa_signal_t signal,
                                       hsa_amd_signal_handler handler,
                                       void *arg)
{
    static int refused = 0;
    hsa_status_t status;

    if (__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        return UCS_ERR_UNSUPPORTED;
    }

    status = hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_LT,
                                          UCT_ROCM_IPC_SIGNAL_ALIVE, handler,
                                          arg);
    if (status == HSA_STATUS_SUCCESS) {
        return UCS_OK;
    }

    /* What runtimes say which never watch IPC signals. Whatever else has gone
     * wrong may not happen the next time. */
    if ((status == HSA_STATUS_ERROR_INVALID_SIGNAL) &&
        !__atomic_exchange_n(&refused, 1, __ATOMIC_RELAXED)) {
        ucs_info("the ROCm runtime does not watch IPC signals (%s), a thread"
                 " of UCX does so",
                 uct_rocm_ipc_hsa_status_string(status));
    }

    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t uct_rocm_ipc_signal_create_completion(hsa_signal_t *signal_p)
{
    hsa_status_t status;

    status = hsa_signal_create(1, 0, NULL, signal_p);
    if (status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to create the signal of a copy: %s",
                  uct_rocm_ipc_hsa_status_string(status));
        return UCS_ERR_NO_MEMORY;
    }

    return UCS_OK;
}

void uct_rocm_ipc_signal_destroy(hsa_signal_t signal)
{
    hsa_status_t status = hsa_signal_destroy(signal);

    if (status != HSA_STATUS_SUCCESS) {
        ucs_warn("failed to destroy a signal: %s",
                 uct_rocm_ipc_hsa_status_string(status));
    }
}
