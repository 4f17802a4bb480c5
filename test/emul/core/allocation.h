/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_ALLOCATION_H_
#define EMUL_CORE_ALLOCATION_H_

#include "handle.h"
#include "layout.h"

#include <cstddef>

/*
 * Device memory of the node: allocations, who has attached them, and what they
 * cost. Each is a file, so that processes really share it; where a process maps
 * it is that process's business.
 */

namespace emul {

constexpr size_t page_size = 4096;

constexpr size_t page_align(size_t size)
{
    return (size + page_size - 1) & ~(page_size - 1);
}

/** A descriptor of the file and what is behind it. */
struct memory_file {
    int      fd;
    unsigned index;   /* of the allocation, or of the attach record */
    unsigned device;
    size_t   size;    /* of the allocation, as asked for */
};

/** Allocate device memory for this process.
 *  @return false if the device or the node has no room. The caller closes the
 *          descriptor. */
bool allocation_create(unsigned device, size_t size, memory_file *file_p);

/** The first half of freeing: no attach succeeds from here on, and with
 *  EMUL_FREE=block this waits until nobody has it attached; a process that dies
 *  meanwhile counts as detached. */
void allocation_wait_detached(unsigned index);

/** The second half, or all of it when the process leaves: the memory is given
 *  back now or, if it is still attached, after the last detach. */
void allocation_release(unsigned index);

/** @return The handle of an allocation of this process. */
handle allocation_export(unsigned index);

/** Attach an allocation by handle. With EMUL_LATE_ATTACH=block this does not
 *  return for one that its living owner has freed. The caller closes the
 *  descriptor.
 *  @param length  What the caller believes the size to be. */
attach_result allocation_attach(const handle &h, size_t length,
                                memory_file *file_p);

/** The mapping is gone. @a attach_index is memory_file::index of the attach. */
void allocation_detach(unsigned attach_index);

/** Bytes of all devices, or of one, that cannot be allocated now. */
uint64_t allocations_charged();
uint64_t allocations_charged(unsigned device);

/* A process is gone; computing again what is derived. Node lock held. */
void attaches_drop_process(unsigned slot);
void allocations_drop_process(unsigned slot);
void allocations_repair();

} // namespace emul

#endif
