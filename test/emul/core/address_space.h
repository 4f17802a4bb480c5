/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_ADDRESS_SPACE_H_
#define EMUL_CORE_ADDRESS_SPACE_H_

#include <cstddef>

/*
 * Where this process maps device memory.
 *
 * A range that was given back stays reserved without access: touching it
 * faults, and nothing else is ever put there except device memory, as
 * EMUL_ADDRESS_REUSE tells:
 *
 *   force    at once: the range given back last that is large enough, also
 *            for another size: most ranges have more room than they need
 *   default  some day: the oldest that is large enough, once many are idle
 *   forbid   never
 *
 * The kernel is asked by bare system calls: hooks that the program under test
 * puts on mmap and munmap must see only what they would see on real hardware,
 * where this is a driver's business.
 */

namespace emul {

/* Ranges are only reused for the same use. */
enum class range_use { allocation, attach, host, alias };

/** Reserve a range without access, followed by a page that is never mapped.
 *  @param length  A multiple of the page size.
 *  @return nullptr if there is none. */
void *range_take(size_t length, range_use use);

/** Map a file into a range. */
bool range_map(void *base, size_t length, int fd);

/** Make a range ordinary memory of this process. */
bool range_map_private(void *base, size_t length);

/** Whether the address is in a range of ours, mapped or not. */
bool range_holds(const void *address);

/** Unmap and remember the range. */
void range_give_back(void *base, size_t length, range_use use);

} // namespace emul

#endif
