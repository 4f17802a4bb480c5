/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_copies.h"

namespace cuda_test {

unsigned completion::last_order = 0;

completion::completion() : m_handle(), m_calls(0), m_order(0)
{
    m_handle.super.func   = called;
    m_handle.super.count  = 1;
    m_handle.super.status = UCS_OK;
    m_handle.owner        = this;
}

void completion::called(uct_completion_t *self)
{
    completion *comp = ((handle*)self)->owner;

    ++comp->m_calls;
    comp->m_order = ++last_order;
    if (comp->action) {
        comp->action();
    }
}

/** A destination is filled with this until a copy arrives. */
static uint64_t garbage(uint64_t seed)
{
    return seed + 0x80000000u;
}

local_lane::local_lane(memory_type_t source, memory_type_t destination,
                       unsigned num_slots, size_t slot_length) :
    lane(num_slots),
    m_source(source, num_slots, slot_length),
    m_destination(destination, num_slots, slot_length)
{
}

void local_lane::prepare(unsigned slot, bool, uint64_t seed)
{
    m_source.fill(slot, seed);
    m_destination.fill(slot, garbage(seed));
}

ucs_status_t local_lane::post(uct_ep_h ep, unsigned slot, bool is_put,
                              uct_completion_t *comp)
{
    void *source      = m_source.slot(slot);
    void *destination = m_destination.slot(slot);
    uct_iov_t iov     = {};

    iov.buffer = is_put ? source : destination;
    iov.length = m_source.slot_length();
    iov.count  = 1;
    return is_put ? uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)destination,
                                     UCT_INVALID_RKEY, comp) :
                    uct_ep_get_zcopy(ep, &iov, 1, (uintptr_t)source,
                                     UCT_INVALID_RKEY, comp);
}

bool local_lane::arrived(unsigned slot, bool, uint64_t seed)
{
    return m_destination.holds(slot, seed);
}

/* The transport maps the first memory that it is shown of each device, and
 * keeps that for ever: that is not to be what the lane copies. */
ipc_lane::ipc_lane(transport &importer, remote_owner &owner, int device,
                   unsigned num_slots, size_t slot_length) :
    lane(num_slots),
    m_owner(owner),
    m_local(MEMORY_DEVICE, num_slots, slot_length)
{
    importer.import(owner.alloc(device, 1, slot_length).key);
    m_remote = owner.alloc(device, num_slots, slot_length);
    m_rkey   = importer.import(m_remote.key);
}

void ipc_lane::prepare(unsigned slot, bool is_put, uint64_t seed)
{
    m_local.fill(slot, is_put ? seed : garbage(seed));
    m_owner.fill(m_remote, slot, is_put ? garbage(seed) : seed);
}

ucs_status_t
ipc_lane::post(uct_ep_h ep, unsigned slot, bool is_put, uct_completion_t *comp)
{
    uct_iov_t iov = {};

    iov.buffer = m_local.slot(slot);
    iov.length = m_local.slot_length();
    iov.count  = 1;
    return is_put ? uct_ep_put_zcopy(ep, &iov, 1, m_remote.slot(slot), m_rkey,
                                     comp) :
                    uct_ep_get_zcopy(ep, &iov, 1, m_remote.slot(slot), m_rkey,
                                     comp);
}

bool ipc_lane::arrived(unsigned slot, bool is_put, uint64_t seed)
{
    return is_put ? m_owner.holds(m_remote, slot, seed) :
                    m_local.holds(slot, seed);
}

copy::copy(lane &where, unsigned slot, bool is_put, uint64_t seed) :
    where(where), slot(slot), is_put(is_put), seed(seed)
{
    where.prepare(slot, is_put, seed);
}

} /* namespace cuda_test */
