/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_MEMORY_H_
#define EMUL_CUDA_MEMORY_H_

#include "memory_map.h"

#include <core/allocation.h>

namespace emul {

/** Reserve addresses for device memory and make the alias, of the whole of a
 *  file. Its descriptor is closed.
 *  @param m_p  Filled: base, alias, size and length.
 *  @return false if there is no room in the address space. */
bool memory_map_file(const memory_file &file, bool imported, mapping *m_p);

/** Allocate device memory and make it known.
 *  @param m    kind, flags and pool are to be filled. */
void *memory_allocate(context &c, size_t size, mapping m);

/** Give back what has been removed from the map. */
void memory_release(const mapping &m);

/** The same for memory of a pool by its address, as far as it is known. */
void memory_release_pooled(const void *base);

/** The context is gone: so is its memory. */
void memory_drop_context(const context &c);

/** A number that no memory of this process had before. */
unsigned long long memory_next_id();

/** Whether a handle names a pool, and the one that a device has. */
bool pool_is_known(CUmemoryPool handle);
CUmemoryPool pool_of_device(int device);

} // namespace emul

#endif
