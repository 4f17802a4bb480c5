/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_LEAK_REPORT_H_
#define EMUL_HSA_LEAK_REPORT_H_

namespace emul {

/** Write what the process still holds to where EMUL_LEAK_REPORT says. */
void leak_report();

} // namespace emul

#endif
