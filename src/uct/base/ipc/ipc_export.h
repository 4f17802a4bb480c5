/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_EXPORT_H_
#define UCT_IPC_EXPORT_H_

#include "ipc_stats.h"

#include <ucs/datastruct/queue.h>
#include <ucs/sys/compiler_def.h>
#include <ucs/time/time.h>
#include <ucs/type/spinlock.h>
#include <ucs/type/status.h>

#include <stddef.h>
#include <stdint.h>


/**
 * @file ipc_export.h
 * @brief The exporter's table: what this process has handed out to its peers.
 *
 * The table knows allocations by address range. How memory is shared and how
 * peers are told of a free is the business of the GPU module, which embeds
 * @ref uct_ipc_export_t and provides @ref uct_ipc_export_ops_t.
 *
 * The rules:
 *  1. There is one export for each live allocation that has been handed out.
 *  2. An export is live (in the tree) or retired (in the retired queue). Only a
 *     free, or the discovery that one went unnoticed, retires it.
 *  3. A retired export is destroyed by whoever progresses or exports next, once
 *     it is @ref UCT_IPC_EXPORT_KEEP_SEC old, or earlier if more than
 *     @ref UCT_IPC_EXPORT_MAX_RETIRED wait. Until then a key that is already on
 *     its way finds the lifetime channel, and reads that the memory is gone.
 *  4. create() and destroy() are called without the lock; mark_freed() and
 *     pack() are called under it and must not block, allocate, or call anything
 *     that may free memory.
 *  5. The free path (@ref uct_ipc_export_table_retire) allocates nothing and
 *     destroys nothing, since it runs inside a memory hook.
 */


/** How long a retired export is kept, in seconds: much longer than a key needs
 *  to reach a peer, and short enough that the objects do not pile up. */
#define UCT_IPC_EXPORT_KEEP_SEC 1.0

/** How many retired exports are kept at most. */
#define UCT_IPC_EXPORT_MAX_RETIRED 1024


typedef struct uct_ipc_export uct_ipc_export_t;


/** Common part of the record of one exported allocation. */
struct uct_ipc_export {
    uct_ipc_export_t *left;      /**< Tree of live exports, by address */
    uct_ipc_export_t *right;
    uintptr_t        base;       /**< First address of the allocation */
    uintptr_t        last;       /**< Its last address */
    ucs_time_t       retired_at; /**< When it was retired */
    ucs_queue_elem_t queue;      /**< Element of the retired queue */
    char             color;      /**< Of the tree node */
};


/** What a GPU module does with an export. */
typedef struct uct_ipc_export_ops {
    /**
     * Share an allocation. Called without the lock.
     *
     * @param [in]  base      First address of the allocation.
     * @param [in]  length    Its length in bytes.
     * @param [in]  arg       As given to @ref uct_ipc_export_table_pack.
     * @param [out] export_p  New export, whose common part the table fills.
     */
    ucs_status_t (*create)(uintptr_t base, size_t length, const void *arg,
                           uct_ipc_export_t **export_p);

    /** Release an export and all that it holds. Called without the lock. */
    void         (*destroy)(uct_ipc_export_t *ipc_export);

    /** Tell all importers that the memory is gone. Called under the lock. */
    void         (*mark_freed)(uct_ipc_export_t *ipc_export);

    /** Write the key of a live export to a buffer. Called under the lock. */
    void         (*pack)(const uct_ipc_export_t *ipc_export, void *buffer);
} uct_ipc_export_ops_t;


/* An export that is being created, on the stack of the creating thread */
typedef struct uct_ipc_export_pending uct_ipc_export_pending_t;


/** Counters of a table. */
enum {
    UCT_IPC_EXPORT_STAT_LIVE,     /**< Exports of live allocations */
    UCT_IPC_EXPORT_STAT_RETIRED,  /**< Exports which wait to be destroyed */
    UCT_IPC_EXPORT_STAT_REAPED,   /**< Exports destroyed so far */
    UCT_IPC_EXPORT_STAT_UNTOLD,   /**< Shared without a lifetime channel so far;
                                       counted by the GPU module */
    UCT_IPC_EXPORT_STAT_LAST
};


