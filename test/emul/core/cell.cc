/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cell.h"

#include "handler_bell.h"

namespace emul {

void cell_changed(cell &c, uint64_t source)
{
    c.changes.fetch_add(1);
    if (c.waiters.load() != 0) {
        futex_wake_all(c.changes);
    }

    c.watchers.each([source](unsigned slot) { bell_ring(slot, source); });
}

} // namespace emul
