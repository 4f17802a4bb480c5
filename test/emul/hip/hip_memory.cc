/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "hip_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using hip::allocation;
using hip::memory_kind;
using hip::result;

namespace {

/* Rows of a pitched allocation start at multiples of this, as on the GPUs that
 * the real runtime drives. */
constexpr size_t PITCH_ALIGNMENT = 256;

/* Bytes that hipMemset copies to a device at a time */
constexpr size_t FILL_CHUNK = 1024 * 1024;

hsa_amd_memory_pool_t pool_of(const hip::topology &devices, memory_kind kind,
                              int device)
{
    return (kind == memory_kind::DEVICE) ? devices.gpus[device].pool :
                                           devices.host_pool;
}

/* A GPU reaches its own memory without being allowed to */
bool needs_access(const hip::topology &devices, memory_kind kind)
{
    return (kind != memory_kind::DEVICE) || (devices.gpus.size() > 1);
}

hipError_t allocate(void **ptr_p, size_t size, memory_kind kind, unsigned flags)
{
    const hip::topology *devices = hip::topology_get();
    const int device             = hip::current_device();
    void *base                   = nullptr;

    if (devices == nullptr) {
        return hipErrorNoDevice;
    }

    if (ptr_p == nullptr) {
        return hipErrorInvalidValue;
    }

    *ptr_p = nullptr;
    if (size == 0) {
        return hipSuccess;
    }

    if (hsa_amd_memory_pool_allocate(pool_of(*devices, kind, device), size, 0,
                                     &base) != HSA_STATUS_SUCCESS) {
        return hipErrorOutOfMemory;
    }

    if (needs_access(*devices, kind) &&
        (hsa_amd_agents_allow_access(devices->gpu_agents.size(),
                                     devices->gpu_agents.data(), nullptr,
                                     base) != HSA_STATUS_SUCCESS)) {
        hsa_amd_memory_pool_free(base);
        return hipErrorOutOfMemory;
    }

    hip::allocations().insert({base, size, kind, device, flags});
    *ptr_p = base;
    return hipSuccess;
}

hipError_t release(void *ptr)
{
    if (hip::topology_get() == nullptr) {
        return hipErrorNoDevice;
    }

    if (ptr == nullptr) {
        return hipSuccess;
    }

    /* Out of the table before HSA may hand the address out again */
    const std::optional<allocation> entry = hip::allocations().take(ptr);
    if (!entry) {
        return hipErrorInvalidValue;
    }

    const hsa_status_t status = hsa_amd_memory_pool_free(ptr);
    if (status != HSA_STATUS_SUCCESS) {
        hip::allocations().insert(*entry); /* It is still there */
    }

    return hip::from_hsa(status);
}

/* False if the range starts in an allocation and leaves it. Memory that HIP
 * has not allocated is for HSA to judge. */
bool range_is_valid(const void *ptr, size_t size)
{
    const std::optional<allocation> entry = hip::allocations().find(ptr);

    if (!entry) {
        return true;
    }

    const size_t offset = static_cast<const char*>(ptr) -
                          static_cast<const char*>(entry->base);
    return size <= entry->size - offset;
}

hipError_t fill(char *dst, int value, size_t size)
{
    const std::vector<char> chunk(std::min(size, FILL_CHUNK), value);

    while (size > 0) {
        const size_t part         = std::min(size, chunk.size());
        const hsa_status_t status = hsa_memory_copy(dst, chunk.data(), part);

        if (status != HSA_STATUS_SUCCESS) {
            return hip::from_hsa(status);
        }

        dst  += part;
        size -= part;
    }

    return hipSuccess;
}

/*
 * Releases differ in what they call managed memory: 5.2 says "host" and sets
 * isManaged; UCX's tests look for "unified" before they use it. The variable
 * EMUL_HIP_MANAGED, "host" (default) or "unified", selects.
 */
hipMemoryType managed_type()
{
    const char *value = getenv("EMUL_HIP_MANAGED");

    return ((value != nullptr) && !strcmp(value, "unified")) ?
                   hipMemoryTypeUnified :
                   hipMemoryTypeHost;
}

hipMemoryType memory_type(memory_kind kind)
{
    switch (kind) {
    case memory_kind::DEVICE:
        return hipMemoryTypeDevice;
    case memory_kind::MANAGED:
        return managed_type();
    default:
        return hipMemoryTypeHost;
    }
}

} // namespace

