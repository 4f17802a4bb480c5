/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "context.h"

#include "hooked.h"

/*
 * What the emulated devices say that they do not support: the management of
 * virtual memory and its sharing, and dma-buf. Programs that ask get the answers
 * of such a device.
 */

using namespace emul;

namespace {

CUresult not_supported(function f)
{
    return call(f, [] { return CUDA_ERROR_NOT_SUPPORTED; });
}

} // namespace

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr,
                                     unsigned long long)
{
    return not_supported(fn_cuMemAddressReserve);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr, size_t)
{
    return not_supported(fn_cuMemAddressFree);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *, size_t,
                             const CUmemAllocationProp *, unsigned long long)
{
    return not_supported(fn_cuMemCreate);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle)
{
    return not_supported(fn_cuMemRelease);
}

EMUL_HOOKED(cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
            unsigned long long)
{
    return not_supported(fn_cuMemMap);
}

EMUL_HOOKED(cuMemUnmap, CUdeviceptr, size_t)
{
    return not_supported(fn_cuMemUnmap);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *,
                                size_t)
{
    return not_supported(fn_cuMemSetAccess);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(
        size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)
{
    return not_supported(fn_cuMemGetAllocationGranularity);
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *, CUmemGenericAllocationHandle)
{
    return not_supported(fn_cuMemGetAllocationPropertiesFromHandle);
}

/* Asked about memory of any kind, to find out whether it is of this one */
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *,
                                             void *)
{
    return call(fn_cuMemRetainAllocationHandle,
                [] { return CUDA_ERROR_INVALID_VALUE; });
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *,
                                              CUmemGenericAllocationHandle,
                                              CUmemAllocationHandleType,
                                              unsigned long long)
{
    return not_supported(fn_cuMemExportToShareableHandle);
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *,
                                                void *,
                                                CUmemAllocationHandleType)
{
    return not_supported(fn_cuMemImportFromShareableHandle);
}

CUresult CUDAAPI cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t,
                                               CUmemRangeHandleType,
                                               unsigned long long)
{
    return not_supported(fn_cuMemGetHandleForAddressRange);
}

/* Nothing can be loaded, so that no handle is one of a module or library */
EMUL_HOOKED(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule,
            const char *)
{
    return call(fn_cuModuleGetGlobal,
                [] { return CUDA_ERROR_INVALID_HANDLE; });
}

EMUL_HOOKED(cuLibraryGetGlobal, CUdeviceptr *, size_t *, CUlibrary,
            const char *)
{
    return call(fn_cuLibraryGetGlobal,
                [] { return CUDA_ERROR_INVALID_HANDLE; });
}
