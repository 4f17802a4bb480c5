/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <hip_runtime.h>

#include <stdlib.h>
#include <vector>

namespace rocm_ipc {

static ucs_status_t to_status(hipError_t error)
{
    switch (error) {
    case hipSuccess:
        return UCS_OK;
    case hipErrorOutOfMemory:
        return UCS_ERR_NO_MEMORY;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

int peer_memory::num_devices()
{
    int count;

    return (hipGetDeviceCount(&count) == hipSuccess) ? count : 0;
}

static ucs_status_t
alloc_block(size_t length, ucs_memory_type_t type, int device, void **address_p)
{
    hipError_t error;

    if (type == UCS_MEMORY_TYPE_HOST) {
        *address_p = malloc(length);
        return (*address_p == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
    }

    error = hipSetDevice(device);
    if (error != hipSuccess) {
        return to_status(error);
    }

    if (type == UCS_MEMORY_TYPE_ROCM_MANAGED) {
        error = hipMallocManaged(address_p, length, hipMemAttachGlobal);
    } else {
        error = hipMalloc(address_p, length);
    }

    return to_status(error);
}

void peer_memory::alloc(const command &cmd, answer &ans)
{
    block added = {(size_t)cmd.head.number[0],
                   (ucs_memory_type_t)cmd.head.number[1]};
    void *address;

    ans.head.status = alloc_block(added.length, added.type,
                                  (int)cmd.head.number[2], &address);
    if (ans.head.status != UCS_OK) {
        return;
    }

    std::lock_guard<std::mutex> guard(m_lock);
    ans.head.number[0]           = (uintptr_t)address;
    m_blocks[(uintptr_t)address] = added;
}

ucs_status_t peer_memory::free_block(uint64_t address, ucs_memory_type_t type)
{
    if (type == UCS_MEMORY_TYPE_HOST) {
        ::free((void*)address);
        return UCS_OK;
    }

    return to_status(hipFree((void*)address));
}

void peer_memory::free(const command &cmd, answer &ans)
{
    ucs_memory_type_t type;

    {
        std::lock_guard<std::mutex> guard(m_lock);
        std::map<uint64_t, block>::iterator it = m_blocks.find(
                cmd.head.number[0]);

        if (it == m_blocks.end()) {
            throw no_such_object();
        }

        /* Forgotten before it is freed: as soon as it is, another lane may be
         * given the same address */
        type = it->second.type;
        m_blocks.erase(it);
    }

    ans.head.status = free_block(cmd.head.number[0], type);
}

ucs_status_t peer_memory::free_all()
{
    ucs_status_t result = UCS_OK;
    std::map<uint64_t, block> blocks;
    std::map<uint64_t, block>::iterator it;
    ucs_status_t status;

    {
        std::lock_guard<std::mutex> guard(m_lock);
        blocks.swap(m_blocks);
    }

    for (it = blocks.begin(); it != blocks.end(); ++it) {
        status = free_block(it->first, it->second.type);
        if (status != UCS_OK) {
            result = status;
        }
    }

    return result;
}

bool peer_memory::needs_runtime(const command &cmd)
{
    std::map<uint64_t, block>::iterator it;

    if (cmd.head.number[4] == ACCESS_CPU) {
        return false;
    }

    std::lock_guard<std::mutex> guard(m_lock);
    it = m_blocks.upper_bound(cmd.head.number[0]);
    if (it == m_blocks.begin()) {
        throw no_such_object();
    }

    --it;
    return it->second.type == UCS_MEMORY_TYPE_ROCM;
}

void peer_memory::fill(const command &cmd, answer &ans)
{
    uint8_t *address  = (uint8_t*)cmd.head.number[0];
    size_t length     = cmd.head.number[1];
    uint64_t seed     = cmd.head.number[2];
    uint64_t position = cmd.head.number[3];
    std::vector<uint8_t> bytes(length);
    size_t i;

    for (i = 0; i < length; ++i) {
        bytes[i] = pattern_byte(seed, position + i);
    }

    if (needs_runtime(cmd)) {
        ans.head.status = to_status(
                hipMemcpy(address, &bytes[0], length, hipMemcpyHostToDevice));
        return;
    }

    std::copy(bytes.begin(), bytes.end(), address);
}

void peer_memory::check(const command &cmd, answer &ans)
{
    const uint8_t *address = (const uint8_t*)cmd.head.number[0];
    size_t length          = cmd.head.number[1];
    uint64_t seed          = cmd.head.number[2];
    uint64_t position      = cmd.head.number[3];
    std::vector<uint8_t> bytes(length);
    size_t i;

    if (needs_runtime(cmd)) {
        ans.head.status = to_status(
                hipMemcpy(&bytes[0], address, length, hipMemcpyDeviceToHost));
        if (ans.head.status != UCS_OK) {
            return;
        }
    } else {
        std::copy(address, address + length, bytes.begin());
    }

    for (i = 0; i < length; ++i) {
        if (bytes[i] != pattern_byte(seed, position + i)) {
            break;
        }
    }

    ans.head.number[0] = i;
}

} /* namespace rocm_ipc */
