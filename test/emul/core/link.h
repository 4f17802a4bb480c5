/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_LINK_H_
#define EMUL_CORE_LINK_H_

#include <cstddef>
#include <cstdint>

/*
 * The time that asynchronous copies take, by EMUL_COPY_BANDWIDTH and
 * EMUL_COPY_LATENCY. Those of a process share one link, one after the other;
 * the latency is each one's own.
 */

namespace emul {

/** A copy begins. @return When it ends, in the time of now_ns(), or 0: it takes
 *  no time. */
int64_t link_use(size_t size);

/** Sleep until then. */
void sleep_until(int64_t when);

} // namespace emul

#endif
