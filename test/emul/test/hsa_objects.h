/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_HSA_OBJECTS_H_
#define EMUL_TEST_HSA_OBJECTS_H_

#include <hsa.h>
#include <hsa_ext_amd.h>

#include <atomic>
#include <vector>

/*
 * Finding agents and pools as any program does.
 */

inline std::vector<hsa_agent_t> agents_of(hsa_device_type_t type)
{
    struct search {
        hsa_device_type_t        type;
        std::vector<hsa_agent_t> found;
    } s = {type, {}};

    hsa_iterate_agents([](hsa_agent_t agent, void *data) {
        search &s = *(search*)data;
        hsa_device_type_t type;

        hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
        if (type == s.type) {
            s.found.push_back(agent);
        }
        return HSA_STATUS_SUCCESS;
    }, &s);
    return s.found;
}

inline hsa_agent_t gpu(unsigned number)
{
    return agents_of(HSA_DEVICE_TYPE_GPU).at(number);
}

inline hsa_agent_t cpu()
{
    return agents_of(HSA_DEVICE_TYPE_CPU).at(0);
}

inline std::vector<hsa_amd_memory_pool_t> pools_of(hsa_agent_t agent)
{
    std::vector<hsa_amd_memory_pool_t> pools;

    hsa_amd_agent_iterate_memory_pools(
            agent, [](hsa_amd_memory_pool_t pool, void *data) {
                ((std::vector<hsa_amd_memory_pool_t>*)data)->push_back(pool);
                return HSA_STATUS_SUCCESS;
            }, &pools);
    return pools;
}

/** The first global pool of the agent with this flag. */
inline hsa_amd_memory_pool_t
pool_with(hsa_agent_t agent, hsa_amd_memory_pool_global_flag_t wanted)
{
    for (hsa_amd_memory_pool_t pool : pools_of(agent)) {
        hsa_amd_segment_t segment;
        uint32_t flags;

        hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT,
                                     &segment);
        hsa_amd_memory_pool_get_info(
                pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
        if ((segment == HSA_AMD_SEGMENT_GLOBAL) && (flags & wanted)) {
            return pool;
        }
    }
    return hsa_amd_memory_pool_t{0};
}

inline hsa_amd_memory_pool_t gpu_pool(unsigned number)
{
    return pool_with(gpu(number),
                     HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
}

inline hsa_amd_memory_pool_t host_pool()
{
    return pool_with(cpu(), HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
}

#endif
