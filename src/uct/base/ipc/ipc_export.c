/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ipc_export.h"

#include <ucs/datastruct/sglib_wrapper.h>
#include <ucs/debug/assert.h>
#include <ucs/debug/log.h>
#include <ucs/sys/math.h>


struct uct_ipc_export_pending {
    uct_ipc_export_pending_t *next;
    uintptr_t                base;
    size_t                   length;
    int                      freed;  /* The range was freed meanwhile */
};


static const char *const uct_ipc_export_stat_names[] = {
    [UCT_IPC_EXPORT_STAT_LIVE]    = "live",
    [UCT_IPC_EXPORT_STAT_RETIRED] = "retired",
    [UCT_IPC_EXPORT_STAT_REAPED]  = "reaped",
    [UCT_IPC_EXPORT_STAT_UNTOLD]  = "untold"
};


/* Overlapping ranges compare as equal. Live exports never overlap, so that this
 * is a strict order among them. */
static UCS_F_ALWAYS_INLINE int
uct_ipc_export_compare(const uct_ipc_export_t *export1,
                       const uct_ipc_export_t *export2)
{
    if (export1->last < export2->base) {
        return -1;
    }

    return export2->last < export1->base;
}

/* The functions which the library generates have variables that its macros do
 * not use in every case */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
SGLIB_DEFINE_RBTREE_PROTOTYPES(uct_ipc_export_t, left, right, color,
                               uct_ipc_export_compare)
SGLIB_DEFINE_RBTREE_FUNCTIONS(uct_ipc_export_t, left, right, color,
                              uct_ipc_export_compare)
#pragma GCC diagnostic pop


/* Find an export that overlaps a range, which is cut at the end of the address
 * space. Every free of device memory comes here, most often in vain, so that
 * this does not go through the library's comparisons, nor down the edges of the
 * tree, which are its longest paths. */
static uct_ipc_export_t *
uct_ipc_export_table_find(const uct_ipc_export_table_t *table, uintptr_t base,
                          size_t length)
{
    uintptr_t last = base + ucs_min(length - 1, UINTPTR_MAX - base);
    uct_ipc_export_t *ipc_export = table->live;

    if ((last < table->lowest) || (base > table->highest)) {
        return NULL;
    }

    while (ipc_export != NULL) {
        if (last < ipc_export->base) {
            ipc_export = ipc_export->left;
        } else if (base > ipc_export->last) {
            ipc_export = ipc_export->right;
        } else {
            break;
        }
    }

    return ipc_export;
}

static void uct_ipc_export_table_reset_bounds(uct_ipc_export_table_t *table)
{
    table->lowest  = UINTPTR_MAX;
    table->highest = 0;
}

static void uct_ipc_export_table_add(uct_ipc_export_table_t *table,
                                     uct_ipc_export_t *ipc_export)
{
    sglib_uct_ipc_export_t_add(&table->live, ipc_export);
    table->lowest  = ucs_min(table->lowest, ipc_export->base);
    table->highest = ucs_max(table->highest, ipc_export->last);
    uct_ipc_stats_add(&table->stats, UCT_IPC_EXPORT_STAT_LIVE, 1);
}

static void uct_ipc_export_table_retire_one(uct_ipc_export_table_t *table,
                                            uct_ipc_export_t *ipc_export)
{
    ucs_time_t reap_time;

    sglib_uct_ipc_export_t_delete(&table->live, ipc_export);
    if (table->live == NULL) {
        uct_ipc_export_table_reset_bounds(table);
    }
    table->ops->mark_freed(ipc_export);

    ipc_export->retired_at = ucs_get_time();
    ucs_queue_push(&table->retired, &ipc_export->queue);
    ++table->num_retired;
    uct_ipc_stats_add(&table->stats, UCT_IPC_EXPORT_STAT_LIVE, -1);
    uct_ipc_stats_add(&table->stats, UCT_IPC_EXPORT_STAT_RETIRED, 1);

    if (table->num_retired > UCT_IPC_EXPORT_MAX_RETIRED) {
        reap_time = 0; /* Due now */
    } else if (table->num_retired == 1) {
        reap_time = ipc_export->retired_at + table->keep;
    } else {
        return; /* The oldest one has set the time */
    }

    __atomic_store_n(&table->reap_time, reap_time, __ATOMIC_RELAXED);
}

