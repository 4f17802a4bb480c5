/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "stream.h"

#include "event.h"

#include <core/counts.h>
#include <core/message.h>
#include <core/node.h>

#include <algorithm>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

namespace emul {

namespace {

constexpr uint32_t max_streams = 1 << 16; /* objects, as an event counts them */

struct stream_table {
    std::mutex           mutex;
    std::deque<stream>   objects; /* do not move */
    std::vector<stream*> unused;
    unsigned             created; /* by the user */
    std::atomic<bool>    silent;
};

/* For a look without the lock */
std::atomic<stream*> by_index[max_streams];

stream_table &table()
{
    static stream_table *instance = new stream_table();
    return *instance;
}

stream &take_object()
{
    stream_table &t = table();
    stream *s;

    if (!t.unused.empty()) {
        s = t.unused.back();
        t.unused.pop_back();
        return *s;
    }

    require(t.objects.size() < max_streams, CUDA_ERROR_OUT_OF_MEMORY);
    s        = &t.objects.emplace_back();
    s->index = t.objects.size() - 1;
    by_index[s->index].store(s);
    return *s;
}

stream &make_stream(context &c, unsigned flags, int priority, bool by_user)
{
    stream_table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    stream &s       = take_object();
    std::lock_guard<std::mutex> stream_guard(s.mutex);

    s.owner    = &c;
    s.flags    = flags;
    s.priority = priority;
    s.ordinal  = by_user ? ++t.created : 0;
    s.point    = stream_point(s.ordinal);
    s.closed   = false;
    s.alive.store(by_user);
    return s;
}

bool is_done(const stream &s)
{
    return s.done.value.load() == s.issued.load();
}

bool passes_at_once(const stream &s)
{
    return (s.point == nobody) || !point_is_gated(s.point);
}

/* Stream locked: nobody refers to it any more but by position */
void retire(stream &s)
{
    {
        std::lock_guard<std::mutex> guard(s.owner->mutex);
        auto &list = s.owner->streams;

        list.erase(std::remove(list.begin(), list.end(), &s), list.end());
    }

    std::lock_guard<std::mutex> guard(table().mutex);
    table().unused.push_back(&s);
}

/* Waits at the gate and counts. @return What breaks the context, if a rule says
 * so. */
CUresult pass_point(const stream &s, const operation &op)
{
    int status;

    if ((op.what == action::order) || (s.point == nobody) ||
        !point_enter(s.point, &status)) {
        return CUDA_SUCCESS;
    }
    return CUresult(status);
}

/* Not locked, or by the caller that does it at once */
void perform(stream &s, const operation &op, int64_t count)
{
    CUresult status = pass_point(s, op);

    if (status == CUDA_SUCCESS) {
        status = operation_perform(s, op, count);
    }
    if (status != CUDA_SUCCESS) {
        context_break(*s.owner, status);
    }
}

void advance(stream &s)
{
    s.done.value.fetch_add(1);
    cell_changed(s.done, 0);
}

void run(stream &s)
{
    std::unique_lock<std::mutex> lock(s.mutex);

    for (;;) {
        s.work.wait(lock, [&s] { return !s.queue.empty() || s.closed; });
        if (s.queue.empty()) {
            break;
        }

        operation op  = s.queue.front();
        int64_t count = s.done.value.load() + 1;
        s.queue.pop_front();
        lock.unlock();

        perform(s, op, count);
        if (table().silent.load()) {
            return;
        }

        lock.lock();
        advance(s);
    }

    s.has_thread = false;
    lock.unlock();
    retire(s);
}

/* Stream locked */
void provide_thread(stream &s)
{
    if (!s.has_thread) {
        std::thread([&s] { run(s); }).detach();
        s.has_thread = true;
    }
}

bool needs_no_thread(const operation &op)
{
    switch (op.what) {
    case action::record:
    case action::release:
        return true;
    case action::wait:
    case action::order:
        return op.awaited.reached();
    default:
        return op.synchronous;
    }
}

/* Stream locked */
void append(stream &s, const operation &op)
{
    int64_t count = s.issued.load() + 1;
    bool at_once  = needs_no_thread(op) && is_done(s) && passes_at_once(s);

    if (!at_once) {
        /* may throw, so before anything is changed */
        provide_thread(s);
        s.queue.push_back(op);
    }

    s.issued.store(count);
    operation_issued(op, s, count);
    if (at_once) {
        perform(s, op, count);
        advance(s);
    } else {
        s.work.notify_one();
    }
}

/* Stream locked: what is issued now comes after this */
void append_order(stream &s, stream &other)
{
    operation op = {};

    op.what    = action::order;
    op.awaited = stream_last(other);
    if (!op.awaited.reached()) {
        append(s, op);
    }
}

bool is_blocking(const stream &s)
{
    return !(s.flags & CU_STREAM_NON_BLOCKING);
}

/* Those that the default stream of their context waits for, and that wait for
 * it */
std::vector<stream*> blocking_streams(context &c)
{
    std::lock_guard<std::mutex> guard(c.mutex);
    std::vector<stream*> found;

    for (stream *s : c.streams) {
        if (is_blocking(*s) && !is_done(*s)) {
            found.push_back(s);
        }
    }
    return found;
}

stream &thread_stream(context &c)
{
    long thread = syscall(SYS_gettid);
    std::lock_guard<std::mutex> guard(c.mutex);
    stream *&s  = c.thread_streams[thread];

    if (s == nullptr) {
        s = &make_stream(c, 0, 0, false);
        c.streams.push_back(s);
    }
    return *s;
}

/* It ends when all is done. @return Whether its handle was valid until now; not
 * if it was closed before, and the object is perhaps another stream by now. */
bool close(stream &s, const context &owner)
{
    std::unique_lock<std::mutex> lock(s.mutex);
    bool has_thread = s.has_thread;
    bool was_alive;

    if ((s.owner != &owner) || s.closed) {
        return false;
    }

    was_alive = s.alive.exchange(false);
    s.closed  = true;
    s.work.notify_one();
    lock.unlock();
    if (!has_thread) {
        retire(s);
    }
    return was_alive;
}

CUresult create(context &c, unsigned flags, int priority, CUstream *handle_p)
{
    stream *s;

    require_value(handle_p != nullptr);
    require_value((flags & ~unsigned(CU_STREAM_NON_BLOCKING)) == 0);

    s = &make_stream(c, flags, std::min(0, std::max(priority, -5)), true);
    {
        std::lock_guard<std::mutex> guard(c.mutex);

        c.streams.push_back(s);
    }
    count_add(EMUL_COUNT_STREAMS, 1);
    *handle_p = CUstream(s);
    return CUDA_SUCCESS;
}

CUresult destroy(CUstream handle)
{
    /* the default ones are not anybody's to destroy */
    require(uintptr_t(handle) > uintptr_t(CU_STREAM_PER_THREAD),
            CUDA_ERROR_INVALID_HANDLE);

    stream &s = stream_checked(handle);
    if (close(s, *s.owner)) {
        count_add(EMUL_COUNT_STREAMS, -1);
    }
    return CUDA_SUCCESS;
}

CUresult synchronize(stream &s)
{
    context &c = *s.owner;

    if (&s == c.default_stream.load()) {
        for (stream *other : blocking_streams(c)) {
            stream_last(*other).wait();
        }
    }
    stream_last(s).wait();
    context_require_healthy(c);
    return CUDA_SUCCESS;
}

CUresult query(stream &s)
{
    bool done = is_done(s);

    if (&s == s.owner->default_stream.load()) {
        done = done && blocking_streams(*s.owner).empty();
    }
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

} // namespace

bool stream_position::reached() const
{
    return where->done.value.load() >= count;
}

void stream_position::wait() const
{
    cell_wait(where->done, -1,
              [this](int64_t done) { return done >= count; });
}

stream &stream_at(uint32_t index)
{
    return *by_index[index].load();
}

stream &stream_default(context &c)
{
    std::lock_guard<std::mutex> guard(c.mutex);

    if (c.default_stream.load() == nullptr) {
        /* what it has to wait for, and what for it, is told to each operation
         * (stream_issue) */
        c.streams.push_back(&make_stream(c, CU_STREAM_NON_BLOCKING, 0, false));
        c.default_stream.store(c.streams.back());
    }
    return *c.default_stream.load();
}

stream &stream_checked(CUstream handle)
{
    stream *s = (stream*)handle;

    if ((handle == nullptr) || (handle == CU_STREAM_LEGACY)) {
        return stream_default(context_current());
    }
    if (handle == CU_STREAM_PER_THREAD) {
        return thread_stream(context_current());
    }

    if (!s->alive.load()) {
        fatal("use of the stream %p, which was destroyed", (void*)handle);
    }
    context_require_healthy(*s->owner);
    return *s;
}

stream_position stream_last(stream &s)
{
    return {&s, s.issued.load()};
}

stream_position stream_issue(stream &s, const operation &op)
{
    stream *implicit = s.owner->default_stream.load();
    std::vector<stream*> others;

    if (&s == implicit) {
        others = blocking_streams(*s.owner);
    }

    std::lock_guard<std::mutex> guard(s.mutex);

    for (stream *other : others) {
        append_order(s, *other);
    }
    if ((implicit != nullptr) && (&s != implicit) && is_blocking(s)) {
        append_order(s, *implicit);
    }
    append(s, op);
    return stream_last(s);
}

void context_drain(context &c)
{
    std::vector<stream_position> last;

    {
        std::lock_guard<std::mutex> guard(c.mutex);

        for (stream *s : c.streams) {
            last.push_back(stream_last(*s));
        }
    }

    for (const stream_position &position : last) {
        position.wait();
    }
}

void context_close_streams(context &c)
{
    std::vector<stream*> streams;

    {
        std::lock_guard<std::mutex> guard(c.mutex);

        streams = c.streams;
        c.default_stream.store(nullptr);
        c.thread_streams.clear();
    }

    for (stream *s : streams) {
        if (close(*s, c)) {
            count_add(EMUL_COUNT_STREAMS, -1);
        }
    }
}

std::vector<stream*> streams_alive()
{
    stream_table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    std::vector<stream*> alive;

    for (stream &s : t.objects) {
        if (s.alive.load()) {
            alive.push_back(&s);
        }
    }
    return alive;
}

void streams_silence()
{
    table().silent.store(true);
}

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return call_in_context(fn_cuStreamCreate, [&](context &c) {
        return create(c, Flags, 0, phStream);
    });
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream,
                                            unsigned int flags, int priority)
{
    return call_in_context(fn_cuStreamCreateWithPriority, [&](context &c) {
        return create(c, flags, priority, phStream);
    });
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream)
{
    return call(fn_cuStreamDestroy, [&] { return destroy(hStream); });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream)
{
    return call(fn_cuStreamSynchronize,
                [&] { return synchronize(stream_checked(hStream)); });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream)
{
    return call(fn_cuStreamQuery,
                [&] { return query(stream_checked(hStream)); });
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    return call(fn_cuStreamGetFlags, [&] {
        stream &s = stream_checked(hStream);

        require_value(flags != nullptr);
        *flags = (s.ordinal == 0) ? 0u : s.flags;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority)
{
    return call(fn_cuStreamGetPriority, [&] {
        require_value(priority != nullptr);
        *priority = stream_checked(hStream).priority;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    return call(fn_cuStreamGetId, [&] {
        stream &s = stream_checked(hStream);

        require_value(streamId != nullptr);
        *streamId = (s.owner->id << 32) | s.ordinal;
        return CUDA_SUCCESS;
    });
}

#undef cuStreamGetCtx

extern "C" __attribute__((visibility("default")))
CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    return call(fn_cuStreamGetCtx, [&] {
        require_value(pctx != nullptr);
        *pctx = CUcontext(stream_checked(hStream).owner);
        return CUDA_SUCCESS;
    });
}

/* Only newer headers declare it */
extern "C" __attribute__((visibility("default")))
CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    return call(fn_cuStreamGetDevice, [&] {
        require_value(device != nullptr);
        *device = stream_checked(hStream).owner->device;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream,
                                     CUstreamCaptureStatus *captureStatus)
{
    return call(fn_cuStreamIsCapturing, [&] {
        stream_checked(hStream);
        require_value(captureStatus != nullptr);
        *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    });
}

EMUL_ALSO(cuStreamDestroy, cuStreamDestroy_v2);
