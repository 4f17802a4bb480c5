/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "context.h"
#include "memory.h"

#include <core/settings.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

/*
 * The devices: all GPUs of the node, all alike.
 */

namespace emul {

namespace {

/* What programs ask for by number: where on the PCI bus the first one is */
constexpr int first_bus = 0x10;

constexpr int compute_major = 9; /* as an H200 */
constexpr int compute_minor = 0;

int attribute_value(CUdevice_attribute attribute, int device)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return first_bus + device;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return compute_minor;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    default:
        /* what is not emulated is not supported */
        return 0;
    }
}

CUresult get_attribute(int *value_p, CUdevice_attribute attribute,
                       CUdevice device)
{
    device_checked(device);
    require_value((value_p != nullptr) && (attribute > 0) &&
                  (attribute < CU_DEVICE_ATTRIBUTE_MAX));
    *value_p = attribute_value(attribute, device);
    return CUDA_SUCCESS;
}

void bus_id(char *text, int size, int device)
{
    snprintf(text, size, "0000:%02X:00.0", first_bus + device);
}

CUresult by_bus_id(CUdevice *device_p, const char *text)
{
    unsigned domain, bus, slot, function = 0;

    require_value((device_p != nullptr) && (text != nullptr));
    require_value((sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot,
                          &function) >= 3) && (domain == 0) && (slot == 0));
    require_value((int(bus) >= first_bus) &&
                  (int(bus) < first_bus + device_count()));
    *device_p = bus - first_bus;
    return CUDA_SUCCESS;
}

/* The same in every process, another one for every device */
CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    device_checked(device);
    require_value(uuid != nullptr);
    memcpy(uuid->bytes, "emulated GPU", 12);
    memset(uuid->bytes + 12, 0, 3);
    uuid->bytes[15] = device;
    return CUDA_SUCCESS;
}

CUresult get_p2p(int *value_p, CUdevice_P2PAttribute attribute, CUdevice first,
                 CUdevice second)
{
    device_checked(first);
    device_checked(second);
    require(first != second, CUDA_ERROR_INVALID_DEVICE);
    require_value(value_p != nullptr);
    *value_p = (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED) ||
               (attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    return CUDA_SUCCESS;
}

} // namespace

int device_count()
{
    return setting_value(setting_gpus);
}

int device_checked(CUdevice device)
{
    require((device >= 0) && (device < device_count()),
            CUDA_ERROR_INVALID_DEVICE);
    return device;
}

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    return call(fn_cuDeviceGet, [&] {
        require_value(device != nullptr);
        *device = device_checked(ordinal);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    return call(fn_cuDeviceGetCount, [&] {
        require_value(count != nullptr);
        *count = device_count();
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
    return call(fn_cuDeviceGetName, [&] {
        device_checked(dev);
        require_value((name != nullptr) && (len > 0));
        snprintf(name, len, "Emulated GPU");
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    return call(fn_cuDeviceGetUuid, [&] { return get_uuid(uuid, dev); });
}

EMUL_ALSO(cuDeviceGetUuid, cuDeviceGetUuid_v2);

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
    return call(fn_cuDeviceTotalMem, [&] {
        device_checked(dev);
        require_value(bytes != nullptr);
        *bytes = setting_value(setting_gpu_memory);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib,
                                      CUdevice dev)
{
    return call(fn_cuDeviceGetAttribute,
                [&] { return get_attribute(pi, attrib, dev); });
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    return call(fn_cuDeviceComputeCapability, [&] {
        device_checked(dev);
        require_value((major != nullptr) && (minor != nullptr));
        *major = compute_major;
        *minor = compute_minor;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    return call(fn_cuDeviceGetPCIBusId, [&] {
        device_checked(dev);
        require_value((pciBusId != nullptr) && (len > 0));
        bus_id(pciBusId, len, dev);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    return call(fn_cuDeviceGetByPCIBusId,
                [&] { return by_bus_id(dev, pciBusId); });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev,
                                       CUdevice peerDev)
{
    return call(fn_cuDeviceCanAccessPeer, [&] {
        device_checked(dev);
        device_checked(peerDev);
        require_value(canAccessPeer != nullptr);
        *canAccessPeer = (dev != peerDev);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value,
                                         CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice,
                                         CUdevice dstDevice)
{
    return call(fn_cuDeviceGetP2PAttribute, [&] {
        return get_p2p(value, attrib, srcDevice, dstDevice);
    });
}
