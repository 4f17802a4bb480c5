/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDART_FUNCTIONS_H_
#define EMUL_CUDART_FUNCTIONS_H_

/*
 * The functions of the runtime that are emulated, for the hook that each call
 * passes (state.h). One that is missing here does not compile.
 */
#define EMUL_CUDART_FUNCTIONS(_f) \
    _f(cudaDriverGetVersion) \
    _f(cudaRuntimeGetVersion) \
    _f(cudaGetDeviceCount) \
    _f(cudaSetDevice) \
    _f(cudaGetDevice) \
    _f(cudaSetDeviceFlags) \
    _f(cudaGetDeviceFlags) \
    _f(cudaDeviceSynchronize) \
    _f(cudaDeviceReset) \
    _f(cudaDeviceGetAttribute) \
    _f(cudaGetDeviceProperties) \
    _f(cudaDeviceGetPCIBusId) \
    _f(cudaDeviceGetByPCIBusId) \
    _f(cudaDeviceCanAccessPeer) \
    _f(cudaDeviceEnablePeerAccess) \
    _f(cudaDeviceDisablePeerAccess) \
    _f(cudaDeviceGetStreamPriorityRange) \
    _f(cudaDeviceGetDefaultMemPool) \
    _f(cudaMalloc) \
    _f(cudaMallocPitch) \
    _f(cudaMallocManaged) \
    _f(cudaMallocHost) \
    _f(cudaHostAlloc) \
    _f(cudaMallocAsync) \
    _f(cudaMallocFromPoolAsync) \
    _f(cudaFree) \
    _f(cudaFreeHost) \
    _f(cudaFreeAsync) \
    _f(cudaMemPoolCreate) \
    _f(cudaMemPoolDestroy) \
    _f(cudaHostRegister) \
    _f(cudaHostUnregister) \
    _f(cudaHostGetDevicePointer) \
    _f(cudaHostGetFlags) \
    _f(cudaMemGetInfo) \
    _f(cudaPointerGetAttributes) \
    _f(cudaMemcpy) \
    _f(cudaMemcpyAsync) \
    _f(cudaMemset) \
    _f(cudaMemsetAsync) \
    _f(cudaIpcGetMemHandle) \
    _f(cudaIpcOpenMemHandle) \
    _f(cudaIpcCloseMemHandle) \
    _f(cudaGetSymbolAddress) \
    _f(cudaGetSymbolSize) \
    _f(cudaStreamCreate) \
    _f(cudaStreamCreateWithFlags) \
    _f(cudaStreamCreateWithPriority) \
    _f(cudaStreamDestroy) \
    _f(cudaStreamSynchronize) \
    _f(cudaStreamQuery) \
    _f(cudaStreamWaitEvent) \
    _f(cudaStreamAddCallback) \
    _f(cudaStreamGetFlags) \
    _f(cudaStreamGetPriority) \
    _f(cudaLaunchHostFunc) \
    _f(cudaEventCreate) \
    _f(cudaEventCreateWithFlags) \
    _f(cudaEventRecord) \
    _f(cudaEventQuery) \
    _f(cudaEventSynchronize) \
    _f(cudaEventDestroy) \
    _f(cudaEventElapsedTime)

#endif
