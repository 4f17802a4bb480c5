/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_CONTROL_H_
#define EMUL_CORE_CONTROL_H_

/*
 * emul_api_t, as each emulated runtime exports it (control.cc).
 */

namespace emul {

/** Provided by the runtime that core is linked into: join the node if need be
 *  and make the runtime's points known.
 *  @return false if this process cannot be on a node. */
bool runtime_attach();

} // namespace emul

#endif
