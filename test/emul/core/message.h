/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_MESSAGE_H_
#define EMUL_CORE_MESSAGE_H_

namespace emul {

/** One line on stderr, "emul[pid]: ...", written by one system call so that
 *  lines of several processes do not mix. */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The same, then abort(): what would be memory corruption, a GPU fault or a
 *  call into nothing on real hardware must not go unseen. */
[[noreturn]] void fatal(const char *format, ...)
        __attribute__((format(printf, 1, 2)));

} // namespace emul

#endif
