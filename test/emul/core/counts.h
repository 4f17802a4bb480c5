/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_COUNTS_H_
#define EMUL_CORE_COUNTS_H_

#include <emul.h>

/*
 * What each process holds, counted by the process itself in its record.
 */

namespace emul {

/** Change a count of this process. */
void count_add(emul_count_t what, int64_t change);

/** A count of this process. */
int64_t count_own(emul_count_t what);

/** emul_api_t::count */
int count_read(pid_t pid, emul_count_t what, int64_t *value_p);

} // namespace emul

#endif
