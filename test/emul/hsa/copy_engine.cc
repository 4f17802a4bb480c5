/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "copy_engine.h"

#include "copy.h"

#include <core/counts.h>
#include <core/link.h>
#include <core/message.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

namespace emul {

namespace {

constexpr unsigned runners     = 2;    /* threads that may run at a time */
constexpr unsigned max_threads = 1024; /* with those that wait */

struct engine {
    std::mutex              mutex;
    std::condition_variable work;      /* queue or running has changed */
    std::condition_variable drained;
    std::deque<copy_job>    queue;
    unsigned                threads;
    unsigned                running;   /* threads with a job that runs */
    unsigned                idle;      /* threads without a job */
    unsigned                unfinished;
    std::atomic<bool>       silent;
};

engine &the_engine()
{
    static engine *instance = new engine();
    return *instance;
}

void worker();

/* Engine locked: see that somebody can take the next job */
void provide_thread(engine &e)
{
    if (e.queue.empty() || (e.running >= runners)) {
        return;
    }

    if (e.idle > 0) {
        e.work.notify_one();
    } else if (e.threads < max_threads) {
        std::thread(worker).detach();
        ++e.threads;
    }
}

/* While it exists, the thread of a job waits and another one may run. */
class waiting_section {
public:
    waiting_section()
    {
        std::lock_guard<std::mutex> guard(the_engine().mutex);

        --the_engine().running;
        provide_thread(the_engine());
    }

    ~waiting_section()
    {
        std::lock_guard<std::mutex> guard(the_engine().mutex);

        /* may exceed the number of runners for a moment */
        ++the_engine().running;
    }
};

void await_dependencies(const copy_job &job)
{
    for (signal_slot *slot : job.dependency_slots) {
        if (slot->where->value.load() != 0) {
            waiting_section section;

            cell_wait(*slot->where, -1,
                      [](hsa_signal_value_t value) { return value == 0; });
        }
        signal_release(*slot);
    }
}

/* @return true if a rule makes this copy fail */
bool pass_gate()
{
    int status;

    if (!point_is_gated(function_point(fn_copy))) {
        return false;
    }

    waiting_section section;
    return point_pass(function_point(fn_copy), &status);
}

void take_time(size_t size)
{
    int64_t end = link_use(size);

    if (end != 0) {
        waiting_section section;

        sleep_until(end);
    }
}

void complete(const copy_job &job, bool failed)
{
    signal_slot &slot = *job.completion_slot;

    if (!signal_lives(slot, job.completion)) {
        fatal("hsa_amd_memory_async_copy: its completion signal %#lx was "
              "destroyed before the copy ended",
              (unsigned long)job.completion.handle);
    }

    /* Before the signal: who sees it change finds no copy any more */
    count_add(EMUL_COUNT_COPIES, -1);
    if (failed) {
        slot.where->value.store(-1);
    } else {
        slot.where->value.fetch_sub(1);
    }
    slot.changed();
    signal_release(slot);
}

void move(const copy_job &job)
{
    if (job.as_agent) {
        copy_as_agent(job.destination, job.source, job.size);
    } else {
        memcpy(job.destination, job.source, job.size);
    }
}

void run(const copy_job &job)
{
    bool failed;

    await_dependencies(job);
    failed = pass_gate();
    take_time(job.size);
    if (!failed && !the_engine().silent.load()) {
        move(job);
    }
    if (!the_engine().silent.load()) {
        complete(job, failed);
    }
}

void worker()
{
    engine &e = the_engine();
    std::unique_lock<std::mutex> lock(e.mutex);

    for (;;) {
        ++e.idle;
        e.work.wait(lock, [&e] {
            return !e.queue.empty() && (e.running < runners);
        });
        --e.idle;

        copy_job job = std::move(e.queue.front());
        e.queue.pop_front();
        ++e.running;
        provide_thread(e);
        lock.unlock();

        run(job);

        lock.lock();
        --e.running;
        if (--e.unfinished == 0) {
            e.drained.notify_all();
        }
        provide_thread(e);
    }
}

} // namespace

void copy_engine_submit(const copy_job &job)
{
    engine &e = the_engine();
    std::lock_guard<std::mutex> guard(e.mutex);

    e.queue.push_back(job);
    try {
        provide_thread(e);
    } catch (...) {
        if (e.threads == 0) {
            e.queue.pop_back();
            throw;
        }
        /* one of the others will take it */
    }
    ++e.unfinished;
    count_add(EMUL_COUNT_COPIES, 1);
}

void copies_drain()
{
    engine &e = the_engine();
    std::unique_lock<std::mutex> lock(e.mutex);

    e.drained.wait(lock, [&e] { return e.unfinished == 0; });
}

void copies_silence()
{
    the_engine().silent.store(true);
}

} // namespace emul
