/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_device.h"

#include <vector>

namespace cuda_test {

void must(CUresult result, const std::string &call)
{
    const char *reason = NULL;

    if (result == CUDA_SUCCESS) {
        return;
    }

    if (cuGetErrorString(result, &reason) != CUDA_SUCCESS) {
        reason = "unknown error";
    }

    throw failure(call + ": " + reason);
}

int num_devices()
{
    int count;

    if ((cuInit(0) != CUDA_SUCCESS) ||
        (cuDeviceGetCount(&count) != CUDA_SUCCESS)) {
        return 0;
    }

    return count;
}

static CUresult create_context(CUcontext *handle_p, CUdevice device)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(handle_p, NULL, 0, device);
#else
    return cuCtxCreate(handle_p, 0, device);
#endif
}

context::context(int device, bool is_primary) :
    m_is_primary(is_primary), m_handle(NULL)
{
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&m_device, device), "cuDeviceGet");
    if (is_primary) {
        must(cuDevicePrimaryCtxRetain(&m_handle, m_device),
             "cuDevicePrimaryCtxRetain");
        make_current();
    } else {
        must(create_context(&m_handle, m_device), "cuCtxCreate");
    }
}

context::~context()
{
    if (m_is_primary && (m_handle != NULL)) {
        cuCtxSetCurrent(NULL);
        cuDevicePrimaryCtxRelease(m_device);
    } else {
        destroy();
    }
}

void context::make_current() const
{
    must(cuCtxSetCurrent(m_handle), "cuCtxSetCurrent");
}

void context::destroy()
{
    if (m_handle == NULL) {
        return;
    }

    /* Either fails where an error sticks to it */
    if (m_is_primary) {
        cuDevicePrimaryCtxReset(m_device);
        cuDevicePrimaryCtxRelease(m_device);
    } else {
        cuCtxDestroy(m_handle);
    }
    m_handle = NULL;
}

/** Of a context that is destroyed, this can be asked, and nothing else. */
static bool is_alive(CUcontext handle)
{
    unsigned version;

    return cuCtxGetApiVersion(handle, &version) == CUDA_SUCCESS;
}

scoped_context::scoped_context(CUcontext handle)
{
    must(cuCtxGetCurrent(&m_former), "cuCtxGetCurrent");
    must(cuCtxSetCurrent(handle), "cuCtxSetCurrent");
}

scoped_context::~scoped_context()
{
    cuCtxSetCurrent(m_former);
}

memory::memory(memory_type_t type, unsigned num_slots, size_t slot_length) :
    m_type(type), m_num_slots(num_slots), m_slot_length(slot_length)
{
    CUdeviceptr address;

    must(cuCtxGetCurrent(&m_context), "cuCtxGetCurrent");
    switch (type) {
    case MEMORY_HOST:
        must(cuMemAllocHost(&m_address, length()), "cuMemAllocHost");
        return;
    case MEMORY_MANAGED:
        must(cuMemAllocManaged(&address, length(), CU_MEM_ATTACH_GLOBAL),
             "cuMemAllocManaged");
        break;
    default:
        must(cuMemAlloc(&address, length()), "cuMemAlloc");
    }

    m_address = (void*)address;
}

memory::~memory()
{
    CUcontext former;

    /* A context that is destroyed, or broken, has taken its memory along */
    if (!is_alive(m_context) || (cuCtxGetCurrent(&former) != CUDA_SUCCESS) ||
        (cuCtxSetCurrent(m_context) != CUDA_SUCCESS)) {
        return;
    }

    if (m_type == MEMORY_HOST) {
        cuMemFreeHost(m_address);
    } else {
        cuMemFree((CUdeviceptr)m_address);
    }

    cuCtxSetCurrent(former);
}

void *memory::slot(unsigned index) const
{
    return (char*)m_address + (index * m_slot_length);
}

/* The patterns are written and read by the runtime, whatever the memory is: a
 * processor that touches managed memory while a GPU works with it may wait. */
void memory::fill(unsigned index, uint64_t seed)
{
    std::vector<uint64_t> words(m_slot_length / sizeof(uint64_t));
    scoped_context current(m_context);

    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = pattern_word(seed, i);
    }

    if (m_type == MEMORY_HOST) {
        std::copy(words.begin(), words.end(), (uint64_t*)slot(index));
    } else {
        must(cuMemcpyHtoD((CUdeviceptr)slot(index), &words[0], m_slot_length),
             "cuMemcpyHtoD");
    }
}

bool memory::holds(unsigned index, uint64_t seed) const
{
    std::vector<uint64_t> words(m_slot_length / sizeof(uint64_t));
    scoped_context current(m_context);

    if (m_type == MEMORY_HOST) {
        std::copy((uint64_t*)slot(index),
                  (uint64_t*)slot(index) + words.size(), words.begin());
    } else {
        must(cuMemcpyDtoH(&words[0], (CUdeviceptr)slot(index), m_slot_length),
             "cuMemcpyDtoH");
    }

    for (size_t i = 0; i < words.size(); ++i) {
        if (words[i] != pattern_word(seed, i)) {
            return false;
        }
    }

    return true;
}

} /* namespace cuda_test */
