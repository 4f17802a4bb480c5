/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "agent.h"
#include "api.h"

#include <core/allocation.h>
#include <core/settings.h>

#include <cstring>

#include <unistd.h>

namespace emul {

namespace {

constexpr uint64_t pool_tag = 0x656d756c706f0000;

hsa_amd_memory_pool_t pool_handle(unsigned agent, unsigned kind)
{
    return {pool_tag + agent * pool_kind_count + kind};
}

bool has_pool(unsigned agent, unsigned kind)
{
    return agent_is_gpu(agent) == (kind >= pool_gpu_coarse);
}

template<typename type> hsa_status_t give(void *value, type what)
{
    memcpy(value, &what, sizeof(what));
    return HSA_STATUS_SUCCESS;
}

hsa_status_t pool_get_info(pool p, unsigned attribute, void *value)
{
    bool group = p.kind == pool_gpu_group;

    switch (attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        return give(value, group ? HSA_AMD_SEGMENT_GROUP :
                                   HSA_AMD_SEGMENT_GLOBAL);
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        return give(value, pool_flags(p.kind));
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
        return give(value, pool_size(p.kind));
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        return give(value, !group);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
        return give(value, group ? size_t(0) : page_size);
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
        return give(value, !agent_is_gpu(p.agent));
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
        return give(value, group ? size_t(0) : pool_size(p.kind));
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

hsa_amd_memory_pool_access_t pool_access(unsigned agent, pool p)
{
    if (agent == p.agent) {
        return HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
    }

    return (p.kind == pool_gpu_group) ?
           HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED :
           HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
}

/* GPUs are linked to each other by XGMI, to the CPU by PCIe */
hsa_amd_memory_pool_link_info_t link(unsigned from, unsigned to)
{
    hsa_amd_memory_pool_link_info_t info = {};
    bool peers = agent_is_gpu(from) && agent_is_gpu(to);

    info.min_latency               = 1;
    info.max_latency               = 1;
    info.min_bandwidth             = 1;
    info.max_bandwidth             = 1;
    info.atomic_support_32bit      = true;
    info.atomic_support_64bit      = true;
    info.coherent_support          = true;
    info.link_type                 = peers ? HSA_AMD_LINK_INFO_TYPE_XGMI :
                                             HSA_AMD_LINK_INFO_TYPE_PCIE;
    info.numa_distance             = peers ? 15 : 20;
    return info;
}

hsa_status_t agent_pool_get_info(unsigned agent, pool p, unsigned attribute,
                                 void *value)
{
    hsa_amd_memory_pool_access_t access = pool_access(agent, p);
    hsa_amd_memory_pool_link_info_t no_link = {};
    bool linked = (agent != p.agent) &&
                  (access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);

    switch (attribute) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
        return give(value, access);
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
        return give(value, uint32_t(linked));
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
        return give(value, linked ? link(agent, p.agent) : no_link);
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

} // namespace

pool pool_of(hsa_amd_memory_pool_t handle)
{
    uint64_t number = handle.handle - pool_tag;
    pool p          = {unsigned(number / pool_kind_count),
                       pool_kind(number % pool_kind_count)};

    require((number / pool_kind_count < agent_count()) &&
            has_pool(p.agent, p.kind), HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
    return p;
}

uint32_t pool_flags(pool_kind kind)
{
    switch (kind) {
    case pool_cpu_fine:
        return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    case pool_cpu_kernarg:
        return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED |
               HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
    case pool_cpu_coarse:
    case pool_gpu_coarse:
        return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    default:
        return 0;
    }
}

size_t pool_size(pool_kind kind)
{
    switch (kind) {
    case pool_gpu_coarse:
        return setting_value(setting_gpu_memory);
    case pool_gpu_group:
        return 64 * 1024;
    default:
        return size_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    }
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_agent_iterate_memory_pools(
        hsa_agent_t agent,
        hsa_status_t (*callback)(hsa_amd_memory_pool_t memory_pool,
                                 void *data),
        void *data)
{
    return call(fn_hsa_amd_agent_iterate_memory_pools, [&] {
        hsa_status_t status = HSA_STATUS_SUCCESS;
        unsigned number;

        require_argument(callback != nullptr);
        number = agent_number(agent);
        for (unsigned kind = 0; (kind < pool_kind_count) && !status; ++kind) {
            if (has_pool(number, kind)) {
                status = callback(pool_handle(number, kind), data);
            }
        }
        return status;
    });
}

hsa_status_t HSA_API hsa_amd_memory_pool_get_info(
        hsa_amd_memory_pool_t memory_pool, hsa_amd_memory_pool_info_t attribute,
        void *value)
{
    return call(fn_hsa_amd_memory_pool_get_info, [&] {
        require_argument(value != nullptr);
        return pool_get_info(pool_of(memory_pool), attribute, value);
    });
}

hsa_status_t HSA_API hsa_amd_agent_memory_pool_get_info(
        hsa_agent_t agent, hsa_amd_memory_pool_t memory_pool,
        hsa_amd_agent_memory_pool_info_t attribute, void *value)
{
    return call(fn_hsa_amd_agent_memory_pool_get_info, [&] {
        unsigned number;

        require_argument(value != nullptr);
        number = agent_number(agent);
        return agent_pool_get_info(number, pool_of(memory_pool), attribute,
                                   value);
    });
}
