/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "handler_bell.h"

#include "futex.h"
#include "node.h"

namespace emul {

void bell_ring(unsigned slot, uint64_t source)
{
    process_record &process = node_shared()->processes[slot];
    uint64_t previous;

    switch (setting_value(setting_handler_wakeup)) {
    case handler_wakeup_prompt:
        futex_bump(process.bell);
        break;
    case handler_wakeup_late:
        previous = process.last_source.exchange(source);
        if ((previous != 0) && (previous != source)) {
            futex_bump(process.bell);
        }
        break;
    default:
        break;
    }
}

void bell_ring_certainly(unsigned slot)
{
    futex_bump(node_shared()->processes[slot].bell);
}

void bells_ring_all()
{
    for (unsigned slot = 0; slot < max_processes; ++slot) {
        if (node_shared()->processes[slot].serial.load() != 0) {
            bell_ring_certainly(slot);
        }
    }
}

uint32_t bell_answer()
{
    process_record *self = node_self();
    uint32_t seen        = self->bell.load();

    self->last_source.store(0);
    return seen;
}

void bell_wait(uint32_t seen)
{
    futex_wait(node_self()->bell, seen);
}

} // namespace emul
