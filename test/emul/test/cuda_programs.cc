/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include <sys/wait.h>

/*
 * What must be seen in a process of its own, because it is about the beginning
 * or the end of one. Each returns its exit status: 0 if all is as it must be.
 */

namespace {

int without_init()
{
    CUdevice device;
    CUcontext context;

    return (cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED) &&
           (cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED) ? 0 : 1;
}

void call_at_exit()
{
    int count;

    /* after exit handlers it is the end of the library itself that counts */
    if (cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        _exit(1);
    }
}

int exit_handler()
{
    cuInit(0);
    atexit(call_at_exit);
    return 0;
}

/* Leaves one of everything behind */
int leaks()
{
    CUcontext context;
    CUdeviceptr pointer;
    CUstream stream;
    CUevent event;
    void *host;
    CUresult status = cuInit(0);

    status = (status != CUDA_SUCCESS) ? status :
             cuDevicePrimaryCtxRetain(&context, 0);
#if CUDA_VERSION >= 13000
    status = (status != CUDA_SUCCESS) ? status :
             cuCtxCreate(&context, nullptr, 0, 0);
#else
    status = (status != CUDA_SUCCESS) ? status : cuCtxCreate(&context, 0, 0);
#endif
    status = (status != CUDA_SUCCESS) ? status : cuMemAlloc(&pointer, 4096);
    status = (status != CUDA_SUCCESS) ? status :
             cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL);
    status = (status != CUDA_SUCCESS) ? status : cuMemAllocHost(&host, 4096);
    status = (status != CUDA_SUCCESS) ? status : cuStreamCreate(&stream, 0);
    status = (status != CUDA_SUCCESS) ? status :
             cuMemAllocAsync(&pointer, 4096, stream);
    status = (status != CUDA_SUCCESS) ? status : cuEventCreate(&event, 0);
    return status;
}

int leaks_nothing()
{
    CUcontext context;
    CUresult status = cuInit(0);

    return (status != CUDA_SUCCESS) ? status :
                                      cuDevicePrimaryCtxRetain(&context, 0);
}

/* Nothing of the driver survives a fork */
int forks()
{
    int count, status;
    pid_t child_pid;

    if (cuInit(0) != CUDA_SUCCESS) {
        return 1;
    }

    child_pid = fork();
    if (child_pid == 0) {
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    waitpid(child_pid, &status, 0);
    return (status == 0) ? 0 : 1;
}

int calls_what_is_not_emulated()
{
    cuProfilerStop();
    return 0;
}

/* The runtime needs no cuInit, and makes a context when it needs one */
int runtime_is_lazy()
{
    CUcontext context = nullptr;
    void *pointer     = nullptr;
    int device        = -1;
    int count         = 0;

    if ((cudaGetDeviceCount(&count) != cudaSuccess) || (count < 1) ||
        (cudaGetDevice(&device) != cudaSuccess) || (device != 0)) {
        return 1;
    }
    if ((cuCtxGetCurrent(&context) != CUDA_SUCCESS) || (context != nullptr)) {
        return 2;
    }
    if ((cudaMalloc(&pointer, 4096) != cudaSuccess) ||
        (cuCtxGetCurrent(&context) != CUDA_SUCCESS) || (context == nullptr)) {
        return 3;
    }
    return (cudaFree(pointer) == cudaSuccess) ? 0 : 4;
}

} // namespace

int cuda_program_main(const std::string &name)
{
    static const struct {
        const char *name;
        int        (*run)();
    } programs[] = {
        {"without-init", without_init},
        {"exit-handler", exit_handler},
        {"leaks", leaks},
        {"leaks-nothing", leaks_nothing},
        {"forks", forks},
        {"not-emulated", calls_what_is_not_emulated},
        {"runtime-is-lazy", runtime_is_lazy}
    };

    for (auto &program : programs) {
        if (name == program.name) {
            return program.run();
        }
    }
    return -1;
}
