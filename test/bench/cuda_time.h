/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_TIME_H_
#define CUDA_TIME_H_

#include <cstddef>
#include <string>

namespace bench {

/** Print a line "device": its name, the versions of driver and runtime, and
 *  whether it is emulated. */
void print_cuda_device();

/*
 * Times, on a GPU or on the emulator. All are in seconds and printed for each
 * round, so that one round of a thing lies beside that of another.
 */

/** Results "copy" and, if there are to be @a flushes, "copy with flushes": for
 *  each of @a copies, 64 of them outstanding at a time, with a flush behind
 *  each 64 which is not waited for. */
void time_cuda_copies(const std::string &transport, size_t length, long copies,
                      long rounds, bool flushes);

/** Results "flush of N streams": a call of flush, with N active streams. */
void time_cuda_flushes(const std::string &transport, long rounds);

/** From the start of the first of some copies on one stream until it is known
 *  that they are done. Results: "last copy", progress is called until the last
 *  copy's completion; "flush", if there are to be @a flushes, until a flush's;
 *  "synchronize", the same copies without UCX, then cudaStreamSynchronize. */
void time_cuda_completions(const std::string &transport, size_t length,
                           long copies, long rounds, bool flushes);

} // namespace bench

#endif
