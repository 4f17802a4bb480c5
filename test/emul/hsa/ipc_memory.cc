/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "agent.h"
#include "api.h"
#include "memory.h"

#include <core/counts.h>
#include <core/settings.h>

#include <cstring>

/*
 * Sharing device memory between processes.
 */

namespace emul {

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

static_assert(sizeof(hsa_amd_ipc_memory_t) == sizeof(handle),
              "an IPC memory handle is a handle of the node");

/* The driver shares at most this much by one handle */
constexpr size_t largest_share = 0x7FFFFFFF000ull;

hsa_status_t create(void *pointer, size_t length, hsa_amd_ipc_memory_t *ipc)
{
    memory_map &map = memory_map::instance();
    std::shared_lock<std::shared_mutex> lock(map.mutex);
    mapping *m      = map.find(pointer);
    handle h;

    require_argument(length <= largest_share);
    require_argument((m != nullptr) && (m->kind == mapping_kind::device) &&
                     (m->base == pointer));
    require_argument((length == m->size) || (length == page_align(m->size)));

    h = allocation_export(m->index);
    memcpy(ipc, &h, sizeof(h));
    return HSA_STATUS_SUCCESS;
}

/* Before anything else: a process at its limit does not even look */
void require_room_to_attach()
{
    require(count_own(EMUL_COUNT_ATTACHES) <
            setting_value(setting_max_attaches),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

void require_attached(attach_result result)
{
    require(result != attach_result::no_room,
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    require_argument(result == attach_result::done);
}

hsa_status_t attach(const hsa_amd_ipc_memory_t *ipc, size_t length,
                    void **mapped_p)
{
    memory_map &map = memory_map::instance();
    mapping m       = {};
    memory_file file;
    handle h;

    require_room_to_attach();
    memcpy(&h, ipc, sizeof(h));
    require_attached(allocation_attach(h, length, &file));

    exclusive lock(map.mutex);

    m.base = memory_map_file(file, range_use::attach);
    if (m.base == nullptr) {
        allocation_detach(file.index);
        throw status_error{HSA_STATUS_ERROR_OUT_OF_RESOURCES};
    }

    m.kind   = mapping_kind::attached;
    m.host   = m.base;
    m.size   = length; /* the runtime believes its caller */
    m.length = page_align(file.size);
    m.agent  = device_agent(file.device);
    m.flags  = pool_flags(pool_gpu_coarse);
    m.index  = file.index;
    map.add(m);
    *mapped_p = m.base;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t detach(void *pointer)
{
    memory_map &map = memory_map::instance();
    mapping m;

    {
        exclusive lock(map.mutex);

        require_argument(map.remove(pointer, &m, [](const mapping &candidate) {
            return candidate.kind == mapping_kind::attached;
        }));
    }
    memory_release(m, false);
    return HSA_STATUS_SUCCESS;
}

} // namespace

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_ipc_memory_create(void *ptr, size_t len,
                                               hsa_amd_ipc_memory_t *handle)
{
    return call(fn_hsa_amd_ipc_memory_create, [&] {
        require_argument((ptr != nullptr) && (handle != nullptr));
        return create(ptr, len, handle);
    });
}

hsa_status_t HSA_API hsa_amd_ipc_memory_attach(
        const hsa_amd_ipc_memory_t *handle, size_t len, uint32_t num_agents,
        const hsa_agent_t *mapping_agents, void **mapped_ptr)
{
    return call(fn_hsa_amd_ipc_memory_attach, [&] {
        require_argument((handle != nullptr) && (mapped_ptr != nullptr));
        require_argument((num_agents == 0) || (mapping_agents != nullptr));
        for (uint32_t i = 0; i < num_agents; ++i) {
            agent_number(mapping_agents[i]);
        }
        return attach(handle, len, mapped_ptr);
    });
}

hsa_status_t HSA_API hsa_amd_ipc_memory_detach(void *mapped_ptr)
{
    return call(fn_hsa_amd_ipc_memory_detach, [&] {
        require_argument(mapped_ptr != nullptr);
        return detach(mapped_ptr);
    });
}
