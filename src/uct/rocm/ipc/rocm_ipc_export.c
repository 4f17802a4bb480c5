/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_export.h"
#include "rocm_ipc_signal.h"

#include <ucm/api/ucm.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/compiler.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>


/* Before the handler of the registration cache, whose default is 1000: what is
 * registered may be needed to reach what is exported, but not the reverse */
#define UCT_ROCM_IPC_FREE_EVENT_PRIORITY 100


/* One exported allocation */
typedef struct uct_rocm_ipc_export {
    uct_ipc_export_t     super;
    hsa_amd_ipc_memory_t handle;        /* IPC memory handle */
    int                  has_signal;    /* Below is valid */
    hsa_signal_t         signal;        /* Lifetime signal */
    hsa_amd_ipc_signal_t signal_handle; /* ... as other processes see it */
} uct_rocm_ipc_export_t;


/* Never destroyed, since interfaces progress it at any time */
uct_ipc_export_table_t uct_rocm_ipc_export_table = {
    .reap_time = UCS_TIME_INFINITY
};

static struct {
    pthread_mutex_t lock;
    int             initialized; /* The table is */
    unsigned        open_count;  /* Memory domains */
    pid_t           pid;         /* Process which has opened them */
} uct_rocm_ipc_exports = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


ucs_status_t uct_rocm_ipc_memory_create(uintptr_t base, size_t length,
                                        hsa_amd_ipc_memory_t *handle_p)
{
    hsa_status_t status;

    status = hsa_amd_ipc_memory_create((void*)base, length, handle_p);
    if (status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to create the IPC handle of memory %p length %zu: %s",
                  (void*)base, length, uct_rocm_ipc_hsa_status_string(status));
        return UCS_ERR_INVALID_ADDR;
    }

    return UCS_OK;
}

static void
uct_rocm_ipc_export_create_signal(uct_rocm_ipc_export_t *rocm_export)
{
    static int warned = 0;
    hsa_status_t status;

    status                  = uct_rocm_ipc_signal_create(&rocm_export->signal,
                                                         &rocm_export->signal_handle);
    rocm_export->has_signal = (status == HSA_STATUS_SUCCESS);
    if (rocm_export->has_signal) {
        return;
    }

    uct_ipc_stats_add(&uct_rocm_ipc_export_table.stats,
                      UCT_IPC_EXPORT_STAT_UNTOLD, 1);
    if (!__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED)) {
        ucs_warn("failed to create a ROCm IPC signal (%s): some memory is"
                 " shared without one, and freeing it waits for the peers"
                 " which have mapped it. Share fewer allocations at a time, or"
                 " set UCX_ROCM_IPC_SIGNAL_INVALIDATE=n to share all memory"
                 " so.",
                 uct_rocm_ipc_hsa_status_string(status));
    }
}

static ucs_status_t uct_rocm_ipc_export_create(uintptr_t base, size_t length,
                                               const void *arg,
                                               uct_ipc_export_t **export_p)
{
    uct_rocm_ipc_export_t *rocm_export;
    ucs_status_t status;

    rocm_export = ucs_calloc(1, sizeof(*rocm_export), "rocm_ipc_export");
    if (rocm_export == NULL) {
        ucs_error("failed to allocate a ROCm IPC export");
        return UCS_ERR_NO_MEMORY;
    }

    status = uct_rocm_ipc_memory_create(base, length, &rocm_export->handle);
    if (status != UCS_OK) {
        ucs_free(rocm_export);
        return status;
    }

    uct_rocm_ipc_export_create_signal(rocm_export);
    ucs_debug("exported memory %p length %zu %s a lifetime signal",
              (void *)base, length,
              rocm_export->has_signal ? "with" : "without");
    *export_p = &rocm_export->super;
    return UCS_OK;
}

static void uct_rocm_ipc_export_destroy(uct_ipc_export_t *ipc_export)
{
    uct_rocm_ipc_export_t *rocm_export = ucs_derived_of(ipc_export,
                                                        uct_rocm_ipc_export_t);

    if (rocm_export->has_signal) {
        uct_rocm_ipc_signal_destroy(rocm_export->signal);
    }

    ucs_free(rocm_export);
}

static void uct_rocm_ipc_export_mark_freed(uct_ipc_export_t *ipc_export)
{
    uct_rocm_ipc_export_t *rocm_export = ucs_derived_of(ipc_export,
                                                        uct_rocm_ipc_export_t);

    if (rocm_export->has_signal) {
        uct_rocm_ipc_signal_set_freed(rocm_export->signal);
    }
}

