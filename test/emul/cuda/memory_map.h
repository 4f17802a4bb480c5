/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_MEMORY_MAP_H_
#define EMUL_CUDA_MEMORY_MAP_H_

#include "context.h"

#include <core/address_map.h>

#include <cstdint>
#include <mutex>

/*
 * What the driver knows about addresses of this process.
 *
 * Device memory has two addresses. The program has one that the host cannot
 * touch, in a range that is reserved; the streams reach the memory by an alias.
 */

namespace emul {

enum class memory_kind {
    device,     /* cuMemAlloc */
    pool,       /* cuMemAllocAsync */
    managed,
    host,       /* cuMemHostAlloc */
    registered, /* cuMemHostRegister */
    imported    /* cuIpcOpenMemHandle */
};

struct mapping {
    memory_kind        kind;
    char               *base;     /* that the program sees */
    char               *alias;    /* that the host can reach; often the same */
    size_t             size;      /* that the program sees */
    size_t             length;    /* mapped: whole pages */
    context            *owner;
    int                device;
    unsigned           flags;
    unsigned           index;      /* in the tables of the node */
    uint64_t           shared_id;  /* imported: names the allocation */
    unsigned           references; /* imported: times that it was opened */
    unsigned long long buffer_id;
    bool               sync_memops;
    void               *pool;

    bool is_on_device() const
    {
        return (kind == memory_kind::device) || (kind == memory_kind::pool) ||
               (kind == memory_kind::imported);
    }

    bool holds(const void *pointer) const
    {
        return (pointer >= base) && (pointer < base + size);
    }
};

/** The map itself. */
class memory_map : public address_map<mapping> {
public:
    static memory_map &instance();

    /** @return The first one that accept(mapping), or nullptr. */
    template<typename predicate> mapping *find_if(predicate accept)
    {
        for (auto &entry : by_base) {
            if (accept(entry.second)) {
                return &entry.second;
            }
        }
        return nullptr;
    }

    /** @return Whether something in [base, base + size) is known. */
    bool overlaps(const void *base, size_t size) const;

    /** @return Where this process can reach [pointer, pointer + length), which
     *          may be memory that the driver does not know, or nullptr if it is
     *          in an address range of the driver and not mapped. */
    char *reach(const void *pointer, size_t length);

};

} // namespace emul

#endif
