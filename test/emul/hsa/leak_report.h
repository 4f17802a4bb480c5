/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_LEAK_REPORT_H_
#define EMUL_HSA_LEAK_REPORT_H_

namespace emul {

/** Write what the process still holds, one thing a line, to where
 *  EMUL_LEAK_REPORT says: "stderr" or a file, to which it is appended. Nothing
 *  is written, and no file made, if it holds nothing. */
void leak_report();

} // namespace emul

#endif
