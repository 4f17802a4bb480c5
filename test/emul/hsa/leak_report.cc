/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "leak_report.h"

#include "handler.h"
#include "memory_map.h"
#include "signal.h"

#include <core/leak_list.h>

namespace emul {

namespace {

const char *kind_name(mapping_kind kind)
{
    switch (kind) {
    case mapping_kind::device:
        return "allocation";
    case mapping_kind::host:
        return "host allocation";
    case mapping_kind::attached:
        return "attach";
    default:
        return "lock";
    }
}

void list_memory(leak_list *list)
{
    memory_map &map = memory_map::instance();
    std::shared_lock<std::shared_mutex> lock(map.mutex);

    map.each([list](const mapping &m) {
        list->add(kind_name(m.kind), m.size, m.base);
    });
}

void list_signal(const signal_slot &slot, void *list)
{
    const char *what = "signal";

    if (slot.kind == signal_kind::ipc_created) {
        what = "IPC signal";
    } else if (slot.kind == signal_kind::ipc_attached) {
        what = "attached IPC signal";
    }
    ((leak_list*)list)->add(what, slot.handle.load());
}

void list_handler(uint64_t signal, void *list)
{
    ((leak_list*)list)->add("armed handler of signal", signal);
}

} // namespace

void leak_report()
{
    leak_list list;

    if (!leak_list::wanted()) {
        return;
    }

    list_memory(&list);
    signals_each(list_signal, &list);
    handlers_each(list_handler, &list);
    list.write();
}

} // namespace emul
