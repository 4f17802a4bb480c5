/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "state.h"

#include <cstring>

using namespace cudart;

namespace {

CUdeviceptr address(const void *pointer)
{
    return reinterpret_cast<CUdeviceptr>(pointer);
}

CUdeviceptr *address(void **pointer_p)
{
    return reinterpret_cast<CUdeviceptr*>(pointer_p);
}

/* The runtime takes no memory for no bytes, where the driver refuses */
template<typename function>
CUresult allocate(void **pointer_p, size_t size, function body)
{
    if (pointer_p == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }

    if (size == 0) {
        *pointer_p = nullptr;
        return CUDA_SUCCESS;
    }
    return body();
}

bool kind_is_valid(cudaMemcpyKind kind)
{
    return (kind >= cudaMemcpyHostToHost) && (kind <= cudaMemcpyDefault);
}

/* With the functions that a real runtime chooses by the kind */
CUresult copy(void *dst, const void *src, size_t count, cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(cuMemcpyHtoD)(address(dst), src, count);
    case cudaMemcpyDeviceToHost:
        return DRIVER(cuMemcpyDtoH)(dst, address(src), count);
    case cudaMemcpyDeviceToDevice:
        return DRIVER(cuMemcpyDtoD)(address(dst), address(src), count);
    default:
        return DRIVER(cuMemcpy)(address(dst), address(src), count);
    }
}

CUresult copy_async(void *dst, const void *src, size_t count,
                    cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(cuMemcpyHtoDAsync)(address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
        return DRIVER(cuMemcpyDtoHAsync)(dst, address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
        return DRIVER(cuMemcpyDtoDAsync)(address(dst), address(src), count,
                                         stream);
    default:
        return DRIVER(cuMemcpyAsync)(address(dst), address(src), count, stream);
    }
}

cudaMemoryType memory_type(unsigned type, bool managed)
{
    if (managed) {
        return cudaMemoryTypeManaged;
    }

    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
        return cudaMemoryTypeDevice;
    default:
        return cudaMemoryTypeUnregistered;
    }
}

CUresult attributes_of(cudaPointerAttributes *attributes, const void *pointer)
{
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER
    };
    unsigned type       = 0;
    unsigned managed    = 0;
    int device          = 0;
    void *at_device     = nullptr;
    void *at_host       = nullptr;
    void *data[]        = {&type, &managed, &device, &at_device, &at_host};
    CUresult status;

    if (attributes == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }

    status = DRIVER(cuPointerGetAttributes)(sizeof(what) / sizeof(*what), what,
                                            data, address(pointer));
    if (status != CUDA_SUCCESS) {
        return status;
    }

    memset(attributes, 0, sizeof(*attributes));
    attributes->type          = memory_type(type, managed);
    attributes->device        = device;
    attributes->devicePointer = at_device;
    attributes->hostPointer   = (attributes->type ==
                                 cudaMemoryTypeUnregistered) ?
                                const_cast<void*>(pointer) : at_host;
    return CUDA_SUCCESS;
}

} // namespace

cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size)
{
    return call(fn_cudaMalloc, [&] {
        return allocate(devPtr, size, [&] {
            return DRIVER(cuMemAlloc)(address(devPtr), size);
        });
    });
}

cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch,
                                      size_t width, size_t height)
{
    return call(fn_cudaMallocPitch, [&] {
        return allocate(devPtr, (height == 0) ? 0 : width, [&] {
            return DRIVER(cuMemAllocPitch)(address(devPtr), pitch, width,
                                           height, 4);
        });
    });
}

cudaError_t CUDARTAPI cudaMallocManaged(void **devPtr, size_t size,
                                        unsigned int flags)
{
    return call(fn_cudaMallocManaged, [&] {
        return DRIVER(cuMemAllocManaged)(address(devPtr), size, flags);
    });
}

cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size)
{
    return call(fn_cudaMallocHost, [&] {
        return allocate(ptr, size,
                        [&] { return DRIVER(cuMemAllocHost)(ptr, size); });
    });
}

cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size,
                                    unsigned int flags)
{
    return call(fn_cudaHostAlloc, [&] {
        return allocate(pHost, size, [&] {
            return DRIVER(cuMemHostAlloc)(pHost, size, flags);
        });
    });
}

cudaError_t CUDARTAPI cudaMallocAsync(void **devPtr, size_t size,
                                      cudaStream_t hStream)
{
    return call(fn_cudaMallocAsync, [&] {
        return allocate(devPtr, size, [&] {
            return DRIVER(cuMemAllocAsync)(address(devPtr), size, hStream);
        });
    });
}

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **ptr, size_t size,
                                              cudaMemPool_t memPool,
                                              cudaStream_t stream)
{
    return call(fn_cudaMallocFromPoolAsync, [&] {
        return allocate(ptr, size, [&] {
            return DRIVER(cuMemAllocFromPoolAsync)(address(ptr), size, memPool,
                                                   stream);
        });
    });
}

