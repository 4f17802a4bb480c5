/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "demo_gpu.h"
#include "demo_channel.h"

#include "../emul/emul.h"

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <vector>

namespace demo {

namespace {

/* Bytes that are on their way between host and GPU at a time */
constexpr size_t CHUNK = 8 * 1024 * 1024;

void check(hipError_t status, const std::string &call)
{
    if (status != hipSuccess) {
        throw error(call + " failed: " + hipGetErrorString(status) + " (" +
                    hipGetErrorName(status) + ")");
    }
}

/* The pattern's bytes from @a offset, a multiple of eight, on. The factor is
 * odd, so that different words never get the same value. */
std::vector<uint64_t> pattern(uint64_t seed, size_t offset, size_t size)
{
    std::vector<uint64_t> words((size + sizeof(uint64_t) - 1) /
                                sizeof(uint64_t));
    uint64_t index = offset / sizeof(uint64_t);

    for (uint64_t &word : words) {
        word = seed ^ (index++ * UINT64_C(0x9e3779b97f4a7c15));
    }

    return words;
}

} // namespace

void open_gpu()
{
    int count               = 0;
    const hipError_t status = hipGetDeviceCount(&count);

    if ((status != hipSuccess) || (count == 0)) {
        throw error(std::string("no AMD GPU was found (HIP says: ") +
                    hipGetErrorString(status) +
                    "). On a machine without one, put the emulated runtime in "
                    "front by LD_LIBRARY_PATH, as contrib/demo.sh does");
    }

    check(hipSetDevice(0), "hipSetDevice");
}

std::string gpu_name()
{
    char name[256] = "";

    check(hipDeviceGetName(name, sizeof(name), 0), "hipDeviceGetName");
    return name;
}

bool gpu_is_emulated()
{
    return emul_get() != nullptr;
}

size_t free_device_memory()
{
    size_t free_size, total_size;

    check(hipMemGetInfo(&free_size, &total_size), "hipMemGetInfo");
    return free_size;
}

gpu_buffer::gpu_buffer(size_t size) : m_size(size)
{
    check(hipMalloc(&m_address, size),
          "hipMalloc of " + std::to_string(size) + " bytes");
}

gpu_buffer::~gpu_buffer()
{
    /* Nobody to tell of an error, and the process is about to end */
    static_cast<void>(hipFree(m_address));
}

void *gpu_buffer::release()
{
    return std::exchange(m_address, nullptr);
}

void gpu_buffer::fill(uint64_t seed)
{
    for (size_t offset = 0; offset < m_size; offset += CHUNK) {
        const size_t length = std::min(CHUNK, m_size - offset);
        const auto words    = pattern(seed, offset, length);

        check(hipMemcpy(static_cast<char*>(m_address) + offset, words.data(),
                        length, hipMemcpyHostToDevice),
              "hipMemcpy to the GPU");
    }

    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

size_t gpu_buffer::count_right(uint64_t seed) const
{
    std::vector<char> bytes(std::min(CHUNK, m_size));

    for (size_t offset = 0; offset < m_size; offset += CHUNK) {
        const size_t length  = std::min(CHUNK, m_size - offset);
        const auto words     = pattern(seed, offset, length);
        const auto *expected = reinterpret_cast<const char*>(words.data());

        check(hipMemcpy(bytes.data(), static_cast<char*>(m_address) + offset,
                        length, hipMemcpyDeviceToHost),
              "hipMemcpy from the GPU");

        const auto differs = std::mismatch(expected, expected + length,
                                           bytes.begin());
        if (differs.first != expected + length) {
            return offset + (differs.first - expected);
        }
    }

    return m_size;
}

} // namespace demo
