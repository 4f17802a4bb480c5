/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "agent.h"
#include "api.h"
#include "memory_map.h"

#include <core/settings.h>

#include <algorithm>
#include <cstring>

/*
 * What an address is.
 */

namespace emul {

namespace {

hsa_amd_pointer_type_t type_of(mapping_kind kind)
{
    switch (kind) {
    case mapping_kind::attached:
        return HSA_EXT_POINTER_TYPE_IPC;
    case mapping_kind::locked:
        return HSA_EXT_POINTER_TYPE_LOCKED;
    default:
        return HSA_EXT_POINTER_TYPE_HSA;
    }
}

hsa_agent_t owner_of(const mapping &m)
{
    if ((m.kind == mapping_kind::attached) &&
        !setting_value(setting_ipc_owner_visible)) {
        return hsa_agent_t{0};
    }
    return agent_handle(m.agent);
}

hsa_amd_pointer_info_t describe(const mapping *m)
{
    hsa_amd_pointer_info_t info = {};

    if (m == nullptr) {
        info.type       = HSA_EXT_POINTER_TYPE_UNKNOWN;
        /* The driver says node 0 where it says nothing */
        info.agentOwner = agent_handle(cpu_number);
        return info;
    }

    info.type             = type_of(m->kind);
    info.agentBaseAddress = m->base;
    info.hostBaseAddress  = m->host;
    info.sizeInBytes      = m->size;
    info.userData         = m->user_data;
    info.agentOwner       = owner_of(*m);
    info.global_flags     = m->flags;
    return info;
}

/* Every agent can reach everything that is known; only the owner is certain
 * where the memory is a GPU's. */
hsa_status_t list_agents(const hsa_amd_pointer_info_t &info,
                         void *(*allocate)(size_t), uint32_t *count_p,
                         hsa_agent_t **list_p)
{
    unsigned count = (info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) ?
                     0 : agent_count() - 1;

    *list_p = (hsa_agent_t*)allocate(sizeof(**list_p) * std::max(count, 1u));
    require(*list_p != nullptr, HSA_STATUS_ERROR_OUT_OF_RESOURCES);

    for (unsigned i = 0; i < count; ++i) {
        (*list_p)[i] = agent_handle(i + 1);
    }
    *count_p = count;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t pointer_info(const void *pointer, hsa_amd_pointer_info_t *info_p,
                          void *(*allocate)(size_t), uint32_t *count_p,
                          hsa_agent_t **list_p)
{
    memory_map &map = memory_map::instance();
    hsa_amd_pointer_info_t info;

    {
        std::shared_lock<std::shared_mutex> lock(map.mutex);

        info = describe(map.find_any(pointer));
    }

    /* the caller may have been built with an older, shorter structure */
    info.size = std::min<size_t>(info_p->size, sizeof(info));
    memcpy(info_p, &info, info.size);

    if ((allocate == nullptr) || (count_p == nullptr) || (list_p == nullptr)) {
        return HSA_STATUS_SUCCESS;
    }
    return list_agents(info, allocate, count_p, list_p);
}

} // namespace

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_pointer_info(const void *ptr,
                                          hsa_amd_pointer_info_t *info,
                                          void *(*alloc)(size_t),
                                          uint32_t *num_agents_accessible,
                                          hsa_agent_t **accessible)
{
    return call(fn_hsa_amd_pointer_info, [&] {
        require_argument((ptr != nullptr) && (info != nullptr) &&
                         (info->size != 0));
        return pointer_info(ptr, info, alloc, num_agents_accessible,
                            accessible);
    });
}

hsa_status_t HSA_API hsa_amd_pointer_info_set_userdata(const void *ptr,
                                                       void *userdata)
{
    return call(fn_hsa_amd_pointer_info_set_userdata, [&] {
        memory_map &map = memory_map::instance();
        std::unique_lock<std::shared_mutex> lock(map.mutex);
        mapping *m;

        require_argument(ptr != nullptr);
        m = map.find_any(ptr);
        require_argument(m != nullptr);
        m->user_data = userdata;
        return HSA_STATUS_SUCCESS;
    });
}
