/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_MEMORY_MAP_H_
#define EMUL_HSA_MEMORY_MAP_H_

#include "hsa_headers.h"

#include <core/address_map.h>

#include <cstdint>
#include <map>
#include <mutex>
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

/** The map itself. */
class memory_map : public address_map<mapping> {
public:
    static memory_map &instance();

    void add(const mapping &m);

    /** Remove one of the locks that begin at this host address. */
    bool remove_lock(const void *host, mapping *removed_p);

    /** @return As of find(), which takes an address as the agents see it, also
     *          for host addresses of locked memory. */
    mapping *find_any(const void *pointer);

    /** @return Where the host can reach [pointer, pointer + length) as an agent
     *          sees it, or nullptr if it is not mapped. */
    char *reach(const void *pointer, size_t length);

    /** Forget everything. */
    void clear();

private:
    std::multimap<uintptr_t, uintptr_t> locks;   /* host address to base */
    size_t                              longest_lock = 0;
};

} // namespace emul

#endif