hipError_t hipMalloc(void **ptr_p, size_t size)
{
    return result(allocate(ptr_p, size, memory_kind::DEVICE, 0));
}

hipError_t hipMallocManaged(void **ptr_p, size_t size, unsigned int flags)
{
    if ((flags != hipMemAttachGlobal) && (flags != hipMemAttachHost)) {
        return result(hipErrorInvalidValue);
    }

    return result(allocate(ptr_p, size, memory_kind::MANAGED, flags));
}

hipError_t hipHostMalloc(void **ptr_p, size_t size, unsigned int flags)
{
    return result(allocate(ptr_p, size, memory_kind::HOST, flags));
}

hipError_t hipMallocPitch(void **ptr_p, size_t *pitch_p, size_t width,
                          size_t height)
{
    size_t pitch, size;

    if ((pitch_p == nullptr) ||
        __builtin_add_overflow(width, PITCH_ALIGNMENT - 1, &pitch)) {
        return result(hipErrorInvalidValue);
    }

    pitch -= pitch % PITCH_ALIGNMENT;
    if (__builtin_mul_overflow(pitch, height, &size)) {
        return result(hipErrorOutOfMemory);
    }

    *pitch_p = pitch;
    return result(allocate(ptr_p, size, memory_kind::DEVICE, 0));
}

hipError_t hipFree(void *ptr)
{
    return result(release(ptr));
}

hipError_t hipHostFree(void *ptr)
{
    const std::optional<allocation> entry = hip::allocations().find(ptr);

    if (entry && (entry->kind == memory_kind::DEVICE)) {
        return result(hipErrorInvalidValue);
    }

    return result(release(ptr));
}

hipError_t hipHostGetDevicePointer(void **device_ptr_p, void *host_ptr,
                                   unsigned int flags)
{
    const std::optional<allocation> entry = hip::allocations().find(host_ptr);

    if ((device_ptr_p == nullptr) || (flags != 0) || !entry ||
        (entry->kind == memory_kind::DEVICE)) {
        return result(hipErrorInvalidValue);
    }

    *device_ptr_p = host_ptr; /* One address space for host and GPUs */
    return result(hipSuccess);
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size,
                     hipMemcpyKind kind)
{
    if (hip::topology_get() == nullptr) {
        return result(hipErrorNoDevice);
    }

    if ((kind < hipMemcpyHostToHost) || (kind > hipMemcpyDefault)) {
        return result(hipErrorInvalidMemcpyDirection);
    }

    if (size == 0) {
        return result(hipSuccess);
    }

    if ((dst == nullptr) || (src == nullptr) || !range_is_valid(dst, size) ||
        !range_is_valid(src, size)) {
        return result(hipErrorInvalidValue);
    }

    return result(hip::from_hsa(hsa_memory_copy(dst, src, size)));
}

hipError_t hipMemset(void *dst, int value, size_t size)
{
    if (hip::topology_get() == nullptr) {
        return result(hipErrorNoDevice);
    }

    if (size == 0) {
        return result(hipSuccess);
    }

    if ((dst == nullptr) || !range_is_valid(dst, size)) {
        return result(hipErrorInvalidValue);
    }

    return result(fill(static_cast<char*>(dst), value, size));
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base_p, size_t *size_p,
                                 hipDeviceptr_t ptr)
{
    const std::optional<allocation> entry = hip::allocations().find(ptr);

    if ((base_p == nullptr) || (size_p == nullptr) || !entry) {
        return result(hipErrorInvalidValue);
    }

    *base_p = entry->base;
    *size_p = entry->size;
    return result(hipSuccess);
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes,
                                   const void *ptr)
{
    const std::optional<allocation> entry = hip::allocations().find(ptr);

    if ((attributes == nullptr) || !entry) {
        return result(hipErrorInvalidValue);
    }

    *attributes                 = {};
    attributes->memoryType      = memory_type(entry->kind);
    attributes->device          = entry->device;
    attributes->devicePointer   = const_cast<void*>(ptr);
    attributes->isManaged       = (entry->kind == memory_kind::MANAGED);
    attributes->allocationFlags = entry->flags;
    if (entry->kind != memory_kind::DEVICE) {
        attributes->hostPointer = attributes->devicePointer;
    }

    return result(hipSuccess);
}
