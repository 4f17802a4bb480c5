/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory_map.h"

#include <core/address_space.h>

namespace emul {

memory_map &memory_map::instance()
{
    static memory_map *map = new memory_map;
    return *map;
}

bool memory_map::overlaps(const void *base, size_t size) const
{
    auto next = by_base.lower_bound(uintptr_t(base) + size);

    if (next == by_base.begin()) {
        return false;
    }

    const mapping &last = std::prev(next)->second;
    return last.base + last.size > base;
}

char *memory_map::reach(const void *pointer, size_t length)
{
    mapping *m = find(pointer);
    size_t offset;

    if (m == nullptr) {
        return range_holds(pointer) ? nullptr : (char*)pointer;
    }

    offset = (char*)pointer - m->base;
    if (m->kind == memory_kind::registered) {
        /* the rest is memory of the host, too */
        return m->alias + offset;
    }
    return (length <= m->size - offset) ? m->alias + offset : nullptr;
}

} // namespace emul
