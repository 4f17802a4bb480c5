/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_SETTINGS_H_
#define EMUL_CORE_SETTINGS_H_

#include <cstdint>

/*
 * The settings of a node. The process that creates the node takes the initial
 * values from its environment; emul_api_t::set changes them afterwards for all
 * processes. The table in settings.cc says what each means.
 */

namespace emul {

enum setting {
    setting_gpus,
    setting_gpu_memory,
    setting_address_reuse,
    setting_late_attach,
    setting_free,
    setting_ipc_owner_visible,
    setting_ipc_handler,
    setting_destroyed_handler,
    setting_handler_wakeup,
    setting_copy_bandwidth,
    setting_copy_latency,
    setting_max_ipc_signals,
    setting_max_attaches,
    setting_error_scope,
    setting_count
};

/* Values of the settings that are a choice; the order is that of the words in
 * the table. */
enum { address_reuse_default, address_reuse_force, address_reuse_forbid };
enum { late_attach_error, late_attach_block };
enum { free_block, free_deferred };
enum { ipc_handler_accept, ipc_handler_refuse };
enum { destroyed_handler_drop, destroyed_handler_call };
enum { error_scope_process, error_scope_context };
enum { handler_wakeup_prompt, handler_wakeup_late, handler_wakeup_lost };

/** The current value: a number, or the index of the chosen word. */
int64_t setting_value(setting which);

/** emul_api_t::set */
int settings_set(const char *name, const char *value);

/** Fill a new node's values from the environment, defaults elsewhere. */
void settings_initialize();

/** Say on stderr which settings in this process's environment differ from
 *  those of the node that it joined, because they have no effect. */
void settings_compare_environment();

} // namespace emul

#endif
