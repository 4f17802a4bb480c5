/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_LEAK_REPORT_H_
#define EMUL_CUDA_LEAK_REPORT_H_

namespace emul {

/** Write what the process still holds to where EMUL_LEAK_REPORT says. Primary
 *  contexts are not named: those who use them share them. */
void leak_report();

} // namespace emul

#endif
