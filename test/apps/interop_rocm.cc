/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "interop_device.h"
#include "demo_channel.h"

#include <hip/hip_runtime_api.h>

namespace interop {

const ucs_memory_type_t device_memory_type = UCS_MEMORY_TYPE_ROCM;
const char *const device_module            = "libuct_rocm.so";
const char *const device_copy_calls[]      = {"hsa_amd_memory_async_copy",
                                              nullptr};

static void check(hipError_t status, const std::string &call)
{
    if (status != hipSuccess) {
        throw demo::error(call + " failed: " + hipGetErrorName(status));
    }
}

void open_device()
{
    check(hipSetDevice(0), "hipSetDevice");
}

void *allocate(size_t size)
{
    void *address;

    check(hipMalloc(&address, size), "hipMalloc");
    return address;
}

void free_memory(void *address)
{
    check(hipFree(address), "hipFree");
}

void write_memory(void *address, const void *bytes, size_t size)
{
    check(hipMemcpy(address, bytes, size, hipMemcpyHostToDevice), "hipMemcpy");
    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

void read_memory(void *bytes, const void *address, size_t size)
{
    check(hipMemcpy(bytes, address, size, hipMemcpyDeviceToHost), "hipMemcpy");
}

} // namespace interop
