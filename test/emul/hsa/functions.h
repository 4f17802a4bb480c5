/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_FUNCTIONS_H_
#define EMUL_HSA_FUNCTIONS_H_

/*
 * The functions of the HSA runtime that are emulated, by name, for the hook
 * that each call passes (api.h). One that is missing here does not compile.
 */

/* Functions that return hsa_status_t and can therefore be made to fail. */
#define EMUL_HSA_STATUS_FUNCTIONS(_f) \
    _f(hsa_init) \
    _f(hsa_shut_down) \
    _f(hsa_status_string) \
    _f(hsa_system_get_info) \
    _f(hsa_iterate_agents) \
    _f(hsa_agent_get_info) \
    _f(hsa_amd_agent_iterate_memory_pools) \
    _f(hsa_amd_memory_pool_get_info) \
    _f(hsa_amd_agent_memory_pool_get_info) \
    _f(hsa_amd_memory_pool_allocate) \
    _f(hsa_amd_memory_pool_free) \
    _f(hsa_amd_agents_allow_access) \
    _f(hsa_amd_register_deallocation_callback) \
    _f(hsa_amd_deregister_deallocation_callback) \
    _f(hsa_amd_ipc_memory_create) \
    _f(hsa_amd_ipc_memory_attach) \
    _f(hsa_amd_ipc_memory_detach) \
    _f(hsa_amd_memory_lock) \
    _f(hsa_amd_memory_lock_to_pool) \
    _f(hsa_amd_memory_unlock) \
    _f(hsa_amd_pointer_info) \
    _f(hsa_amd_pointer_info_set_userdata) \
    _f(hsa_memory_copy) \
    _f(hsa_amd_memory_fill) \
    _f(hsa_amd_memory_async_copy) \
    _f(hsa_signal_create) \
    _f(hsa_amd_signal_create) \
    _f(hsa_signal_destroy) \
    _f(hsa_amd_ipc_signal_create) \
    _f(hsa_amd_ipc_signal_attach) \
    _f(hsa_amd_signal_async_handler) \
    _f(hsa_amd_async_function)

/* An operation on a signal's value in its memory orders. */
#define EMUL_HSA_FOUR_ORDERS(_f, _name) \
    _f(_name##_relaxed) \
    _f(_name##_scacquire) \
    _f(_name##_screlease) \
    _f(_name##_scacq_screl) \
    _f(_name##_acquire) \
    _f(_name##_release) \
    _f(_name##_acq_rel)

/* Functions that return a value or nothing. */
#define EMUL_HSA_PLAIN_FUNCTIONS(_f) \
    _f(hsa_signal_load_relaxed) \
    _f(hsa_signal_load_scacquire) \
    _f(hsa_signal_load_acquire) \
    _f(hsa_signal_store_relaxed) \
    _f(hsa_signal_store_screlease) \
    _f(hsa_signal_store_release) \
    _f(hsa_signal_silent_store_relaxed) \
    _f(hsa_signal_silent_store_screlease) \
    _f(hsa_signal_wait_relaxed) \
    _f(hsa_signal_wait_scacquire) \
    _f(hsa_signal_wait_acquire) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_add) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_subtract) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_and) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_or) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_xor) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_exchange) \
    EMUL_HSA_FOUR_ORDERS(_f, hsa_signal_cas)

/* Points of gates and rules that are not functions. */
#define EMUL_HSA_PLACES(_f) \
    _f(copy) \
    _f(handler)

#endif
