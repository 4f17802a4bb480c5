/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_MEMORY_H_
#define EMUL_HSA_MEMORY_H_

#include "memory_map.h"

#include <core/address_space.h>
#include <core/allocation.h>

namespace emul {

/** Map the whole of a file somewhere and close its descriptor.
 *  @return nullptr if there is no room in the address space. */
char *memory_map_file(const memory_file &file, range_use use);

/** Unmap and give back what has been removed from the memory map.
 *  @param may_wait  For importers, as EMUL_FREE says. */
void memory_release(const mapping &m, bool may_wait);

} // namespace emul

#endif
