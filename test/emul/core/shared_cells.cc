/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "shared_cells.h"

#include "futex.h"
#include "node.h"
#include "table.h"

namespace emul {

namespace {

shared_cell &record(unsigned index)
{
    return node_shared()->cells[index];
}

void free_if_unused(shared_cell &c)
{
    if ((c.creator == nobody) && c.attached.empty()) {
        c.id.store(0);
    }
}

/* Who goes away: its creation and its attachment both end */
void forget(shared_cell &c, unsigned slot)
{
    if (c.creator == slot) {
        c.open    = 0;
        c.creator = nobody;
    }
    c.attached.remove(slot);
    c.content.watchers.remove(slot);
    free_if_unused(c);
}

unsigned find_free()
{
    static unsigned hint = 0; /* only under the node lock */

    return table_find_free(node_shared()->cells_used, max_cells, &hint,
                           [](unsigned index) {
                               return record(index).id.load() == 0;
                           });
}

/* What an attach would find now */
attach_result look(const handle &h)
{
    if (!handle_valid(handle_kind::cell, h)) {
        return attach_result::invalid;
    }

    node_lock lock;

    if (!handle_owner_alive(h)) {
        return attach_result::invalid;
    }

    return ((record(h.index).id.load() == h.id) && record(h.index).open) ?
           attach_result::done : attach_result::gone;
}

} // namespace

unsigned shared_cell_create(int64_t value)
{
    node_shared_t *shared = node_shared();
    node_lock lock;
    unsigned index        = find_free();

    if (index == nobody) {
        return nobody;
    }

    shared_cell &c = record(index);
    c.content.value.store(value);
    c.content.waiters.store(0);
    for (auto &word : c.content.watchers.words) {
        word.store(0);
    }
    for (auto &word : c.attached.words) {
        word.store(0);
    }
    c.creator = node_self_slot();
    c.open    = 1;
    if (index >= shared->cells_used) {
        shared->cells_used = index + 1;
    }
    c.id.store(shared->next_id.fetch_add(1));
    return index;
}

void shared_cell_close(unsigned index)
{
    node_lock lock;

    record(index).open = 0;
}

void shared_cell_release(unsigned index)
{
    node_lock lock;

    forget(record(index), node_self_slot());
}

handle shared_cell_export(unsigned index)
{
    return handle_make(handle_kind::cell, record(index).id.load(), index);
}

void shared_cell_wait_attachable(const handle &h)
{
    uint32_t seen = node_shared()->memory_events.load();

    while ((setting_value(setting_late_attach) == late_attach_block) &&
           (look(h) == attach_result::gone)) {
        futex_wait(node_shared()->memory_events, seen, death_check_interval_ns);
        seen = node_shared()->memory_events.load();
    }
}

attach_result shared_cell_attach(const handle &h, unsigned *index_p)
{
    attach_result result = look(h);

    if (result != attach_result::done) {
        return result;
    }

    node_lock lock;
    shared_cell &c = record(h.index);

    if ((c.id.load() != h.id) || !c.open) {
        return attach_result::gone;
    }

    if (c.creator != node_self_slot()) {
        c.attached.add(node_self_slot());
    }
    *index_p = h.index;
    return attach_result::done;
}

cell &shared_cell_content(unsigned index)
{
    return record(index).content;
}

void shared_cells_drop_process(unsigned slot)
{
    for (unsigned i = 0; i < node_shared()->cells_used; ++i) {
        if (record(i).id.load() != 0) {
            forget(record(i), slot);
        }
    }
}

} // namespace emul
