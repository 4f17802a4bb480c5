/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_FUNCTIONS_H_
#define EMUL_CUDA_FUNCTIONS_H_

/*
 * The functions of the driver that are emulated, by name and without the suffix
 * of a version, for the hook that each call passes (api.h). One that is missing
 * here does not compile.
 */
#define EMUL_CUDA_FUNCTIONS(_f) \
    _f(cuInit) \
    _f(cuDriverGetVersion) \
    _f(cuGetErrorName) \
    _f(cuGetErrorString) \
    _f(cuGetProcAddress) \
    _f(cuDeviceGet) \
    _f(cuDeviceGetCount) \
    _f(cuDeviceGetName) \
    _f(cuDeviceGetUuid) \
    _f(cuDeviceTotalMem) \
    _f(cuDeviceGetAttribute) \
    _f(cuDeviceComputeCapability) \
    _f(cuDeviceGetPCIBusId) \
    _f(cuDeviceGetByPCIBusId) \
    _f(cuDeviceCanAccessPeer) \
    _f(cuDeviceGetP2PAttribute) \
    _f(cuDeviceGetDefaultMemPool) \
    _f(cuDeviceGetMemPool) \
    _f(cuDevicePrimaryCtxRetain) \
    _f(cuDevicePrimaryCtxRelease) \
    _f(cuDevicePrimaryCtxReset) \
    _f(cuDevicePrimaryCtxSetFlags) \
    _f(cuDevicePrimaryCtxGetState) \
    _f(cuCtxCreate) \
    _f(cuCtxDestroy) \
    _f(cuCtxDetach) \
    _f(cuCtxPushCurrent) \
    _f(cuCtxPopCurrent) \
    _f(cuCtxSetCurrent) \
    _f(cuCtxGetCurrent) \
    _f(cuCtxGetDevice) \
    _f(cuCtxGetFlags) \
    _f(cuCtxSetFlags) \
    _f(cuCtxGetId) \
    _f(cuCtxGetApiVersion) \
    _f(cuCtxSynchronize) \
    _f(cuCtxGetStreamPriorityRange) \
    _f(cuCtxEnablePeerAccess) \
    _f(cuCtxDisablePeerAccess) \
    _f(cuStreamCreate) \
    _f(cuStreamCreateWithPriority) \
    _f(cuStreamDestroy) \
    _f(cuStreamSynchronize) \
    _f(cuStreamQuery) \
    _f(cuStreamWaitEvent) \
    _f(cuStreamAddCallback) \
    _f(cuStreamGetFlags) \
    _f(cuStreamGetPriority) \
    _f(cuStreamGetId) \
    _f(cuStreamGetCtx) \
    _f(cuStreamGetDevice) \
    _f(cuStreamIsCapturing) \
    _f(cuLaunchHostFunc) \
    _f(cuEventCreate) \
    _f(cuEventRecord) \
    _f(cuEventRecordWithFlags) \
    _f(cuEventQuery) \
    _f(cuEventSynchronize) \
    _f(cuEventDestroy) \
    _f(cuEventElapsedTime) \
    _f(cuMemGetInfo) \
    _f(cuMemAlloc) \
    _f(cuMemAllocPitch) \
    _f(cuMemAllocManaged) \
    _f(cuMemAllocHost) \
    _f(cuMemHostAlloc) \
    _f(cuMemFree) \
    _f(cuMemFreeHost) \
    _f(cuMemHostRegister) \
    _f(cuMemHostUnregister) \
    _f(cuMemHostGetDevicePointer) \
    _f(cuMemHostGetFlags) \
    _f(cuMemGetAddressRange) \
    _f(cuMemAllocAsync) \
    _f(cuMemAllocFromPoolAsync) \
    _f(cuMemFreeAsync) \
    _f(cuMemPoolCreate) \
    _f(cuMemPoolDestroy) \
    _f(cuMemPoolSetAccess) \
    _f(cuMemPoolSetAttribute) \
    _f(cuMemPoolTrimTo) \
    _f(cuMemPoolExportToShareableHandle) \
    _f(cuMemPoolImportFromShareableHandle) \
    _f(cuMemPoolExportPointer) \
    _f(cuMemPoolImportPointer) \
    _f(cuMemAddressReserve) \
    _f(cuMemAddressFree) \
    _f(cuMemCreate) \
    _f(cuMemRelease) \
    _f(cuMemMap) \
    _f(cuMemUnmap) \
    _f(cuMemSetAccess) \
    _f(cuMemGetAllocationGranularity) \
    _f(cuMemGetAllocationPropertiesFromHandle) \
    _f(cuMemRetainAllocationHandle) \
    _f(cuMemExportToShareableHandle) \
    _f(cuMemImportFromShareableHandle) \
    _f(cuMemGetHandleForAddressRange) \
    _f(cuMemRangeGetAttribute) \
    _f(cuPointerGetAttribute) \
    _f(cuPointerGetAttributes) \
    _f(cuPointerSetAttribute) \
    _f(cuMemcpy) \
    _f(cuMemcpyAsync) \
    _f(cuMemcpyPeer) \
    _f(cuMemcpyPeerAsync) \
    _f(cuMemcpyHtoD) \
    _f(cuMemcpyDtoH) \
    _f(cuMemcpyDtoD) \
    _f(cuMemcpyHtoDAsync) \
    _f(cuMemcpyDtoHAsync) \
    _f(cuMemcpyDtoDAsync) \
    _f(cuMemsetD8) \
    _f(cuMemsetD16) \
    _f(cuMemsetD32) \
    _f(cuMemsetD8Async) \
    _f(cuMemsetD16Async) \
    _f(cuMemsetD32Async) \
    _f(cuIpcGetMemHandle) \
    _f(cuIpcOpenMemHandle) \
    _f(cuIpcCloseMemHandle) \
    _f(cuModuleGetGlobal) \
    _f(cuLibraryGetGlobal)

/* Points of gates and rules that are not functions. */
#define EMUL_CUDA_PLACES(_f) \
    _f(copy) \
    _f(callback)

#endif