/* Called under the lock */
static void uct_ipc_export_table_retire_range(uct_ipc_export_table_t *table,
                                              uintptr_t address, size_t length)
{
    uct_ipc_export_t *ipc_export;

    while ((ipc_export = uct_ipc_export_table_find(table, address, length)) !=
           NULL) {
        uct_ipc_export_table_retire_one(table, ipc_export);
    }
}

void uct_ipc_export_table_retire(uct_ipc_export_table_t *table,
                                 uintptr_t address, size_t length)
{
    uct_ipc_export_pending_t *pending;

    length = ucs_max(length, 1);

    ucs_spin_lock(&table->lock);
    uct_ipc_export_table_retire_range(table, address, length);

    /* Closed race: another thread is sharing this memory right now. Its export
     * would enter the tree after the only event that could retire it. */
    for (pending = table->pending; pending != NULL; pending = pending->next) {
        if ((pending->base - address < length) ||
            (address - pending->base < pending->length)) {
            pending->freed = 1;
        }
    }
    ucs_spin_unlock(&table->lock);
}

static void uct_ipc_export_pending_remove(uct_ipc_export_table_t *table,
                                          uct_ipc_export_pending_t *pending)
{
    uct_ipc_export_pending_t **link = &table->pending;

    while (*link != pending) {
        link = &(*link)->next;
    }

    *link = pending->next;
}

/* Pack the live export of an allocation. An export that overlaps but is not
 * the same allocation was freed without an event, so it is retired here.
 * Called under the lock; returns nonzero if the key was packed. */
static int uct_ipc_export_table_pack_live(uct_ipc_export_table_t *table,
                                          uintptr_t base, size_t length,
                                          void *buffer)
{
    uct_ipc_export_t *ipc_export;

    ipc_export = uct_ipc_export_table_find(table, base, length);
    if (ipc_export == NULL) {
        return 0;
    }

    if ((ipc_export->base == base) &&
        (ipc_export->last == base + (length - 1))) {
        table->ops->pack(ipc_export, buffer);
        return 1;
    }

    uct_ipc_export_table_retire_range(table, base, length);
    return 0;
}

static ucs_status_t
uct_ipc_export_table_create(uct_ipc_export_table_t *table,
                            uct_ipc_export_pending_t *pending,
                            const void *create_arg, void *buffer)
{
    uct_ipc_export_t *unused     = NULL;
    uct_ipc_export_t *ipc_export = NULL;
    ucs_status_t status;

    status = table->ops->create(pending->base, pending->length, create_arg,
                                &ipc_export);

    ucs_spin_lock(&table->lock);
    uct_ipc_export_pending_remove(table, pending);
    if (status != UCS_OK) {
        /* Nothing was made */
    } else if (pending->freed) {
        unused = ipc_export;
        status = UCS_ERR_INVALID_ADDR;
    } else if (uct_ipc_export_table_pack_live(table, pending->base,
                                              pending->length, buffer)) {
        /* Closed race: another thread has shared the same allocation
         * meanwhile; all keys of an allocation must name the same export */
        unused = ipc_export;
    } else {
        ipc_export->base = pending->base;
        ipc_export->last = pending->base + (pending->length - 1);
        uct_ipc_export_table_add(table, ipc_export);
        table->ops->pack(ipc_export, buffer);
    }
    ucs_spin_unlock(&table->lock);

    if (unused != NULL) {
        table->ops->destroy(unused);
    }

    return status;
}

