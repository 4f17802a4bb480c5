/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ipc_stats.h"

#include <ucs/datastruct/string_buffer.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/vfs/base/vfs_obj.h>

#include <inttypes.h>
#include <unistd.h>


void uct_ipc_stats_node_alloc(uct_ipc_stats_t *stats, const char *name)
{
#ifdef ENABLE_STATS
    ucs_stats_class_t *stats_class;
    unsigned i;

    /* Lives as long as the report, which is written when the process exits */
    stats_class = ucs_calloc(
            1,
            sizeof(*stats_class) +
                    stats->num_counters * sizeof(stats_class->counter_names[0]),
            "ipc_stats_class");
    if (stats_class == NULL) {
        ucs_warn("failed to allocate the statistics of %s", name);
        return;
    }

    stats_class->name         = name;
    stats_class->num_counters = stats->num_counters;
    stats_class->class_id     = UCS_STATS_CLASS_ID_INVALID;
    for (i = 0; i < stats->num_counters; ++i) {
        stats_class->counter_names[i] = stats->names[i];
    }

    if (UCS_STATS_NODE_ALLOC(&stats->node, stats_class, ucs_stats_get_root(),
                             "-%d", getpid()) != UCS_OK) {
        stats->node = NULL;
        ucs_free(stats_class);
    }
#endif
}

void uct_ipc_stats_node_free(uct_ipc_stats_t *stats)
{
#ifdef ENABLE_STATS
    ucs_stats_node_t *node = stats->node;

    stats->node = NULL;
    UCS_STATS_NODE_FREE(node);
#endif
}

static void uct_ipc_stats_vfs_show(void *obj, ucs_string_buffer_t *strb,
                                   void *arg_ptr, uint64_t arg_u64)
{
    uct_ipc_stats_t *stats = arg_ptr;
    uint64_t value;

    value = (stats->get != NULL) ? stats->get(stats, arg_u64) :
                                   uct_ipc_stats_get(stats, arg_u64);
    ucs_string_buffer_appendf(strb, "%"PRIu64"\n", value);
}

void uct_ipc_stats_vfs_init(void *obj, uct_ipc_stats_t *stats,
                            const char *folder)
{
    unsigned i;

    for (i = 0; i < stats->num_counters; ++i) {
        ucs_vfs_obj_add_ro_file(obj, uct_ipc_stats_vfs_show, stats, i, "%s/%s",
                                folder, stats->names[i]);
    }
}
