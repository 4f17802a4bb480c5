/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_COUNT_H_
#define CUDA_COUNT_H_

#include <string>

namespace bench {

/*
 * Instructions, on the emulator: it says what is ready, so that the same
 * happens in each run. The last argument is how often each thing is done.
 * Sections have the names that buildlib/bench_cuda.py looks for. For each there
 * is a result "calls, SECTION": calls of CUDA's driver, each time.
 */

/** Copies, progress and arming. */
void count_cuda_copies(const std::string &transport, long operations);

/** Flushes, with some numbers of active streams. */
void count_cuda_flushes(const std::string &transport, long operations);

/** Results "N streams at once", "last of N streams": how many calls of progress
 *  it takes from the moment that all copies are ready, or that the last one is,
 *  to the completion of the flush behind them. */
void count_cuda_calls(const std::string &transport, long operations);

} // namespace bench

#endif
