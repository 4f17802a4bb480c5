/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_ADDRESS_MAP_H_
#define EMUL_CORE_ADDRESS_MAP_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <shared_mutex>

namespace emul {

/**
 * What a runtime knows about addresses of this process. A mapping_type has a
 * base, by which it is found, and holds(address).
 *
 * Whoever changes the map, or what is mapped, holds @ref mutex exclusively;
 * whoever touches the memory behind it holds it shared, so that it cannot be
 * unmapped meanwhile.
 */
template<typename mapping_type> class address_map {
public:
    mutable std::shared_mutex mutex;

    void add(const mapping_type &m)
    {
        by_base.emplace(uintptr_t(m.base), m);
    }

    /** Remove the mapping with this base.
     *  @return false, and nothing is removed, unless accept(mapping). */
    template<typename predicate>
    bool remove(const void *base, mapping_type *removed_p, predicate accept)
    {
        auto found = by_base.find(uintptr_t(base));

        if ((found == by_base.end()) || !accept(found->second)) {
            return false;
        }

        *removed_p = found->second;
        by_base.erase(found);
        return true;
    }

    /** @return The mapping that holds an address, or nullptr. */
    mapping_type *find(const void *pointer)
    {
        auto next = by_base.upper_bound(uintptr_t(pointer));

        if (next == by_base.begin()) {
            return nullptr;
        }

        mapping_type &candidate = std::prev(next)->second;
        return candidate.holds(pointer) ? &candidate : nullptr;
    }

    template<typename function> void each(function visit) const
    {
        for (auto &entry : by_base) {
            visit(entry.second);
        }
    }

protected:
    std::map<uintptr_t, mapping_type> by_base;
};

} // namespace emul

#endif
