/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_count.h"
#include "bench_result.h"
#include "cuda_work.h"

#include "../emul/emul.h"

#include <chrono>
#include <functional>

#include <sched.h>
#include <unistd.h>

namespace bench {

namespace {

using action = std::function<void()>;

/* Bytes of a copy, copies in flight, and the most completions in all of this */
constexpr size_t LENGTH = 4096, WINDOW = 64, MOST = WINDOW + 2;

/* Events that one call of progress completes at most, by default */
constexpr size_t MAX_POLL = 16;

/* How often a thing is done before it is counted: pools grow, streams start */
constexpr long WARM_UP = 3;

/* What UCX asks the driver for while it copies, by itself or by the runtime */
constexpr const char *DRIVER_CALLS[] = {
    "cuMemcpyAsync", "cuMemcpyDtoDAsync", "cuEventRecord", "cuEventQuery",
    "cuStreamQuery", "cuStreamAddCallback", "cuLaunchHostFunc",
    "cuStreamWaitEvent", "cuCtxGetApiVersion", "cuCtxGetId", "cuCtxSetCurrent",
    "cuCtxPushCurrent", "cuCtxPopCurrent"
};

/* Work of which the emulator tells when it is ready */
class emulated_work : public cuda_work {
public:
    explicit emulated_work(const std::string &transport) :
        cuda_work(transport, LENGTH, MOST), m_emul(emul_get())
    {
        if (m_emul == nullptr) {
            throw demo::error("counting instructions needs the emulator");
        }

        check_streams();
    }

    /* Copies that are held would keep their memory from being freed */
    ~emulated_work()
    {
        m_emul->gate_open(getpid(), GATE);
    }

    void copy_each(size_t num_streams)
    {
        for (size_t i = 0; i < num_streams; ++i) {
            copy(i, LENGTH);
        }
    }

    void copy_many(size_t count)
    {
        for (size_t i = 0; i < count; ++i) {
            copy(0, LENGTH);
        }
    }

    /* From now on no copy gets ready */
    void hold()
    {
        check(m_emul->gate_close(getpid(), GATE), "close a gate");
    }

    /* All that is outstanding gets ready */
    void make_ready()
    {
        check(m_emul->gate_open(getpid(), GATE), "open a gate");
        check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }

    void let_pass(size_t count)
    {
        check(m_emul->gate_pass(getpid(), GATE, count), "let copies pass");
    }

    /* Of the copies of one stream, which are held, the first gets ready: what
     * was recorded behind it is done when the next one is about to begin. */
    void make_first_ready()
    {
        int64_t unfinished = 0, waiting = 0;

        const int64_t others = outstanding() - 1;

        let_pass(1);
        while ((unfinished != others) || (waiting != 1)) {
            check(m_emul->count(getpid(), EMUL_COUNT_COPIES, &unfinished),
                  "count copies");
            check(m_emul->gate_waiters(getpid(), GATE, &waiting),
                  "count who waits at a gate");
            sched_yield();
        }
    }

    void drain()
    {
        make_ready();
        progress_until(0);
        transport().disarm();
    }

    /* Count the action, each time after the preparation. By so many it is to
     * change the number of what is outstanding. */
    void count(const std::string &name, long operations, const action &prepare,
               const action &run, long change)
    {
        for (long i = 0; i < WARM_UP; ++i) {
            prepare();
            run();
            drain();
        }

        const counted_section section(name, operations);
        int64_t calls = 0;

        for (long i = 0; i < operations; ++i) {
            prepare();

            const size_t expected = outstanding() + change;

            calls -= driver_calls();
            counted_section::begin();
            run();
            counted_section::end();
            calls += driver_calls();

            if (outstanding() != expected) {
                throw demo::error(name + " has not done what is expected");
            }
            drain();
        }

        print_result("calls, " + name, static_cast<double>(calls) / operations);
    }

    static void check(int status, const char *what)
    {
        if (status != 0) {
            throw demo::error(std::string("the emulator cannot ") + what +
                              ": " + strerror(-status));
        }
    }

private:
    /* Whether what are to be different streams are */
    void check_streams()
    {
        const auto deadline = std::chrono::steady_clock::now() +
                              demo::HANG_TIMEOUT;
        const int64_t count = streams().count();
        int64_t waiting     = 0;

        hold();
        copy_each(count);
        while (waiting < count) {
            if (std::chrono::steady_clock::now() > deadline) {
                throw demo::error("some copies share a stream");
            }
            check(m_emul->gate_waiters(getpid(), GATE, &waiting),
                  "count who waits at a gate");
            sched_yield();
        }
        drain();
    }

    int64_t driver_calls() const
    {
        int64_t sum = 0, calls;

        for (const char *function : DRIVER_CALLS) {
            check(m_emul->calls(getpid(), function, &calls), "count calls");
            sum += calls;
        }

        return sum;
    }

    static constexpr char GATE[] = "copy";

