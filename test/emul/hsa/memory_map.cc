/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory_map.h"

#include <algorithm>

namespace emul {

memory_map &memory_map::instance()
{
    static memory_map *map = new memory_map;
    return *map;
}

void memory_map::add(const mapping &m)
{
    address_map::add(m);
    if (m.kind == mapping_kind::locked) {
        locks.emplace(uintptr_t(m.host), uintptr_t(m.base));
        longest_lock = std::max(longest_lock, m.size);
    }
}

bool memory_map::remove_lock(const void *host, mapping *removed_p)
{
    auto lock = locks.find(uintptr_t(host));
    bool removed;

    if (lock == locks.end()) {
        return false;
    }

    removed = remove((void*)lock->second, removed_p,
                     [](const mapping&) { return true; });
    locks.erase(lock);
    return removed;
}

void memory_map::clear()
{
    by_base.clear();
    locks.clear();
}

mapping *memory_map::find_any(const void *pointer)
{
    mapping *found = find(pointer);
    auto lock      = locks.upper_bound(uintptr_t(pointer));

    /* locks may overlap, so the nearest one is not always the right one */
    while ((found == nullptr) && (lock != locks.begin())) {
        --lock;
        if (uintptr_t(pointer) - lock->first >= longest_lock) {
            break;
        }

        mapping &candidate = by_base.at(lock->second);
        if (candidate.holds_on_host(pointer)) {
            found = &candidate;
        }
    }
    return found;
}

char *memory_map::reach(const void *pointer, size_t length)
{
    mapping *m = find(pointer);
    size_t offset;

    if (m == nullptr) {
        /* what is locked can also be reached by its host address */
        m = find_any(pointer);
        return ((m != nullptr) && (length <= m->size - ((char*)pointer -
                                                        m->host))) ?
               (char*)pointer : nullptr;
    }

    /* a GPU faults by whole pages */
    offset = (char*)pointer - m->base;
    return (length <= m->length - offset) ? m->host + offset : nullptr;
}

} // namespace emul
