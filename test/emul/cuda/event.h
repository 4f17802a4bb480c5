/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_EVENT_H_
#define EMUL_CUDA_EVENT_H_

#include "stream.h"

/*
 * Events. An event remembers the point in the order of a stream at which it was
 * recorded last; looking at it compares two numbers. Like streams, the objects
 * are never given back.
 */

namespace emul {

enum event_state : uint32_t {
    event_gone,  /* destroyed: nobody may use its handle */
    event_alive,
    event_orphan /* its context was destroyed: its handle is known as such */
};

struct event {
    std::atomic<uint32_t> state;
    context               *owner;
    unsigned              flags;
    std::atomic<uint64_t> target; /* stream and count; 0: never recorded */
    std::atomic<uint64_t> timed;  /* the target that the time is of */
    std::atomic<int64_t>  time;   /* when it was reached */
};

/** It was recorded there. */
void event_set_target(event &e, const stream &s, int64_t count);

/** The stream has come there. */
void event_reached(event &e, const stream &s, int64_t count);

/** The context is gone: its events are orphans, for ever. */
void events_drop_context(const context &c);

/** Call visit(event&) for each one that lives. */
template<typename function> void events_each(function visit);
std::vector<event*> events_alive();

template<typename function> void events_each(function visit)
{
    for (event *e : events_alive()) {
        visit(*e);
    }
}

} // namespace emul

#endif
