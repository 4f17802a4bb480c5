/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "interop_device.h"
#include "demo_channel.h"

#include <cuda_runtime_api.h>

namespace interop {

const ucs_memory_type_t device_memory_type = UCS_MEMORY_TYPE_CUDA;
const char *const device_module            = "libuct_cuda.so";
const char *const device_copy_calls[]      = {"cuMemcpyDtoDAsync",
                                              "cuMemcpyAsync", nullptr};

static void check(cudaError_t status, const std::string &call)
{
    if (status != cudaSuccess) {
        throw demo::error(call + " failed: " + cudaGetErrorName(status));
    }
}

void open_device()
{
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaFree(nullptr), "cudaFree"); /* Old runtimes begin here */
}

void *allocate(size_t size)
{
    void *address;

    check(cudaMalloc(&address, size), "cudaMalloc");
    return address;
}

void free_memory(void *address)
{
    check(cudaFree(address), "cudaFree");
}

void write_memory(void *address, const void *bytes, size_t size)
{
    check(cudaMemcpy(address, bytes, size, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void read_memory(void *bytes, const void *address, size_t size)
{
    check(cudaMemcpy(bytes, address, size, cudaMemcpyDeviceToHost),
          "cudaMemcpy");
}

} // namespace interop
