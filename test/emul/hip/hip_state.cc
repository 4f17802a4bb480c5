/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "hip_state.h"

#include <cstring>
#include <iterator>
#include <memory>

namespace hip {

namespace {

struct pool_search {
    uint32_t              wanted_flag; /* HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_x */
    hsa_amd_memory_pool_t pool;
    bool                  found;
};

template<typename value_type>
hsa_status_t pool_info(hsa_amd_memory_pool_t pool,
                       hsa_amd_memory_pool_info_t what, value_type *value_p)
{
    return hsa_amd_memory_pool_get_info(pool, what, value_p);
}

/* Stops at the first pool in which a user may allocate, of the wanted grain */
hsa_status_t match_pool(hsa_amd_memory_pool_t pool, void *arg)
{
    auto *search              = static_cast<pool_search*>(arg);
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GLOBAL;
    bool may_allocate         = false;
    uint32_t flags            = 0;
    hsa_status_t status;

    status = pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if ((status != HSA_STATUS_SUCCESS) || (segment != HSA_AMD_SEGMENT_GLOBAL)) {
        return status;
    }

    status = pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                       &may_allocate);
    if ((status != HSA_STATUS_SUCCESS) || !may_allocate) {
        return status;
    }

    status = pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if ((status != HSA_STATUS_SUCCESS) || !(flags & search->wanted_flag)) {
        return status;
    }

    search->pool  = pool;
    search->found = true;
    return HSA_STATUS_INFO_BREAK;
}

bool find_pool(hsa_agent_t agent, uint32_t wanted_flag,
               hsa_amd_memory_pool_t *pool_p)
{
    pool_search search = {wanted_flag, {}, false};

    hsa_amd_agent_iterate_memory_pools(agent, match_pool, &search);
    *pool_p = search.pool;
    return search.found;
}

std::string product_name(hsa_agent_t agent)
{
    char name[64] = ""; /* Size that the HSA headers give for both names */

    if (hsa_agent_get_info(
                agent,
                static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_PRODUCT_NAME),
                name) != HSA_STATUS_SUCCESS) {
        hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, name);
    }

    return std::string(name, strnlen(name, sizeof(name)));
}

hsa_status_t list_agent(hsa_agent_t agent, void *arg)
{
    auto *agents = static_cast<std::vector<hsa_agent_t>*>(arg);

    agents->push_back(agent);
    return HSA_STATUS_SUCCESS;
}

bool add_gpu(topology *devices, hsa_agent_t agent)
{
    gpu entry = {};

    if (!find_pool(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
                   &entry.pool) ||
        (pool_info(entry.pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &entry.size) !=
         HSA_STATUS_SUCCESS)) {
        return false;
    }

    entry.agent = agent;
    entry.name  = product_name(agent);
    devices->gpus.push_back(entry);
    devices->gpu_agents.push_back(agent);
    return true;
}

std::unique_ptr<topology> discover()
{
    auto devices   = std::make_unique<topology>();
    bool have_host = false;
    std::vector<hsa_agent_t> agents;

    if ((hsa_init() != HSA_STATUS_SUCCESS) ||
        (hsa_iterate_agents(list_agent, &agents) != HSA_STATUS_SUCCESS)) {
        return nullptr;
    }

    for (hsa_agent_t agent : agents) {
        hsa_device_type_t type;

        if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) !=
            HSA_STATUS_SUCCESS) {
            return nullptr;
        }

        if (type == HSA_DEVICE_TYPE_GPU) {
            if (!add_gpu(devices.get(), agent)) {
                return nullptr;
            }
        } else if ((type == HSA_DEVICE_TYPE_CPU) && !have_host) {
            have_host = find_pool(agent,
                                  HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
                                  &devices->host_pool);
        }
    }

    if (devices->gpus.empty() || !have_host) {
        return nullptr;
    }

    return devices;
}

thread_local int device_of_thread = 0;

} // namespace

const topology *topology_get()
{
    static std::mutex lock;
    static std::unique_ptr<topology> *devices = new std::unique_ptr<topology>;
    std::lock_guard<std::mutex> guard(lock);

    if (*devices == nullptr) {
        *devices = discover();
    }

    return devices->get();
}

void allocation_table::insert(const allocation &entry)
{
    std::lock_guard<std::mutex> guard(m_lock);

    m_entries[reinterpret_cast<uintptr_t>(entry.base)] = entry;
}

std::optional<allocation> allocation_table::find(const void *ptr) const
{
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    std::lock_guard<std::mutex> guard(m_lock);
    auto next = m_entries.upper_bound(address);

    if (next == m_entries.begin()) {
        return std::nullopt;
    }

    const auto &[base, entry] = *std::prev(next);
    if (address - base >= entry.size) {
        return std::nullopt;
    }

    return entry;
}

std::optional<allocation> allocation_table::take(const void *base)
{
    std::lock_guard<std::mutex> guard(m_lock);
    auto found = m_entries.find(reinterpret_cast<uintptr_t>(base));

    if (found == m_entries.end()) {
        return std::nullopt;
    }

    const allocation entry = found->second;
    m_entries.erase(found);
    return entry;
}

allocation_table &allocations()
{
    static auto *table = new allocation_table;

    return *table;
}

int current_device()
{
    return device_of_thread;
}

void select_device(int device)
{
    device_of_thread = device;
}

} // namespace hip
