/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "event.h"

#include <core/counts.h>
#include <core/futex.h>
#include <core/message.h>

namespace emul {

namespace {

/* How a target is made of a stream and a count */
constexpr unsigned count_bits = 48;

struct event_table {
    std::mutex          mutex;
    std::deque<event>   objects; /* do not move */
    std::vector<event*> unused;
};

event_table &table()
{
    static event_table *instance = new event_table();
    return *instance;
}

uint64_t pack(const stream &s, int64_t count)
{
    return (uint64_t(s.index) << count_bits) | uint64_t(count);
}

stream_position unpack(uint64_t target)
{
    return {&stream_at(target >> count_bits),
            int64_t(target & ((uint64_t(1) << count_bits) - 1))};
}

event &checked(CUevent handle)
{
    event *e = (event*)handle;

    require(e != nullptr, CUDA_ERROR_INVALID_HANDLE);
    require(e->state.load() != event_orphan, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (e->state.load() != event_alive) {
        fatal("use of the event %p, which was destroyed", (void*)handle);
    }
    context_require_healthy(*e->owner);
    return *e;
}

CUresult create(context &c, unsigned flags, CUevent *handle_p)
{
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC |
                               CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    event_table &t           = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    event *e;

    require_value((handle_p != nullptr) && ((flags & ~known) == 0));
    /* sharing events between processes is not emulated */
    require(!(flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);

    if (t.unused.empty()) {
        e = &t.objects.emplace_back();
    } else {
        e = t.unused.back();
        t.unused.pop_back();
    }

    e->owner = &c;
    e->flags = flags;
    e->target.store(0);
    e->timed.store(0);
    e->state.store(event_alive);
    count_add(EMUL_COUNT_EVENTS, 1);
    *handle_p = CUevent(e);
    return CUDA_SUCCESS;
}

CUresult record(CUevent handle, CUstream where)
{
    event &e     = checked(handle);
    stream &s    = stream_checked(where);
    operation op = {};

    require(e.owner == s.owner, CUDA_ERROR_INVALID_HANDLE);
    op.what     = action::record;
    op.recorded = &e;
    stream_issue(s, op);
    return CUDA_SUCCESS;
}

CUresult query(CUevent handle)
{
    event &e        = checked(handle);
    uint64_t target = e.target.load();

    return ((target == 0) || unpack(target).reached()) ? CUDA_SUCCESS :
                                                         CUDA_ERROR_NOT_READY;
}

CUresult synchronize(CUevent handle)
{
    event &e        = checked(handle);
    uint64_t target = e.target.load();

    if (target != 0) {
        unpack(target).wait();
    }
    context_require_healthy(*e.owner);
    return CUDA_SUCCESS;
}

CUresult destroy(CUevent handle)
{
    event &e = checked(handle);
    std::lock_guard<std::mutex> guard(table().mutex);

    e.state.store(event_gone);
    table().unused.push_back(&e);
    count_add(EMUL_COUNT_EVENTS, -1);
    return CUDA_SUCCESS;
}

CUresult wait_event(CUstream waits, CUevent handle, unsigned flags)
{
    stream &s       = stream_checked(waits);
    event &e        = checked(handle);
    uint64_t target = e.target.load();
    operation op    = {};

    require_value((flags & ~unsigned(CU_EVENT_WAIT_EXTERNAL)) == 0);
    if (target == 0) {
        return CUDA_SUCCESS;
    }

    op.what    = action::wait;
    op.awaited = unpack(target);
    stream_issue(s, op);
    return CUDA_SUCCESS;
}

int64_t time_of(event &e)
{
    uint64_t target = e.target.load();

    require(!(e.flags & CU_EVENT_DISABLE_TIMING) && (target != 0),
            CUDA_ERROR_INVALID_HANDLE);
    require(unpack(target).reached() && (e.timed.load() == target),
            CUDA_ERROR_NOT_READY);
    return e.time.load();
}

CUresult elapsed(float *milliseconds_p, CUevent first, CUevent second)
{
    int64_t from = time_of(checked(first));
    int64_t to   = time_of(checked(second));

    require_value(milliseconds_p != nullptr);
    *milliseconds_p = (to - from) / 1e6f;
    return CUDA_SUCCESS;
}

} // namespace

void event_set_target(event &e, const stream &s, int64_t count)
{
    e.target.store(pack(s, count));
}

void event_reached(event &e, const stream &s, int64_t count)
{
    uint64_t target = pack(s, count);

    /* it may have been recorded again, or be another one's by now */
    if (!(e.flags & CU_EVENT_DISABLE_TIMING) && (e.target.load() == target)) {
        e.time.store(now_ns());
        e.timed.store(target);
    }
}

void events_drop_context(const context &c)
{
    event_table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);

    for (event &e : t.objects) {
        if ((e.state.load() == event_alive) && (e.owner == &c)) {
            e.state.store(event_orphan);
            count_add(EMUL_COUNT_EVENTS, -1);
        }
    }
}

std::vector<event*> events_alive()
{
    event_table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    std::vector<event*> alive;

    for (event &e : t.objects) {
        if (e.state.load() == event_alive) {
            alive.push_back(&e);
        }
    }
    return alive;
}

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    return call_in_context(fn_cuEventCreate, [&](context &c) {
        return create(c, Flags, phEvent);
    });
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return call(fn_cuEventRecord, [&] { return record(hEvent, hStream); });
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream,
                                        unsigned int flags)
{
    return call(fn_cuEventRecordWithFlags, [&] {
        require_value((flags & ~unsigned(CU_EVENT_RECORD_EXTERNAL)) == 0);
        return record(hEvent, hStream);
    });
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
    /* the one that real drivers let host functions call, too */
    return call_anywhere(fn_cuEventQuery, [&] { return query(hEvent); });
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
    return call(fn_cuEventSynchronize, [&] { return synchronize(hEvent); });
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
    return call(fn_cuEventDestroy, [&] { return destroy(hEvent); });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent,
                                   unsigned int Flags)
{
    return call(fn_cuStreamWaitEvent,
                [&] { return wait_event(hStream, hEvent, Flags); });
}

/* Both names differ in the real library by how an overflow is handled */
#undef cuEventElapsedTime

extern "C" __attribute__((visibility("default")))
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return call(fn_cuEventElapsedTime,
                [&] { return elapsed(pMilliseconds, hStart, hEnd); });
}

extern "C" __attribute__((visibility("default")))
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart,
                               CUevent hEnd)
{
    return call(fn_cuEventElapsedTime,
                [&] { return elapsed(pMilliseconds, hStart, hEnd); });
}

EMUL_ALSO(cuEventDestroy, cuEventDestroy_v2);
