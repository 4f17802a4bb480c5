/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "hip_state.h"

#include "../emul.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using hip::result;

namespace {

/* HSA_AMD_AGENT_INFO_MEMORY_AVAIL of newer headers than those that this is
 * compiled against: bytes of the agent's memory that are free */
constexpr auto AGENT_INFO_MEMORY_AVAIL = static_cast<hsa_agent_info_t>(0xA015);

/* Device of that number, or NULL; *status_p says why */
const hip::gpu *find_gpu(int device, hipError_t *status_p)
{
    const hip::topology *devices = hip::topology_get();

    if (devices == nullptr) {
        *status_p = hipErrorNoDevice;
        return nullptr;
    }

    if ((device < 0) || (static_cast<size_t>(device) >= devices->gpus.size())) {
        *status_p = hipErrorInvalidDevice;
        return nullptr;
    }

    *status_p = hipSuccess;
    return &devices->gpus[device];
}

/* Ask HSA as newer releases of HIP do. If it does not know the question, the
 * emulator's own count answers, which is of all GPUs of the node together. */
bool available_bytes(const hip::gpu &gpu, size_t *free_p)
{
    uint64_t available = 0;
    int64_t charged    = 0;

    if (hsa_agent_get_info(gpu.agent, AGENT_INFO_MEMORY_AVAIL, &available) ==
        HSA_STATUS_SUCCESS) {
        *free_p = available;
        return true;
    }

    const emul_api_t *api = emul_get();
    if ((api == nullptr) ||
        (api->count(EMUL_ANY_PROCESS, EMUL_COUNT_BYTES_CHARGED, &charged) !=
         0)) {
        return false;
    }

    *free_p = gpu.size - std::min(gpu.size, static_cast<size_t>(charged));
    return true;
}

} // namespace

hipError_t hipInit(unsigned int flags)
{
    if (flags != 0) {
        return result(hipErrorInvalidValue);
    }

    return result((hip::topology_get() == nullptr) ? hipErrorNoDevice :
                                                     hipSuccess);
}

hipError_t hipDriverGetVersion(int *version_p)
{
    if (version_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    *version_p = HIP_VERSION;
    return result(hipSuccess);
}

hipError_t hipRuntimeGetVersion(int *version_p)
{
    return hipDriverGetVersion(version_p);
}

hipError_t hipGetDeviceCount(int *count_p)
{
    if (count_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    const hip::topology *devices = hip::topology_get();

    *count_p = (devices == nullptr) ? 0 : devices->gpus.size();
    return result((*count_p == 0) ? hipErrorNoDevice : hipSuccess);
}

hipError_t hipSetDevice(int device)
{
    hipError_t status;

    if (find_gpu(device, &status) != nullptr) {
        hip::select_device(device);
    }

    return result(status);
}

hipError_t hipGetDevice(int *device_p)
{
    hipError_t status;

    if (device_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    if (find_gpu(hip::current_device(), &status) != nullptr) {
        *device_p = hip::current_device();
    }

    return result(status);
}

hipError_t hipDeviceGet(hipDevice_t *device_p, int ordinal)
{
    hipError_t status;

    if (device_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    if (find_gpu(ordinal, &status) != nullptr) {
        *device_p = ordinal;
    }

    return result(status);
}

hipError_t hipDeviceGetName(char *name, int length, hipDevice_t device)
{
    hipError_t status;

    if ((name == nullptr) || (length <= 0)) {
        return result(hipErrorInvalidValue);
    }

    const hip::gpu *gpu = find_gpu(device, &status);
    if (gpu != nullptr) {
        snprintf(name, length, "%s", gpu->name.c_str());
    }

    return result(status);
}

hipError_t hipDeviceGetAttribute(int *value_p, hipDeviceAttribute_t attribute,
                                 int device)
{
    hipError_t status;

    if (value_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    if (find_gpu(device, &status) == nullptr) {
        return result(status);
    }

    switch (attribute) {
    case hipDeviceAttributeManagedMemory:
        *value_p = 1;
        return result(hipSuccess);
    case hipDeviceAttributeImageSupport: /* Like compute-only GPUs */
        *value_p = 0;
        return result(hipSuccess);
    default:
        fprintf(stderr, "libamdhip64 (emulated): hipDeviceGetAttribute: "
                        "attribute %d is not emulated\n", attribute);
        abort();
    }
}

hipError_t hipDeviceTotalMem(size_t *size_p, hipDevice_t device)
{
    hipError_t status;

    if (size_p == nullptr) {
        return result(hipErrorInvalidValue);
    }

    const hip::gpu *gpu = find_gpu(device, &status);
    if (gpu != nullptr) {
        *size_p = gpu->size;
    }

    return result(status);
}

/* Nothing to wait for: the emulated calls have finished when they return */
hipError_t hipDeviceSynchronize(void)
{
    hipError_t status;

    find_gpu(hip::current_device(), &status);
    return result(status);
}

hipError_t hipMemGetInfo(size_t *free_p, size_t *total_p)
{
    hipError_t status;

    if ((free_p == nullptr) || (total_p == nullptr)) {
        return result(hipErrorInvalidValue);
    }

    const hip::gpu *gpu = find_gpu(hip::current_device(), &status);
    if (gpu == nullptr) {
        return result(status);
    }

    if (!available_bytes(*gpu, free_p)) {
        return result(hipErrorUnknown);
    }

    *total_p = gpu->size;
    return result(hipSuccess);
}
