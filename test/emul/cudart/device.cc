/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "state.h"

#include <cstring>

using namespace cudart;

namespace {

int attribute(CUdevice_attribute what, int device)
{
    int value = 0;

    DRIVER(cuDeviceGetAttribute)(&value, what, device);
    return value;
}

/* What programs look at; all else is zero */
CUresult fill_properties(cudaDeviceProp *p, int device)
{
    size_t memory;
    CUresult status = DRIVER(cuDeviceTotalMem)(&memory, device);

    if (status != CUDA_SUCCESS) {
        return status;
    }

    memset(p, 0, sizeof(*p));
    DRIVER(cuDeviceGetName)(p->name, sizeof(p->name), device);
    DRIVER(cuDeviceGetUuid)(&p->uuid, device);
    p->totalGlobalMem      = memory;
    p->major               = attribute(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    p->minor               = attribute(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    p->warpSize            = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
    p->multiProcessorCount = attribute(
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    p->maxThreadsPerBlock  = attribute(
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    p->pciBusID            = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
    p->pciDeviceID         = attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
                                       device);
    p->pciDomainID         = attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                                       device);
    p->unifiedAddressing   = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                                       device);
    p->managedMemory       = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
                                       device);
    p->canMapHostMemory    = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
                                       device);
    p->asyncEngineCount    = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
                                       device);
    return CUDA_SUCCESS;
}

/* The contexts behind the devices that give each other access */
CUresult change_peer(int peer, bool enable)
{
    CUcontext handle;
    CUresult status = DRIVER(cuDevicePrimaryCtxRetain)(&handle, peer);

    if (status != CUDA_SUCCESS) {
        return status;
    }

    status = enable ? DRIVER(cuCtxEnablePeerAccess)(handle, 0) :
                      DRIVER(cuCtxDisablePeerAccess)(handle);
    DRIVER(cuDevicePrimaryCtxRelease)(peer);
    return status;
}

} // namespace

cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion)
{
    return call_always(fn_cudaDriverGetVersion, [&] {
        return from_driver(DRIVER(cuDriverGetVersion)(driverVersion));
    });
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion)
{
    return call_always(fn_cudaRuntimeGetVersion, [&] {
        if (runtimeVersion == nullptr) {
            return cudaErrorInvalidValue;
        }

        *runtimeVersion = CUDART_VERSION;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    return call_always(fn_cudaGetDeviceCount, [&] {
        CUresult status = DRIVER(cuInit)(0);

        return from_driver((status == CUDA_SUCCESS) ?
                           DRIVER(cuDeviceGetCount)(count) : status);
    });
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    return call_always(fn_cudaSetDevice, [&] { return device_set(device); });
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    return call_always(fn_cudaGetDevice, [&] {
        if (device == nullptr) {
            return cudaErrorInvalidValue;
        }

        *device = device_get();
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags)
{
    return call(fn_cudaSetDeviceFlags, [&] {
        return DRIVER(cuDevicePrimaryCtxSetFlags)(device_get(), flags);
    });
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags)
{
    return call(fn_cudaGetDeviceFlags,
                [&] { return DRIVER(cuCtxGetFlags)(flags); });
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    return call(fn_cudaDeviceSynchronize,
                [] { return DRIVER(cuCtxSynchronize)(); });
}

cudaError_t CUDARTAPI cudaDeviceReset(void)
{
    return call_always(fn_cudaDeviceReset, [] { return device_reset(); });
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr,
                                             int device)
{
    return call(fn_cudaDeviceGetAttribute, [&] {
        return DRIVER(cuDeviceGetAttribute)(
                value, static_cast<CUdevice_attribute>(attr), device);
    });
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp *prop, int device)
{
    return call(fn_cudaGetDeviceProperties, [&] {
        return (prop == nullptr) ? CUDA_ERROR_INVALID_VALUE :
                                   fill_properties(prop, device);
    });
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    return call(fn_cudaDeviceGetPCIBusId, [&] {
        return DRIVER(cuDeviceGetPCIBusId)(pciBusId, len, device);
    });
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    return call(fn_cudaDeviceGetByPCIBusId, [&] {
        return DRIVER(cuDeviceGetByPCIBusId)(device, pciBusId);
    });
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int device,
                                              int peerDevice)
{
    return call(fn_cudaDeviceCanAccessPeer, [&] {
        return DRIVER(cuDeviceCanAccessPeer)(canAccessPeer, device, peerDevice);
    });
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned)
{
    return call(fn_cudaDeviceEnablePeerAccess,
                [&] { return change_peer(peerDevice, true); });
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice)
{
    return call(fn_cudaDeviceDisablePeerAccess,
                [&] { return change_peer(peerDevice, false); });
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority,
                                                       int *greatestPriority)
{
    return call(fn_cudaDeviceGetStreamPriorityRange, [&] {
        return DRIVER(cuCtxGetStreamPriorityRange)(leastPriority,
                                                   greatestPriority);
    });
}

cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool,
                                                  int device)
{
    return call(fn_cudaDeviceGetDefaultMemPool, [&] {
        return DRIVER(cuDeviceGetDefaultMemPool)(memPool, device);
    });
}
