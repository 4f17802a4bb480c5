/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef INTEROP_DEVICE_H_
#define INTEROP_DEVICE_H_

#include <ucs/memory/memory_type.h>

#include <cstddef>

namespace interop {

/**
 * @file interop_device.h
 * @brief What the peer needs of a vendor's runtime, once for each vendor.
 *
 * All functions throw demo::error if the runtime could not do it.
 */

/** UCX's name of the device's memory. */
extern const ucs_memory_type_t device_memory_type;

/** File name of UCX's module with the vendor's transports, without version. */
extern const char *const device_module;

/** What the runtime offers for copies of transports; ends with a NULL. */
extern const char *const device_copy_calls[];

/** Select the first device. */
void open_device();

void *allocate(size_t size);

/** As an application frees: the way that UCX watches. */
void free_memory(void *address);

void write_memory(void *address, const void *bytes, size_t size);

void read_memory(void *bytes, const void *address, size_t size);

} // namespace interop

#endif
