/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_COPIES_H
#define CUDA_COPIES_H

#include "cuda_ipc_remote.h"

#include <functional>

/**
 * @file cuda_copies.h
 * @brief Copies whose every byte is known, over streams that are known.
 */
namespace cuda_test {

/** A completion that counts its calls. */
class completion {
public:
    completion();

    uct_completion_t *get()
    {
        return &m_handle.super;
    }

    unsigned calls() const
    {
        return m_calls;
    }

    /** What is left of its count. */
    int count() const
    {
        return m_handle.super.count;
    }

    ucs_status_t status() const
    {
        return m_handle.super.status;
    }

    /** A completion with a smaller one was called before. */
    unsigned order() const
    {
        return m_order;
    }

    /** Called back, behind all the above. */
    std::function<void()> action;

private:
    completion(const completion &);
    completion &operator=(const completion &);

    struct handle {
        uct_completion_t super; /* First: the callback casts back */
        completion       *owner;
    };

    static void called(uct_completion_t *self);

    handle          m_handle;
    unsigned        m_calls;
    unsigned        m_order;
    static unsigned last_order;
};

/** Where copies of one kind come from and go to. The transport issues all of
 *  them on one stream, which no other lane shares. A copy is a put or a get,
 *  and has a slot of both sides for itself. */
class lane {
public:
    lane(unsigned num_slots) : num_slots(num_slots)
    {
    }

    virtual ~lane()
    {
    }

    /** Fill the source with the pattern of the seed, and the destination with
     *  another one. */
    virtual void prepare(unsigned slot, bool is_put, uint64_t seed) = 0;

    virtual ucs_status_t
    post(uct_ep_h ep, unsigned slot, bool is_put, uct_completion_t *comp) = 0;

    /** Whether the destination holds the pattern of the seed. */
    virtual bool arrived(unsigned slot, bool is_put, uint64_t seed) = 0;

    const unsigned num_slots;

private:
    lane(const lane &);
    lane &operator=(const lane &);
};

/** Between two kinds of memory of this process. */
class local_lane : public lane {
public:
    local_lane(memory_type_t source, memory_type_t destination,
               unsigned num_slots, size_t slot_length);

    virtual void prepare(unsigned slot, bool is_put, uint64_t seed);
    virtual ucs_status_t
    post(uct_ep_h ep, unsigned slot, bool is_put, uct_completion_t *comp);
    virtual bool arrived(unsigned slot, bool is_put, uint64_t seed);

private:
    memory m_source;
    memory m_destination;
};

/** From and to memory of the owner on one of its devices. */
class ipc_lane : public lane {
public:
    ipc_lane(transport &importer, remote_owner &owner, int device,
             unsigned num_slots, size_t slot_length);

    virtual void prepare(unsigned slot, bool is_put, uint64_t seed);
    virtual ucs_status_t
    post(uct_ep_h ep, unsigned slot, bool is_put, uct_completion_t *comp);
    virtual bool arrived(unsigned slot, bool is_put, uint64_t seed);

    const remote_memory &remote() const
    {
        return m_remote;
    }

private:
    remote_owner &m_owner;
    memory        m_local;
    remote_memory m_remote;
    uct_rkey_t    m_rkey;
};

/** One copy. */
struct copy {
    lane &where;
    unsigned   slot;
    bool       is_put;
    uint64_t   seed;
    completion done;

    copy(lane &where, unsigned slot, bool is_put, uint64_t seed);

    bool arrived() const
    {
        return where.arrived(slot, is_put, seed);
    }
};

} /* namespace cuda_test */

#endif