cudaError_t CUDARTAPI cudaFree(void *devPtr)
{
    return call(fn_cudaFree,
                [&] { return DRIVER(cuMemFree)(address(devPtr)); });
}

cudaError_t CUDARTAPI cudaFreeHost(void *ptr)
{
    return call(fn_cudaFreeHost, [&] { return DRIVER(cuMemFreeHost)(ptr); });
}

cudaError_t CUDARTAPI cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    return call(fn_cudaFreeAsync, [&] {
        return DRIVER(cuMemFreeAsync)(address(devPtr), hStream);
    });
}

/* Both describe a pool by the same structure under two names */
cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *memPool,
                                        const cudaMemPoolProps *poolProps)
{
    static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps),
                  "properties of a pool");

    return call(fn_cudaMemPoolCreate, [&] {
        return DRIVER(cuMemPoolCreate)(
                memPool, reinterpret_cast<const CUmemPoolProps*>(poolProps));
    });
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    return call(fn_cudaMemPoolDestroy,
                [&] { return DRIVER(cuMemPoolDestroy)(memPool); });
}

cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size,
                                       unsigned int flags)
{
    return call(fn_cudaHostRegister,
                [&] { return DRIVER(cuMemHostRegister)(ptr, size, flags); });
}

cudaError_t CUDARTAPI cudaHostUnregister(void *ptr)
{
    return call(fn_cudaHostUnregister,
                [&] { return DRIVER(cuMemHostUnregister)(ptr); });
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **pDevice, void *pHost,
                                               unsigned int flags)
{
    return call(fn_cudaHostGetDevicePointer, [&] {
        return DRIVER(cuMemHostGetDevicePointer)(address(pDevice), pHost,
                                                 flags);
    });
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    return call(fn_cudaHostGetFlags,
                [&] { return DRIVER(cuMemHostGetFlags)(pFlags, pHost); });
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free, size_t *total)
{
    return call(fn_cudaMemGetInfo,
                [&] { return DRIVER(cuMemGetInfo)(free, total); });
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(
        cudaPointerAttributes *attributes, const void *ptr)
{
    return call(fn_cudaPointerGetAttributes,
                [&] { return attributes_of(attributes, ptr); });
}

cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count,
                                 cudaMemcpyKind kind)
{
    if (!kind_is_valid(kind)) {
        return call_always(fn_cudaMemcpy,
                           [] { return cudaErrorInvalidMemcpyDirection; });
    }
    return call(fn_cudaMemcpy, [&] { return copy(dst, src, count, kind); });
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count,
                                      cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!kind_is_valid(kind)) {
        return call_always(fn_cudaMemcpyAsync,
                           [] { return cudaErrorInvalidMemcpyDirection; });
    }
    return call(fn_cudaMemcpyAsync,
                [&] { return copy_async(dst, src, count, kind, stream); });
}

cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count)
{
    return call(fn_cudaMemset, [&] {
        return DRIVER(cuMemsetD8)(address(devPtr), value, count);
    });
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *devPtr, int value, size_t count,
                                      cudaStream_t stream)
{
    return call(fn_cudaMemsetAsync, [&] {
        return DRIVER(cuMemsetD8Async)(address(devPtr), value, count, stream);
    });
}

/* Likewise a handle */
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle),
              "an IPC handle");

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle,
                                          void *devPtr)
{
    return call(fn_cudaIpcGetMemHandle, [&] {
        return DRIVER(cuIpcGetMemHandle)(
                reinterpret_cast<CUipcMemHandle*>(handle), address(devPtr));
    });
}

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr,
                                           cudaIpcMemHandle_t handle,
                                           unsigned int flags)
{
    return call(fn_cudaIpcOpenMemHandle, [&] {
        CUipcMemHandle bytes;

        memcpy(&bytes, &handle, sizeof(bytes));
        return DRIVER(cuIpcOpenMemHandle)(address(devPtr), bytes, flags);
    });
}

cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *devPtr)
{
    return call(fn_cudaIpcCloseMemHandle,
                [&] { return DRIVER(cuIpcCloseMemHandle)(address(devPtr)); });
}

/* There are no kernels, hence no variables of them */
cudaError_t CUDARTAPI cudaGetSymbolAddress(void **, const void *)
{
    return call_always(fn_cudaGetSymbolAddress,
                       [] { return cudaErrorInvalidSymbol; });
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *, const void *)
{
    return call_always(fn_cudaGetSymbolSize,
                       [] { return cudaErrorInvalidSymbol; });
}
