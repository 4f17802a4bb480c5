/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_CELL_H_
#define EMUL_CORE_CELL_H_

#include "futex.h"
#include "layout.h"

#include <sched.h>

/*
 * Changing and waiting for the value of a cell, which may be in the memory of
 * the node or of the process.
 *
 * No wake-up is lost: who changes the value first changes it and then looks for
 * sleepers, who sleeps first registers and then looks at the value, all
 * sequentially consistent.
 */

namespace emul {

/** Wake the sleepers and ring the bells of the watchers. To be called after
 *  every change of the value; @a source names the cell to the bells. */
void cell_changed(cell &c, uint64_t source);

/** Wait until done(value) is true or the deadline has passed.
 *  @param deadline  In the time of now_ns(); < 0: none.
 *  @return The value that was seen last. */
template<typename predicate>
int64_t cell_wait(cell &c, int64_t deadline, predicate done)
{
    constexpr unsigned looks_before_sleep = 20;
    int64_t value, left;
    uint32_t seen;

    for (unsigned i = 0; i < looks_before_sleep; ++i) {
        value = c.value.load();
        if (done(value)) {
            return value;
        }
        sched_yield();
    }

    c.waiters.fetch_add(1);
    for (;;) {
        seen  = c.changes.load();
        value = c.value.load();
        left  = (deadline < 0) ? -1 : deadline - now_ns();
        if (done(value) || ((deadline >= 0) && (left <= 0))) {
            break;
        }
        futex_wait(c.changes, seen, left);
    }
    c.waiters.fetch_sub(1);
    return value;
}

} // namespace emul

#endif
