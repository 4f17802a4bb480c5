/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "handle.h"

#include "node.h"

namespace emul {

namespace {

/* Good enough against accidents, which is what a test makes */
uint64_t mix(uint64_t state, uint64_t word)
{
    state ^= word;
    state *= 0xff51afd7ed558ccdull;
    state ^= state >> 32;
    state *= 0xc4ceb9fe1a85ec53ull;
    return state ^ (state >> 29);
}

uint64_t check_of(handle_kind kind, const handle &h)
{
    uint64_t state = node_shared()->secret;

    state = mix(state, uint64_t(kind));
    state = mix(state, h.id);
    state = mix(state, (uint64_t(h.index) << 32) | h.owner);
    return mix(state, h.owner_serial);
}

} // namespace

handle handle_make(handle_kind kind, uint64_t id, uint32_t index)
{
    handle h = {0, id, index, node_self_slot(), node_self()->serial.load()};

    h.check = check_of(kind, h);
    return h;
}

bool handle_valid(handle_kind kind, const handle &h)
{
    return h.check == check_of(kind, h);
}

bool handle_owner_alive(const handle &h)
{
    return (node_shared()->processes[h.owner].serial.load() ==
            h.owner_serial) && process_alive(h.owner);
}

} // namespace emul