ucs_status_t uct_ipc_export_table_pack(uct_ipc_export_table_t *table,
                                       uintptr_t base, size_t length,
                                       const void *create_arg, void *buffer)
{
    uct_ipc_export_pending_t pending = {
        .base   = base,
        .length = length,
        .freed  = 0
    };
    int packed;

    ucs_assert((length > 0) && (base + (length - 1) >= base));

    ucs_spin_lock(&table->lock);
    packed = uct_ipc_export_table_pack_live(table, base, length, buffer);
    if (!packed) {
        pending.next   = table->pending;
        table->pending = &pending;
    }
    ucs_spin_unlock(&table->lock);

    if (ucs_likely(packed)) {
        return UCS_OK;
    }

    /* Also here, so that a process which never progresses stays bounded */
    uct_ipc_export_table_progress(table);
    return uct_ipc_export_table_create(table, &pending, create_arg, buffer);
}

/* Called under the lock */
static void uct_ipc_export_table_set_reap_time(uct_ipc_export_table_t *table)
{
    ucs_time_t reap_time;

    if (ucs_queue_is_empty(&table->retired)) {
        reap_time = UCS_TIME_INFINITY;
    } else {
        reap_time = ucs_queue_head_elem_non_empty(&table->retired,
                                                  uct_ipc_export_t, queue)
                            ->retired_at +
                    table->keep;
    }

    __atomic_store_n(&table->reap_time, reap_time, __ATOMIC_RELAXED);
}

static unsigned
uct_ipc_export_table_reap_until(uct_ipc_export_table_t *table, ucs_time_t now)
{
    unsigned count = 0;
    uct_ipc_export_t *ipc_export;
    ucs_queue_head_t victims;
    ucs_queue_iter_t iter;

    ucs_queue_head_init(&victims);

    ucs_spin_lock(&table->lock);
    ucs_queue_for_each_safe(ipc_export, iter, &table->retired, queue) {
        if ((table->num_retired <= UCT_IPC_EXPORT_MAX_RETIRED) &&
            (ipc_export->retired_at + table->keep > now)) {
            break;
        }

        ucs_queue_del_iter(&table->retired, iter);
        ucs_queue_push(&victims, &ipc_export->queue);
        --table->num_retired;
        uct_ipc_stats_add(&table->stats, UCT_IPC_EXPORT_STAT_RETIRED, -1);
        uct_ipc_stats_add(&table->stats, UCT_IPC_EXPORT_STAT_REAPED, 1);
    }
    uct_ipc_export_table_set_reap_time(table);
    ucs_spin_unlock(&table->lock);

    ucs_queue_for_each_extract(ipc_export, &victims, queue, 1) {
        table->ops->destroy(ipc_export);
        ++count;
    }

    return count;
}

unsigned uct_ipc_export_table_reap(uct_ipc_export_table_t *table)
{
    return uct_ipc_export_table_reap_until(table, ucs_get_time());
}

ucs_status_t uct_ipc_export_table_init(uct_ipc_export_table_t *table,
                                       const uct_ipc_export_ops_t *ops)
{
    table->ops         = ops;
    table->live        = NULL;
    table->pending     = NULL;
    table->num_retired = 0;
    table->keep        = ucs_time_from_sec(UCT_IPC_EXPORT_KEEP_SEC);
    table->reap_time   = UCS_TIME_INFINITY;
    table->stats       = (uct_ipc_stats_t)
            UCT_IPC_STATS_INITIALIZER(uct_ipc_export_stat_names, NULL);
    uct_ipc_export_table_reset_bounds(table);
    ucs_queue_head_init(&table->retired);
    return ucs_spinlock_init(&table->lock, 0);
}

void uct_ipc_export_table_purge(uct_ipc_export_table_t *table)
{
    uct_ipc_export_table_retire(table, 0, UINTPTR_MAX);
    uct_ipc_export_table_reap_until(table, UCS_TIME_INFINITY);
}

void uct_ipc_export_table_cleanup(uct_ipc_export_table_t *table)
{
    ucs_assert((table->live == NULL) && (table->pending == NULL));
    ucs_assert(ucs_queue_is_empty(&table->retired));

    ucs_spinlock_destroy(&table->lock);
}
