/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_COPY_H_
#define BENCH_COPY_H_

namespace bench {

/** Sections "put", "get", these of two threads, and "progress": copies whose
 *  mapping is cached, and calls of progress that find nothing. */
void count_copies(long operations);

/** Results: seconds for each copy of a thread, of one and of two threads. */
void time_copies(long operations);

/** Results: CPU seconds in each second of a process that has mapped so many
 *  buffers and is idle, for the whole process and for its threads by name. */
void measure_idle(long regions, double seconds);

} // namespace bench

#endif
