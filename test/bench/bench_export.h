/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_EXPORT_H_
#define BENCH_EXPORT_H_

namespace bench {

/** A section "free with N exports" for 10 and for @a exports of them: frees of
 *  buffers that were never exported. */
void count_frees(long exports, long operations);

/** Registers, packs and deregisters one allocation again and again. Sections
 *  "first registrations", "last registrations"; results: how many handles and
 *  signals were made, and the bytes of heap more than after the first time. */
void count_registrations(long operations);

} // namespace bench

#endif
