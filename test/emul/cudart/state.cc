/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "state.h"

#include <cuda/companion.h>
#include <core/message.h>

#include <atomic>
#include <mutex>

#include <dlfcn.h>

namespace cudart {

namespace {

constexpr int max_devices = 64;

const char *const names[function_count] = {
#define EMUL_CUDART_NAME(_name) #_name,
    EMUL_CUDART_FUNCTIONS(EMUL_CUDART_NAME)
#undef EMUL_CUDART_NAME
};

unsigned points[function_count];

thread_local cudaError_t last_error = cudaSuccess;
thread_local int thread_device      = 0;

/* The primary contexts that the runtime uses; it never releases them */
struct {
    std::mutex mutex;
    CUcontext  handle[max_devices];
    bool       retained[max_devices];
} primary;

bool attach()
{
    static const auto function = reinterpret_cast<
            decltype(&emul_companion_attach)>(
                    driver_symbol("emul_companion_attach"));
    static const bool attached = function(names, function_count, points);

    return attached;
}

CUresult retain(int device, CUcontext *handle_p)
{
    std::lock_guard<std::mutex> guard(primary.mutex);
    CUresult status = CUDA_SUCCESS;

    if (!primary.retained[device]) {
        status = DRIVER(cuDevicePrimaryCtxRetain)(&primary.handle[device],
                                                  device);
        primary.retained[device] = (status == CUDA_SUCCESS);
    }
    *handle_p = primary.handle[device];
    return status;
}

/* Whether a context is the runtime's own of a device that was reset meanwhile */
bool was_reset(CUcontext handle)
{
    std::lock_guard<std::mutex> guard(primary.mutex);

    for (int device = 0; device < max_devices; ++device) {
        if (primary.handle[device] == handle) {
            return !primary.retained[device];
        }
    }
    return false;
}

CUresult make_current(int device)
{
    CUcontext handle;
    CUresult status = retain(device, &handle);

    return (status == CUDA_SUCCESS) ? DRIVER(cuCtxSetCurrent)(handle) : status;
}

CUresult initialize()
{
    static std::atomic<bool> done{false};
    CUresult status = CUDA_SUCCESS;

    if (!done.load()) {
        status = DRIVER(cuInit)(0);
        done.store(status == CUDA_SUCCESS);
    }
    return status;
}

} // namespace

void *driver_symbol(const char *name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *symbol;

    if (library == nullptr) {
        emul::fatal("the emulated libcudart does not find libcuda.so.1");
    }

    symbol = dlsym(library, name);
    if (symbol == nullptr) {
        emul::fatal("libcuda.so.1 is not the emulated one: it has no %s", name);
    }
    return symbol;
}

bool call_begin(function f, cudaError_t *status_p)
{
    static const auto enter = reinterpret_cast<decltype(&emul_companion_enter)>(
            driver_symbol("emul_companion_enter"));
    int status;

    if (attach() && enter(names[f], points[f], &status)) {
        *status_p = static_cast<cudaError_t>(status);
        return true;
    }
    return false;
}

cudaError_t call_end(function f, cudaError_t status)
{
    static const auto leave = reinterpret_cast<decltype(&emul_companion_leave)>(
            driver_symbol("emul_companion_leave"));

    leave(names[f], status);
    if (status != cudaSuccess) {
        last_error = status;
    }
    return status;
}

cudaError_t last_error_get()
{
    return last_error;
}

void last_error_clear()
{
    last_error = cudaSuccess;
}

cudaError_t context_ensure()
{
    CUcontext current = nullptr;
    CUresult status   = initialize();

    if (status == CUDA_SUCCESS) {
        status = DRIVER(cuCtxGetCurrent)(&current);
    }
    if ((status == CUDA_SUCCESS) &&
        ((current == nullptr) || was_reset(current))) {
        status = make_current(thread_device);
    }
    return from_driver(status);
}

int device_get()
{
    CUdevice device;

    return ((initialize() == CUDA_SUCCESS) &&
            (DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS)) ?
           device : thread_device;
}

cudaError_t device_set(int device)
{
    CUresult status = initialize();
    int count       = 0;

    if (status == CUDA_SUCCESS) {
        status = DRIVER(cuDeviceGetCount)(&count);
    }
    if (status != CUDA_SUCCESS) {
        return from_driver(status);
    }

    if ((device < 0) || (device >= count)) {
        return cudaErrorInvalidDevice;
    }

    thread_device = device;
    return from_driver(make_current(device));
}

cudaError_t device_reset()
{
    int device = device_get();

    {
        std::lock_guard<std::mutex> guard(primary.mutex);

        primary.retained[device] = false;
    }
    return from_driver(DRIVER(cuDevicePrimaryCtxReset)(device));
}

} // namespace cudart

using namespace cudart;

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t error = last_error_get();

    last_error_clear();
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return last_error_get();
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
    const char *text;

    return (DRIVER(cuGetErrorName)(static_cast<CUresult>(error), &text) ==
            CUDA_SUCCESS) ? text : "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
    const char *text;

    return (DRIVER(cuGetErrorString)(static_cast<CUresult>(error), &text) ==
            CUDA_SUCCESS) ? text : "unrecognized error code";
}
