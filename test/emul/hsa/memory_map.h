/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_MEMORY_MAP_H_
#define EMUL_HSA_MEMORY_MAP_H_

#include "hsa_headers.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

/*
 * What the runtime knows about addresses of this process: its allocations, what
 * it has attached and what host memory it has locked.
 */

namespace emul {

enum class mapping_kind { device, host, attached, locked };

struct deallocation_callback {
    hsa_amd_deallocation_callback_t function;
    void                            *pointer;
    void                            *user_data;
};

struct mapping {
    mapping_kind                       kind;
    char                               *base;   /* for the agents */
    char                               *host;   /* the same, unless locked */
    size_t                             size;    /* that the user sees */
    size_t                             length;  /* mapped: whole pages */
    unsigned                           agent;   /* owner */
    uint32_t                           flags;   /* of its pool */
    unsigned                           index;   /* in the tables of the node */
    void                               *user_data;
    std::vector<deallocation_callback> callbacks;

    bool holds(const void *pointer) const
    {
        return (pointer >= base) && (pointer < base + size);
    }

    bool holds_on_host(const void *pointer) const
    {
        return (pointer >= host) && (pointer < host + size);
    }
};

/**
 * The map itself. Whoever changes it, or what is mapped, holds @ref mutex
 * exclusively; whoever touches the memory behind it holds it shared, so that it
 * cannot be unmapped meanwhile.
 */
class memory_map {
public:
    static memory_map &instance();

    mutable std::shared_mutex mutex;

    void add(const mapping &m);

    /** Remove the mapping with this base.
     *  @return false, and nothing is removed, unless accept(mapping). */
    template<typename predicate>
    bool remove(const void *base, mapping *removed_p, predicate accept)
    {
        auto found = by_base.find(uintptr_t(base));

        if ((found == by_base.end()) || !accept(found->second)) {
            return false;
        }

        *removed_p = found->second;
        by_base.erase(found);
        return true;
    }

    /** Remove one of the locks that begin at this host address. */
    bool remove_lock(const void *host, mapping *removed_p);

    /** @return The mapping that holds an address as the agents see it, or
     *          nullptr. */
    mapping *find(const void *pointer);

    /** The same, also for host addresses of locked memory. */
    mapping *find_any(const void *pointer);

    /** @return Where the host can reach [pointer, pointer + length) as an agent
     *          sees it, or nullptr if it is not mapped. */
    char *reach(const void *pointer, size_t length);

    /** Forget everything. */
    void clear();

    template<typename function> void each(function visit) const
    {
        for (auto &entry : by_base) {
            visit(entry.second);
        }
    }

private:
    std::map<uintptr_t, mapping>        by_base;
    std::multimap<uintptr_t, uintptr_t> locks;   /* host address to base */
    size_t                              longest_lock = 0;
};

} // namespace emul

#endif
