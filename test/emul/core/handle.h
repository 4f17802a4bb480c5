/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_HANDLE_H_
#define EMUL_CORE_HANDLE_H_

#include <cstdint>

/*
 * What one process gives to another so that it can attach something: 32 bytes
 * without meaning outside of the node. Creating a handle twice for the same
 * thing gives the same bytes.
 */

namespace emul {

enum class handle_kind : uint32_t {
    allocation = 0x6d656d,
    cell       = 0x736967
};

struct handle {
    uint64_t check;        /* over the rest and the node's secret */
    uint64_t id;           /* of the thing; never used twice on a node */
    uint32_t index;        /* of its record */
    uint32_t owner;        /* slot */
    uint64_t owner_serial;
};

static_assert(sizeof(handle) == 32, "size of an IPC handle");

enum class attach_result {
    done,
    invalid, /* not a handle of this node and kind, or its owner is gone */
    gone,    /* the owner lives but has freed it */
    no_room
};

/** @return A handle of something of this process. */
handle handle_make(handle_kind kind, uint64_t id, uint32_t index);

/** Whether handle_make made these bytes on this node. */
bool handle_valid(handle_kind kind, const handle &h);

/** Whether the owner is still alive. Node lock held. */
bool handle_owner_alive(const handle &h);

} // namespace emul

#endif
