/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_STATS_H_
#define UCT_IPC_STATS_H_

#include <ucs/stats/stats.h>
#include <ucs/type/status.h>

#include <stdint.h>


/**
 * @file ipc_stats.h
 * @brief Counters, which are shown both as UCS statistics, where UCX is built
 *        with these, and as files in the virtual file system.
 */


#define UCT_IPC_STATS_MAX_COUNTERS 8


typedef struct uct_ipc_stats uct_ipc_stats_t;


/** Read a counter which is more than its value. */
typedef uint64_t (*uct_ipc_stats_get_func_t)(const uct_ipc_stats_t *stats,
                                             unsigned counter);


/** Counters of one object. */
struct uct_ipc_stats {
    const char *const        *names;       /**< Of the counters */
    unsigned                 num_counters;
    uct_ipc_stats_get_func_t get;          /**< NULL: the value is all */
    uint64_t                 values[UCT_IPC_STATS_MAX_COUNTERS]; /**< Atomic */
    UCS_STATS_NODE_DECLARE(node)
};


#define UCT_IPC_STATS_INITIALIZER(_names, _get) \
    { \
        .names        = (_names), \
        .num_counters = ucs_static_array_size(_names), \
        .get          = (_get) \
    }


/** Add to a counter, which may be a gauge: @a _delta may be negative. */
#define uct_ipc_stats_add(_stats, _counter, _delta) \
    do { \
        __atomic_add_fetch(&(_stats)->values[_counter], _delta, \
                           __ATOMIC_RELAXED); \
        UCS_STATS_UPDATE_COUNTER((_stats)->node, _counter, _delta); \
    } while (0)


/** @return Value of a counter. */
static inline uint64_t
uct_ipc_stats_get(const uct_ipc_stats_t *stats, unsigned counter)
{
    return __atomic_load_n(&stats->values[counter], __ATOMIC_RELAXED);
}


/**
 * Make the counters a node of UCS statistics, if UCX is built with these.
 *
 * @param [in] stats  Counters.
 * @param [in] name   Name of the class of statistics.
 */
void uct_ipc_stats_node_alloc(uct_ipc_stats_t *stats, const char *name);


/** Remove the node from UCS statistics. The counters remain. */
void uct_ipc_stats_node_free(uct_ipc_stats_t *stats);


/**
 * Show the counters as files in the virtual file system.
 *
 * @param [in] obj     Object of the virtual file system, which ends before the
 *                     counters do.
 * @param [in] stats   Counters.
 * @param [in] folder  Name of the folder for the files, below the object.
 */
void uct_ipc_stats_vfs_init(void *obj, uct_ipc_stats_t *stats,
                            const char *folder);

#endif
