/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"

#include "agent.h"
#include "api.h"
#include "memory_map.h"

#include <core/address_space.h>
#include <core/allocation.h>

#include <algorithm>

#include <unistd.h>

/*
 * Allocating and freeing.
 */

namespace emul {

char *memory_map_file(const memory_file &file, range_use use)
{
    size_t length = page_align(file.size);
    char *base    = (char*)range_take(length, use);

    if ((base != nullptr) && !range_map(base, length, file.fd)) {
        range_give_back(base, length, use);
        base = nullptr;
    }
    close(file.fd);
    return base;
}

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

void *allocate_device(pool p, size_t size)
{
    memory_map &map = memory_map::instance();
    mapping m       = {};
    memory_file file;

    require(allocation_create(agent_device(p.agent), size, &file),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);

    exclusive lock(map.mutex);

    m.base = memory_map_file(file, range_use::allocation);
    if (m.base == nullptr) {
        allocation_release(file.index);
        throw status_error{HSA_STATUS_ERROR_OUT_OF_RESOURCES};
    }

    m.kind  = mapping_kind::device;
    m.host  = m.base;
    m.size   = size;
    m.length = page_align(size);
    m.agent  = p.agent;
    m.flags  = pool_flags(p.kind);
    m.index = file.index;
    map.add(m);
    return m.base;
}

/* Memory of the host needs no file: on real hardware it cannot be exported
 * either unless it was allocated for that. */
void *allocate_host(pool p, size_t size)
{
    memory_map &map = memory_map::instance();
    mapping m       = {};

    m.base = (char*)range_take(page_align(size), range_use::host);
    require((m.base != nullptr) &&
            range_map_private(m.base, page_align(size)),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);

    m.kind  = mapping_kind::host;
    m.host  = m.base;
    m.size   = size;
    m.length = page_align(size);
    m.agent  = p.agent;
    m.flags  = pool_flags(p.kind);

    exclusive lock(map.mutex);
    map.add(m);
    return m.base;
}

hsa_status_t allocate(pool p, size_t size, void **pointer_p)
{
    require(p.kind != pool_gpu_group, HSA_STATUS_ERROR_INVALID_ALLOCATION);
    require(size <= pool_size(p.kind), HSA_STATUS_ERROR_INVALID_ALLOCATION);

    *pointer_p = agent_is_gpu(p.agent) ? allocate_device(p, size) :
                                         allocate_host(p, size);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t free_memory(void *pointer)
{
    memory_map &map = memory_map::instance();
    mapping m;

    if (pointer == nullptr) {
        return HSA_STATUS_SUCCESS;
    }

    {
        exclusive lock(map.mutex);
        mapping *found = map.find(pointer);

        /* What is attached is known but cannot be freed */
        require_argument((found == nullptr) || (found->base != pointer) ||
                         (found->kind != mapping_kind::attached));
        require(map.remove(pointer, &m, [](const mapping &candidate) {
                    return candidate.kind != mapping_kind::locked;
                }), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    }

    /* The order is that of the real runtime: from here on the pointer is
     * unknown; callbacks, then the part that may wait for importers. The memory
     * stays mapped meanwhile. */
    for (auto &callback : m.callbacks) {
        callback.function(callback.pointer, callback.user_data);
    }
    memory_release(m, true);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t allow_access(uint32_t count, const hsa_agent_t *agents,
                          const void *pointer)
{
    memory_map &map = memory_map::instance();
    std::shared_lock<std::shared_mutex> lock(map.mutex);
    mapping *m      = map.find(pointer);

    require((m != nullptr) && (m->base == pointer) &&
            (m->kind != mapping_kind::locked), HSA_STATUS_ERROR);
    if (m->kind == mapping_kind::attached) {
        /* granted by attaching */
        return HSA_STATUS_SUCCESS;
    }

    for (uint32_t i = 0; i < count; ++i) {
        agent_number(agents[i]);
    }
    return HSA_STATUS_SUCCESS;
}

} // namespace

static range_use use_of(mapping_kind kind)
{
    switch (kind) {
    case mapping_kind::device:
        return range_use::allocation;
    case mapping_kind::attached:
        return range_use::attach;
    case mapping_kind::locked:
        return range_use::alias;
    default:
        return range_use::host;
    }
}

void memory_release(const mapping &m, bool may_wait)
{
    memory_map &map = memory_map::instance();
    char *first     = (char*)(uintptr_t(m.base) & ~(page_size - 1));

    if (may_wait && (m.kind == mapping_kind::device)) {
        allocation_wait_detached(m.index);
    }

    /* not while a copy touches it */
    exclusive lock(map.mutex);

    range_give_back(first, m.length, use_of(m.kind));
    if (m.kind == mapping_kind::device) {
        allocation_release(m.index);
    } else if (m.kind == mapping_kind::attached) {
        allocation_detach(m.index);
    }
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_memory_pool_allocate(
        hsa_amd_memory_pool_t memory_pool, size_t size, uint32_t flags,
        void **ptr)
{
    return call(fn_hsa_amd_memory_pool_allocate, [&] {
        require_argument((size != 0) && (ptr != nullptr) && (flags == 0));
        return allocate(pool_of(memory_pool), size, ptr);
    });
}

hsa_status_t HSA_API hsa_amd_memory_pool_free(void *ptr)
{
    return call(fn_hsa_amd_memory_pool_free, [&] { return free_memory(ptr); });
}

hsa_status_t HSA_API hsa_amd_agents_allow_access(uint32_t num_agents,
                                                 const hsa_agent_t *agents,
                                                 const uint32_t *flags,
                                                 const void *ptr)
{
    return call(fn_hsa_amd_agents_allow_access, [&] {
        require_argument((num_agents != 0) && (agents != nullptr) &&
                         (flags == nullptr) && (ptr != nullptr));
        return allow_access(num_agents, agents, ptr);
    });
}

hsa_status_t HSA_API hsa_amd_register_deallocation_callback(
        void *ptr, hsa_amd_deallocation_callback_t callback, void *user_data)
{
    return call(fn_hsa_amd_register_deallocation_callback, [&] {
        memory_map &map = memory_map::instance();
        exclusive lock(map.mutex);
        mapping *m;

        require_argument((ptr != nullptr) && (callback != nullptr));
        m = map.find(ptr);
        require((m != nullptr) && (m->kind != mapping_kind::attached) &&
                (m->kind != mapping_kind::locked),
                HSA_STATUS_ERROR_INVALID_ALLOCATION);
        m->callbacks.push_back({callback, ptr, user_data});
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_deregister_deallocation_callback(
        void *ptr, hsa_amd_deallocation_callback_t callback)
{
    return call(fn_hsa_amd_deregister_deallocation_callback, [&] {
        memory_map &map = memory_map::instance();
        exclusive lock(map.mutex);
        mapping *m;
        size_t before;

        require_argument((ptr != nullptr) && (callback != nullptr));
        m = map.find(ptr);
        require_argument(m != nullptr);

        auto &list = m->callbacks;
        before     = list.size();
        list.erase(std::remove_if(list.begin(), list.end(),
                                  [&](const deallocation_callback &c) {
                                      return (c.function == callback) &&
                                             (c.pointer == ptr);
                                  }), list.end());
        require_argument(list.size() != before);
        return HSA_STATUS_SUCCESS;
    });
}
