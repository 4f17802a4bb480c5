/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_FREE_H_
#define BENCH_FREE_H_

namespace bench {

/** Result "free" for each of at least @a samples frees of buffers: seconds from
 *  the call to its return, with @a peers which have mapped @a mappings buffers
 *  each, among them that one, and are idle. */
void time_frees(int peers, long mappings, long samples);

/** The same, without UCX, where each peer does no more than it must. */
void time_bare_frees(int peers, long mappings, long samples);

/** Result "free waits": 1 if a free has not finished after @a seconds while a
 *  peer that has mapped the buffer is idle, else 0. */
void see_if_free_waits(double seconds);

} // namespace bench

#endif
