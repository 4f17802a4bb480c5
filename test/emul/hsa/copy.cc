/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "copy.h"

#include "agent.h"
#include "copy_engine.h"
#include "memory_map.h"

#include <core/message.h>

#include <algorithm>
#include <cstring>

namespace emul {

namespace {

/* A mapping cannot go while a piece of this size is copied */
constexpr size_t copy_piece = 1 << 20;

char *reach_or_fault(const void *pointer, size_t size)
{
    char *host = memory_map::instance().reach(pointer, size);

    if (host == nullptr) {
        fatal("memory access fault by GPU on address %p, length %zu: page not "
              "present", pointer, size);
    }
    return host;
}

/* What is not known to the runtime is memory of the host */
char *reach_or_host(const void *pointer, size_t size)
{
    char *host = memory_map::instance().reach(pointer, size);

    return (host != nullptr) ? host : (char*)pointer;
}

/* Both ends looked up and copied under one lock, piece by piece */
template<typename reach_type>
void copy_pieces(char *destination, const char *source, size_t size,
                 reach_type reach)
{
    size_t piece;

    for (size_t done = 0; done < size; done += piece) {
        std::shared_lock<std::shared_mutex>
                lock(memory_map::instance().mutex);

        piece = std::min(size - done, copy_piece);
        memmove(reach(destination + done, piece), reach(source + done, piece),
                piece);
    }
}

void fill(void *pointer, uint32_t value, size_t count)
{
    std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    uint32_t *host = (uint32_t*)memory_map::instance()
                     .reach(pointer, count * sizeof(value));

    require(host != nullptr, HSA_STATUS_ERROR_INVALID_ALLOCATION);
    std::fill(host, host + count, value);
}

/* The slots are retained as far as they are in the job */
void release_signals(const copy_job &job)
{
    for (signal_slot *slot : job.dependency_slots) {
        signal_release(*slot);
    }
    if (job.completion_slot != nullptr) {
        signal_release(*job.completion_slot);
    }
}

signal_slot *retain_checked(hsa_signal_t signal)
{
    signal_slot &slot = signal_checked(signal);

    require(signal_retain(slot, signal), HSA_STATUS_ERROR_INVALID_SIGNAL);
    return &slot;
}

void submit(copy_job &job)
{
    try {
        for (hsa_signal_t signal : job.dependencies) {
            job.dependency_slots.push_back(retain_checked(signal));
        }
        job.completion_slot = retain_checked(job.completion);
        if (job.size > 0) {
            copy_engine_submit(job);
            return;
        }
    } catch (...) {
        release_signals(job);
        throw;
    }

    /* The real runtime does nothing, and does not signal it, either */
    release_signals(job);
}

} // namespace

void copy_as_agent(void *destination, const void *source, size_t size)
{
    copy_pieces((char*)destination, (const char*)source, size, reach_or_fault);
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_memory_async_copy(
        void *dst, hsa_agent_t dst_agent, const void *src,
        hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
        const hsa_signal_t *dep_signals, hsa_signal_t completion_signal)
{
    return call(fn_hsa_amd_memory_async_copy, [&] {
        copy_job job = {};

        require_argument((dst != nullptr) && (src != nullptr));
        require_argument((num_dep_signals != 0) == (dep_signals != nullptr));

        job.destination  = dst;
        job.source       = src;
        job.size         = size;
        job.as_agent     = agent_is_gpu(agent_number(dst_agent));
        job.as_agent    |= agent_is_gpu(agent_number(src_agent));
        job.completion   = completion_signal;
        job.dependencies.assign(dep_signals, dep_signals + num_dep_signals);
        submit(job);
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_memory_copy(void *dst, const void *src, size_t size)
{
    return call(fn_hsa_memory_copy, [&] {
        require_argument((dst != nullptr) && (src != nullptr));
        copy_pieces((char*)dst, (const char*)src, size, reach_or_host);
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_memory_fill(void *ptr, uint32_t value,
                                         size_t count)
{
    return call(fn_hsa_amd_memory_fill, [&] {
        require_argument((ptr != nullptr) &&
                         (uintptr_t(ptr) % sizeof(value) == 0));
        if (count > 0) {
            fill(ptr, value, count);
        }
        return HSA_STATUS_SUCCESS;
    });
}
