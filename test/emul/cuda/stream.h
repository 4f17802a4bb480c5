/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_STREAM_H_
#define EMUL_CUDA_STREAM_H_

#include "context.h"

#include <core/cell.h>

#include <condition_variable>
#include <deque>

/*
 * Streams. Each is a queue with a thread of its own, which is started for the
 * first operation that cannot be done at once, and counts its operations: the
 * n-th one issued is the n-th one done. So a point in the order of a stream is a
 * number, and whether it was reached is one comparison.
 *
 * A stream object is never given back, only used again, and goes on counting:
 * what remembers a point in it can look at any time.
 */

namespace emul {

struct event;

/** A point in the order of a stream; reached when it is done that far. */
struct stream_position {
    stream  *where;
    int64_t count;

    bool reached() const;
    void wait() const;
};

enum class action : uint8_t {
    copy,
    fill,
    record,         /* an event */
    wait,           /* for a position */
    order,          /* the same, of the default stream's rules */
    callback,       /* of cuStreamAddCallback */
    host_function,  /* of cuLaunchHostFunc */
    release         /* memory of a pool */
};

struct operation {
    action          what;
    bool            synchronous;  /* its caller waits */
    unsigned        width;        /* fill: bytes of the value */
    uint32_t        value;
    CUdeviceptr     destination;
    CUdeviceptr     source;
    size_t          size;
    event           *recorded;
    stream_position awaited;
    CUstreamCallback callback;
    CUhostFn        host_function;
    CUstream        handle;       /* as the callback shall see it */
    void            *data;
};

struct stream {
    std::atomic<bool>       alive;   /* its handle is valid */
    uint32_t                index;   /* of the object */
    context                 *owner;
    unsigned                flags;
    int                     priority;
    unsigned                ordinal; /* among those the process created; or 0 */
    unsigned                point;
    cell                    done;    /* operations */

    std::mutex              mutex;   /* of all below */
    std::condition_variable work;
    std::deque<operation>   queue;
    std::atomic<int64_t>    issued;  /* operations; read without lock too */
    bool                    has_thread;
    bool                    closed;  /* ends when all is done */
};

/** @return The stream of a handle, the default ones included. Leaves the call if
 *          there is none, or its context is gone or broken. */
stream &stream_checked(CUstream handle);

/** @return Object by index. */
stream &stream_at(uint32_t index);

stream &stream_default(context &c);

/** Append an operation. An event, a wait that has an end already, and what the
 *  caller waits for anyway, are done at once by the caller if nothing is in
 *  front of them and no gate is closed. */
stream_position stream_issue(stream &s, const operation &op);

/** @return The last point in its order. */
stream_position stream_last(stream &s);

/** Wait until all streams of the context have done what they have now. */
void context_drain(context &c);

/** End all streams of a context, which has been drained. */
void context_close_streams(context &c);

/** The process exits: threads do nothing any more. */
void streams_silence();

/** Call visit(stream&) for each one that was created and lives. */
template<typename function> void streams_each(function visit);
std::vector<stream*> streams_alive();

template<typename function> void streams_each(function visit)
{
    for (stream *s : streams_alive()) {
        visit(*s);
    }
}

/** An operation has its place in the order of a stream, of which others are told
 *  before it can be done. Stream locked. */
void operation_issued(const operation &op, const stream &s, int64_t count);

/** Do an operation of a stream, in its order (operation.cc).
 *  @return What breaks the context, or CUDA_SUCCESS. */
CUresult operation_perform(stream &s, const operation &op, int64_t count);

} // namespace emul

#endif
