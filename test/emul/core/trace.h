/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_TRACE_H_
#define EMUL_CORE_TRACE_H_

namespace emul {

/** Whether EMUL_TRACE asks for a line for each call. */
bool tracing();

/** One such line: "<thread> <name> <what><status>". */
void trace(const char *name, const char *what, unsigned status);

} // namespace emul

#endif