static void
uct_rocm_ipc_export_pack_key(const uct_ipc_export_t *ipc_export, void *buffer)
{
    const uct_rocm_ipc_export_t *rocm_export =
            ucs_derived_of(ipc_export, uct_rocm_ipc_export_t);
    uct_rocm_ipc_key_t *key                  = buffer;

    key->ipc = rocm_export->handle;
    if (rocm_export->has_signal) {
        key->dev_num |= UCT_ROCM_IPC_KEY_FLAG_SIGNAL;
        key->signal   = rocm_export->signal_handle;
    }
}

static const uct_ipc_export_ops_t uct_rocm_ipc_export_ops = {
    .create     = uct_rocm_ipc_export_create,
    .destroy    = uct_rocm_ipc_export_destroy,
    .mark_freed = uct_rocm_ipc_export_mark_freed,
    .pack       = uct_rocm_ipc_export_pack_key
};

ucs_status_t
uct_rocm_ipc_export_pack(uintptr_t base, size_t length, uct_rocm_ipc_key_t *key)
{
    return uct_ipc_export_table_pack(&uct_rocm_ipc_export_table, base, length,
                                     NULL, key);
}

/* What a forked child has of the exports is its parent's, and so is the runtime
 * behind them */
static int uct_rocm_ipc_exports_are_mine(void)
{
    return uct_rocm_ipc_exports.pid == getpid();
}

/* A memory hook, called before the memory is freed: rule 5 of ipc_export.h */
static void uct_rocm_ipc_free_event_cb(ucm_event_type_t event_type,
                                       ucm_event_t *event, void *arg)
{
    if (((event->mem_type.mem_type == UCS_MEMORY_TYPE_ROCM) ||
         (event->mem_type.mem_type == UCS_MEMORY_TYPE_ROCM_MANAGED)) &&
        uct_rocm_ipc_exports_are_mine()) {
        uct_ipc_export_table_retire(&uct_rocm_ipc_export_table,
                                    (uintptr_t)event->mem_type.address,
                                    event->mem_type.size);
    }
}

static void uct_rocm_ipc_exports_withdraw(void)
{
    /* Returns when no thread is in the handler any more */
    ucm_unset_event_handler(UCM_EVENT_MEM_TYPE_FREE, uct_rocm_ipc_free_event_cb,
                            NULL);
    uct_ipc_export_table_purge(&uct_rocm_ipc_export_table);
}

static void uct_rocm_ipc_exports_exit(void)
{
    if ((uct_rocm_ipc_exports.open_count > 0) &&
        uct_rocm_ipc_exports_are_mine()) {
        uct_rocm_ipc_exports_withdraw();
    }
}

static ucs_status_t uct_rocm_ipc_exports_init(void)
{
    ucs_status_t status;

    if (uct_rocm_ipc_exports.initialized) {
        return UCS_OK;
    }

    status = uct_ipc_export_table_init(&uct_rocm_ipc_export_table,
                                       &uct_rocm_ipc_export_ops);
    if (status != UCS_OK) {
        return status;
    }

    /* Not a destructor of this module: the runtime may have been loaded by it,
     * and would then be torn down before. A function that is registered after
     * the runtime was initialized is called earlier in any case. */
    if (atexit(uct_rocm_ipc_exports_exit) != 0) {
        ucs_debug("exports are not withdrawn when the process exits");
    }

    uct_rocm_ipc_exports.initialized = 1;
    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_exports_open(void)
{
    ucs_status_t status;

    pthread_mutex_lock(&uct_rocm_ipc_exports.lock);
    if (uct_rocm_ipc_exports.open_count == 0) {
        status = uct_rocm_ipc_exports_init();
        if (status != UCS_OK) {
            goto out_unlock;
        }

        status = ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE,
                                       UCT_ROCM_IPC_FREE_EVENT_PRIORITY,
                                       uct_rocm_ipc_free_event_cb, NULL);
        if (status != UCS_OK) {
            goto out_unlock;
        }

        uct_rocm_ipc_exports.pid = getpid();
        uct_ipc_stats_node_alloc(&uct_rocm_ipc_export_table.stats,
                                 "rocm_ipc_exports");
    }

    ++uct_rocm_ipc_exports.open_count;
    status = UCS_OK;

out_unlock:
    pthread_mutex_unlock(&uct_rocm_ipc_exports.lock);
    return status;
}

void uct_rocm_ipc_exports_close(void)
{
    pthread_mutex_lock(&uct_rocm_ipc_exports.lock);
    if ((--uct_rocm_ipc_exports.open_count == 0) &&
        uct_rocm_ipc_exports_are_mine()) {
        uct_rocm_ipc_exports_withdraw();
        uct_ipc_stats_node_free(&uct_rocm_ipc_export_table.stats);
    }
    pthread_mutex_unlock(&uct_rocm_ipc_exports.lock);
}
