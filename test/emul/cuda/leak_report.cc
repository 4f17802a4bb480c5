/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "leak_report.h"

#include "event.h"
#include "memory_map.h"
#include "stream.h"

#include <core/leak_list.h>

namespace emul {

static const char *kind_name(memory_kind kind)
{
    switch (kind) {
    case memory_kind::device:
        return "allocation";
    case memory_kind::pool:
        return "stream-ordered allocation";
    case memory_kind::managed:
        return "managed allocation";
    case memory_kind::host:
        return "host allocation";
    case memory_kind::registered:
        return "registered host memory";
    default:
        return "IPC mapping";
    }
}

void leak_report()
{
    leak_list list;

    if (!leak_list::wanted()) {
        return;
    }

    {
        memory_map &map = memory_map::instance();
        std::shared_lock<std::shared_mutex> lock(map.mutex);

        map.each([&list](const mapping &m) {
            list.add(kind_name(m.kind), m.size, m.base);
        });
    }
    streams_each([&list](const stream &s) {
        list.add("stream", uintptr_t(&s));
    });
    events_each([&list](const event &e) { list.add("event", uintptr_t(&e)); });
    contexts_each([&list](const context &c) {
        if (!c.primary) {
            list.add("context", uintptr_t(&c));
        }
    });
    list.write();
}

} // namespace emul