    const emul_api_t *const m_emul;
};

void nothing()
{
}

void count_posts(emulated_work &work, long operations)
{
    const action one = [&]() { work.copy(0, LENGTH); };

    work.count("post, first of its stream", operations, nothing, one, 1);
    work.count("post, behind another", operations, [&]() {
        work.hold();
        work.copy(0, LENGTH);
    }, one, 1);
}

void count_progress(emulated_work &work, long operations)
{
    const action progress = [&]() { work.transport().progress(); };

    const auto ready = [&](size_t copies) {
        work.copy_many(copies);
        work.make_ready();
    };
    const auto held  = [&](size_t copies) {
        work.hold();
        work.copy_many(copies);
    };

    work.count("progress, nothing outstanding", operations, nothing, progress,
               0);
    work.count("progress, 1 of 1 ready", operations, [&]() { ready(1); },
               progress, -1);
    work.count("progress, 1 of 16 ready", operations, [&]() {
        held(MAX_POLL);
        work.make_first_ready();
    }, progress, -1);
    work.count("progress, 16 of 16 ready", operations,
               [&]() { ready(MAX_POLL); }, progress, -long(MAX_POLL));
    work.count("progress, 0 of 1 ready", operations, [&]() { held(1); },
               progress, 0);
    work.count("progress, 0 of 16 ready", operations, [&]() { held(MAX_POLL); },
               progress, 0);
    work.count("progress, 0 of 1 ready on each stream", operations, [&]() {
        work.hold();
        work.copy_each(work.streams().count());
    }, progress, 0);
}

void check_arm(ucs_status_t status, ucs_status_t expected)
{
    if (status != expected) {
        throw demo::error(std::string("arming has returned: ") +
                          ucs_status_string(status));
    }
}

void count_arms(emulated_work &work, long operations)
{
    const action arm = [&]() { check_arm(work.transport().arm(), UCS_OK); };

    const auto held = [&](size_t num_streams) {
        work.hold();
        work.copy_each(num_streams);
    };

    work.count("arm, nothing outstanding", operations, nothing, arm, 0);
    work.count("arm, 0 of 1 ready", operations, [&]() { held(1); }, arm, 0);
    work.count("arm, 0 of 1 ready on each stream", operations,
               [&]() { held(work.streams().count()); }, arm, 0);
}

/* From the first copy to the last completion */
void count_window(emulated_work &work, long operations)
{
    work.count("64 copies", operations, nothing, [&]() {
        work.copy_many(WINDOW);
        work.make_ready();
        work.progress_until(0);
    }, 0);
}

void count_flush_of(emulated_work &work, size_t num_streams, long operations)
{
    const std::string of  = of_streams(num_streams);
    const long copies     = num_streams;
    const action complete = [&]() { work.progress_until(0); };

    work.count("flush of " + of, operations, [&]() {
        work.hold();
        work.copy_each(num_streams);
    }, [&]() { work.flush(); }, 1);

    work.count("completion of " + of, operations, [&]() {
        work.copy_each(num_streams);
        work.make_ready();
    }, complete, -copies);
    work.count("completion of " + of + " and a flush", operations, [&]() {
        work.copy_each(num_streams);
        work.flush();
        work.make_ready();
    }, complete, -copies - 1);
}

/* Calls that it takes once all is ready and progress has seen nothing of it */
long calls_of_all(emulated_work &work, size_t num_streams)
{
    work.hold();
    work.copy_each(num_streams);
    work.flush();
    work.transport().progress();
    if (work.outstanding() != num_streams + 1) {
        throw demo::error("a flush has completed before the copies");
    }

    work.make_ready();
    return work.progress_until(0);
}

/* Calls that it takes once the last stream is ready */
long calls_of_last(emulated_work &work, size_t num_streams)
{
    work.hold();
    work.copy_each(num_streams);
    work.flush();
    work.let_pass(num_streams - 1);
    work.progress_until(2);
    work.transport().progress();
    if (work.outstanding() != 2) {
        throw demo::error("a flush has completed before the last copy");
    }

    work.make_ready();
    return work.progress_until(0);
}

} // namespace

void count_cuda_copies(const std::string &transport, long operations)
{
    emulated_work work(transport);

    count_posts(work, operations);
    count_progress(work, operations);
    count_arms(work, operations);
    count_window(work, operations);
}

void count_cuda_flushes(const std::string &transport, long operations)
{
    emulated_work work(transport);

    work.count("flush, nothing outstanding", operations, nothing,
               [&]() { work.flush_nothing(); }, 0);
    for (const size_t num_streams : stream_counts(work.streams())) {
        count_flush_of(work, num_streams, operations);
    }

    work.count("64 copies and a flush", operations, nothing, [&]() {
        work.copy_many(WINDOW);
        work.flush();
        work.make_ready();
        work.progress_until(0);
    }, 0);
}

void count_cuda_calls(const std::string &transport, long operations)
{
    emulated_work work(transport);

    for (const size_t num_streams : stream_counts(work.streams())) {
        const std::string of = of_streams(num_streams);

        for (long i = 0; i < operations; ++i) {
            print_result(of + " at once",
                         calls_of_all(work, num_streams));
            print_result("last of " + of,
                         calls_of_last(work, num_streams));
        }
    }
}

} // namespace bench
