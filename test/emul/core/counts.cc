/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "counts.h"

#include "allocation.h"
#include "node.h"
#include "switches.h"

#include <cerrno>

namespace emul {

void count_add(emul_count_t what, int64_t change)
{
    /* After it has left, the record is another process's */
    if (node_joined()) {
        node_self()->tallies[what].fetch_add(change);
    }
}

int64_t count_own(emul_count_t what)
{
    return node_self()->tallies[what].load();
}

int count_read(pid_t pid, emul_count_t what, int64_t *value_p)
{
    int64_t sum = 0;

    if ((unsigned(what) >= EMUL_COUNT_LAST) || (value_p == nullptr)) {
        return -EINVAL;
    }

    if (what == EMUL_COUNT_COPIES_HELD) {
        return gate_waiters(pid, "copy", value_p);
    }

    node_lock lock;

    processes_reap();
    if (what == EMUL_COUNT_BYTES_CHARGED) {
        *value_p = allocations_charged();
        return 0;
    }

    processes_each(pid, [&](unsigned slot) {
        sum += node_shared()->processes[slot].tallies[what].load();
    });
    *value_p = sum;
    return 0;
}

} // namespace emul
