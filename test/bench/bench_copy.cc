/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "bench_copy.h"
#include "bench_peer.h"
#include "bench_result.h"

#include "../apps/demo_gpu.h"
#include "../emul/emul.h"

#include <hip/hip_runtime_api.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

namespace bench {

namespace {

using start_copy = ucs_status_t (imported::*)(size_t, void*,
                                              uct_completion_t*) const;

/* A thread's own interface, endpoint and key, of an owner's buffer that all
 * threads have in common, and so has the cache */
class copier {
public:
    explicit copier(const demo::channel &owner) :
        m_local(BUFFER_SIZE), m_memory(owner, m_transport)
    {
        m_memory.map_all(m_local.address());
    }

    /* One copy. The runtime is waited for outside of what is counted: how
     * often progress finds a copy unfinished is a matter of chance. */
    void count_copy(start_copy start)
    {
        completion comp;

        m_barrier();
        counted_section::begin();
        const ucs_status_t status = (m_memory.*start)(0, m_local.address(),
                                                      &comp.super);
        counted_section::end();

        m_barrier();
        wait_for_runtime();

        counted_section::begin();
        uct_worker_progress(m_transport.worker());
        counted_section::end();

        if ((status != UCS_INPROGRESS) || !comp.done) {
            throw demo::error("progress did not find a copy that the runtime"
                              " has finished");
        }
    }

    void copy(start_copy start)
    {
        completion comp;

        comp.wait(m_transport,
                  (m_memory.*start)(0, m_local.address(), &comp.super));
    }

    void count_progress(long operations)
    {
        counted_section::begin();
        for (long i = 0; i < operations; ++i) {
            uct_worker_progress(m_transport.worker());
        }
        counted_section::end();
    }

    /* Have the next copies wait for another thread's, so that all are started,
     * and then none */
    void set_barrier(std::function<void()> barrier)
    {
        m_barrier = std::move(barrier);
    }

private:
    static void wait_for_runtime()
    {
        const emul_api_t *const emul = emul_get();
        int64_t copies               = 1;

        if (emul == nullptr) {
            throw demo::error("counting instructions needs the emulator");
        }

        for (;;) {
            emul->count(getpid(), EMUL_COUNT_COPIES, &copies);
            if (copies == 0) {
                return;
            }
            sched_yield();
        }
    }

    std::function<void()> m_barrier = []() {};
    demo::rocm_ipc        m_transport;
    demo::gpu_buffer      m_local;
    imported              m_memory;
};

/* What two threads copy with: keys of the same buffer */
struct copiers {
    peer_process owner{"owner", 1};
    copier       first;
    copier       second;

    copiers() : first(owner.channel()), second(ask_again(owner.channel()))
    {
    }

private:
    static const demo::channel &ask_again(const demo::channel &channel)
    {
        channel.send(done_message{});
        return channel;
    }
};

template<typename function> void in_two_threads(function run)
{
    std::thread other([&]() { run(1); });

    run(0);
    other.join();
}

void count_one(copier &copies, const char *name, start_copy start,
               long operations)
{
    copies.copy(start); /* Whatever is done once */

    const counted_section section(name, operations);

    for (long i = 0; i < operations; ++i) {
        copies.count_copy(start);
    }
}

void count_two(copiers &copies, const char *name, start_copy start,
               long operations)
{
    const counted_section section(name, 2 * operations);
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, nullptr, 2);
    in_two_threads([&](int index) {
        copier &own = index ? copies.second : copies.first;

        own.set_barrier([&]() { pthread_barrier_wait(&barrier); });
        for (long i = 0; i < operations; ++i) {
            own.count_copy(start);
        }
        own.set_barrier([]() {});
    });
    pthread_barrier_destroy(&barrier);
}

double seconds_of_copies(copier &copies, start_copy start, long operations)
{
    const auto begin = std::chrono::steady_clock::now();

    for (long i = 0; i < operations; ++i) {
        copies.copy(start);
    }

    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin).count() / operations;
}

/* Run time of each thread of this process in seconds, by name */
std::map<std::string, double> thread_times()
{
    std::map<std::string, double> result;

    for (const auto &task :
         std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        double nanoseconds = 0;

        std::ifstream comm(task.path() / "comm");

        std::getline(comm, name);
        std::ifstream(task.path() / "schedstat") >> nanoseconds;
        result[name] += nanoseconds * 1e-9;
    }

    return result;
}

} // namespace

void count_copies(long operations)
{
    copiers copies;

    count_one(copies.first, "put", &imported::put, operations);
    count_one(copies.first, "get", &imported::get, operations);
    count_two(copies, "put of two threads", &imported::put, operations);
    count_two(copies, "get of two threads", &imported::get, operations);

    const counted_section section("progress", operations);

    copies.first.count_progress(operations);
}

void time_copies(long operations)
{
    copiers copies;
    double seconds[2];

    seconds_of_copies(copies.first, &imported::get, operations / 10);
    print_result("copy of one thread",
                 seconds_of_copies(copies.first, &imported::get, operations));

    in_two_threads([&](int index) {
        seconds[index] = seconds_of_copies(index ? copies.second : copies.first,
                                           &imported::get, operations);
    });
    print_result("copy of two threads", (seconds[0] + seconds[1]) / 2);
}

void measure_idle(long regions, double seconds)
{
    const timespec pause = {static_cast<time_t>(seconds),
                            static_cast<long>((seconds -
                                               static_cast<time_t>(seconds)) *
                                              1e9)};
    peer_process owner("owner", regions);
    const demo::rocm_ipc transport;
    const demo::gpu_buffer local(BUFFER_SIZE);
    const imported memory(owner.channel(), transport);
    double sum = 0;

    memory.map_all(local.address());

    const auto before = thread_times();
    const auto begin  = std::chrono::steady_clock::now();
    nanosleep(&pause, nullptr);
    const double elapsed = std::chrono::duration<double>(
            std::chrono::steady_clock::now() - begin).count();

    for (const auto &[name, time] : thread_times()) {
        const auto old   = before.find(name);
        const double used = time - ((old == before.end()) ? 0 : old->second);

        print_result("thread " + name, used / elapsed);
        sum += used;
    }

    print_result("process", sum / elapsed);
}

} // namespace bench