/** Table of the exports of one process for one kind of memory. */
typedef struct uct_ipc_export_table {
    ucs_spinlock_t             lock;        /**< Protects all below */
    const uct_ipc_export_ops_t *ops;
    uct_ipc_export_t           *live;       /**< Root of the tree */
    uintptr_t                  lowest;      /**< No live export is below ... */
    uintptr_t                  highest;     /**< ... or above that */
    uct_ipc_export_pending_t   *pending;    /**< Being created */
    ucs_queue_head_t           retired;     /**< Oldest first */
    unsigned                   num_retired;
    uct_ipc_stats_t            stats;       /**< UCT_IPC_EXPORT_STAT_xxx */
    ucs_time_t                 keep;        /**< Life of a retired export */
    ucs_time_t                 reap_time;   /**< When the oldest retired export
                                                 is due, or UCS_TIME_INFINITY;
                                                 also read without the lock */
} uct_ipc_export_table_t;


/**
 * Initialize an empty table.
 *
 * @param [out] table  Table to initialize.
 * @param [in]  ops    Operations, which must outlive the table.
 */
ucs_status_t uct_ipc_export_table_init(uct_ipc_export_table_t *table,
                                       const uct_ipc_export_ops_t *ops);


/**
 * Withdraw and destroy all exports: importers are told that the memory is gone.
 * The table can be used further.
 */
void uct_ipc_export_table_purge(uct_ipc_export_table_t *table);


/**
 * Release a table which was purged and which nobody uses any more.
 */
void uct_ipc_export_table_cleanup(uct_ipc_export_table_t *table);


/**
 * Write the key of an allocation, and share the allocation first if this has
 * not been done yet. May be called from any thread.
 *
 * @param [in]  table       Table of exports.
 * @param [in]  base        First address of the allocation.
 * @param [in]  length      Length of the allocation in bytes.
 * @param [in]  create_arg  Passed to ops->create().
 * @param [out] buffer      Filled by ops->pack().
 *
 * @return UCS_OK, UCS_ERR_INVALID_ADDR if the allocation was freed meanwhile,
 *         or what ops->create() returned.
 */
ucs_status_t uct_ipc_export_table_pack(uct_ipc_export_table_t *table,
                                       uintptr_t base, size_t length,
                                       const void *create_arg, void *buffer);


/**
 * Retire every export that overlaps a range which is about to be freed. May be
 * called from any thread and from a memory hook, see rule 5.
 *
 * @param [in]  table    Table of exports.
 * @param [in]  address  First address of the range.
 * @param [in]  length   Length of the range in bytes; 0 means 1.
 */
void uct_ipc_export_table_retire(uct_ipc_export_table_t *table,
                                 uintptr_t address, size_t length);


/**
 * Destroy the retired exports which are due. May be called from any thread, but
 * not from a memory hook.
 *
 * @return How many exports were destroyed.
 */
unsigned uct_ipc_export_table_reap(uct_ipc_export_table_t *table);


/**
 * Call @ref uct_ipc_export_table_reap if something is due. With nothing retired
 * this is one plain load. A stale value only delays the reaping to a later
 * call, therefore no memory order is needed.
 */
static UCS_F_ALWAYS_INLINE unsigned
uct_ipc_export_table_progress(uct_ipc_export_table_t *table)
{
    ucs_time_t reap_time = __atomic_load_n(&table->reap_time, __ATOMIC_RELAXED);

    if (ucs_likely(reap_time == UCS_TIME_INFINITY) ||
        (ucs_get_time() < reap_time)) {
        return 0;
    }

    return uct_ipc_export_table_reap(table);
}

#endif
