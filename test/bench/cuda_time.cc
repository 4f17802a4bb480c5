/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_time.h"
#include "bench_result.h"
#include "cuda_work.h"

#include "../emul/emul.h"

#include <chrono>
#include <functional>

namespace bench {

namespace {

/* Copies that are outstanding at a time, and between two flushes */
constexpr size_t WINDOW = 64;

/* Flushes in a row, so that the clock does not matter */
constexpr size_t FLUSHES = 32;

double seconds_of(const std::function<void()> &run)
{
    const auto begin = std::chrono::steady_clock::now();

    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin).count();
}

/* Flushes come on top of the copies that may be outstanding */
void copy_window(cuda_work &work, size_t length, long copies, bool flushes)
{
    const size_t most = WINDOW + (flushes ? 1 : 0);

    for (long i = 1; i <= copies; ++i) {
        work.progress_until(most - 1);
        work.copy(0, length);
        if (flushes && (i % WINDOW == 0)) {
            work.flush();
        }
    }

    work.progress_until(0);
}

/* A stream of CUDA's, of the kind that UCX uses, and an event */
class cuda_stream {
public:
    cuda_stream()
    {
        check_cuda(cudaStreamCreateWithFlags(&m_stream, cudaStreamNonBlocking),
                   "cudaStreamCreateWithFlags");
        check_cuda(cudaEventCreateWithFlags(&m_event, cudaEventDisableTiming),
                   "cudaEventCreateWithFlags");
    }

    cuda_stream(const cuda_stream&)            = delete;
    cuda_stream &operator=(const cuda_stream&) = delete;

    ~cuda_stream()
    {
        static_cast<void>(cudaEventDestroy(m_event));
        static_cast<void>(cudaStreamDestroy(m_stream));
    }

    /* What UCX asks the runtime for, for a copy */
    void copy(const cuda_streams &streams, size_t length) const
    {
        streams.copy_without_ucx(length, m_stream);
        check_cuda(cudaEventRecord(m_event, m_stream), "cudaEventRecord");
    }

    void synchronize() const
    {
        check_cuda(cudaStreamSynchronize(m_stream), "cudaStreamSynchronize");
    }

private:
    cudaStream_t m_stream;
    cudaEvent_t  m_event;
};

} // namespace

void print_cuda_device()
{
    cudaDeviceProp properties;
    int driver, runtime;

    check_cuda(cudaGetDeviceProperties(&properties, 0),
               "cudaGetDeviceProperties");
    check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    printf("device\t%s, a driver for CUDA %d.%d, runtime %d.%d\t%d\n",
           properties.name, driver / 1000, driver % 1000 / 10, runtime / 1000,
           runtime % 1000 / 10, emul_get() != nullptr);
}

void time_cuda_copies(const std::string &transport, size_t length, long copies,
                      long rounds, bool flushes)
{
    cuda_work work(transport, length, 2 * WINDOW);

    copy_window(work, length, WINDOW, flushes); /* Whatever is done once */

    for (long i = 0; i < rounds; ++i) {
        print_result("copy", seconds_of([&]() {
                         copy_window(work, length, copies, false);
                     }) / copies);
        if (flushes) {
            print_result("copy with flushes", seconds_of([&]() {
                             copy_window(work, length, copies, true);
                         }) / copies);
        }
    }
}

void time_cuda_flushes(const std::string &transport, long rounds)
{
    constexpr size_t length = 4096;
    cuda_work work(transport, length, WINDOW);

    for (const size_t count : stream_counts(work.streams())) {
        for (long i = 0; i <= rounds; ++i) {
            for (size_t stream = 0; stream < count; ++stream) {
                work.copy(stream, length);
            }

            /* A stream is active until progress sees that it is not */
            const double seconds = seconds_of([&]() {
                for (size_t j = 0; j < FLUSHES; ++j) {
                    work.flush();
                }
            });

            work.progress_until(0);
            if (i > 0) { /* First there is whatever is done once */
                print_result("flush of " + of_streams(count),
                             seconds / FLUSHES);
            }
        }
    }
}

void time_cuda_completions(const std::string &transport, size_t length,
                           long copies, long rounds, bool flushes)
{
    const auto issue = [&](cuda_work &work) {
        for (long i = 0; i < copies; ++i) {
            work.copy(0, length);
        }
    };
    cuda_work work(transport, length, copies + 1);
    const cuda_stream stream;

    for (long i = 0; i <= rounds; ++i) {
        const double last  = seconds_of([&]() {
            issue(work);
            work.progress_until(0);
        });
        const double flush = !flushes ? 0 : seconds_of([&]() {
            issue(work);
            work.flush();
            work.progress_until(0);
        });
        const double bare  = seconds_of([&]() {
            for (long j = 0; j < copies; ++j) {
                stream.copy(work.streams(), length);
            }
            stream.synchronize();
        });

        if (i == 0) {
            continue; /* Whatever is done once */
        }

        print_result("last copy", last);
        if (flushes) {
            print_result("flush", flush);
        }
        print_result("synchronize", bare);
    }
}

} // namespace bench
