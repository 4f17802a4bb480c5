/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "agent.h"
#include "api.h"
#include "memory.h"

#include <sys/mman.h>

/*
 * Host memory made visible to the GPUs. They see it at another address, which
 * the host cannot use: an access there faults.
 */

namespace emul {

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

/* The driver pins the pages, which fails where there are none */
bool is_mapped(const char *address, size_t length)
{
    char *begin = (char*)(uintptr_t(address) & ~(page_size - 1));

    return msync(begin, page_align(address + length - begin), MS_ASYNC) == 0;
}

hsa_status_t lock_host(void *host, size_t size, const hsa_agent_t *agents,
                       int count, pool_kind kind, void **agent_pointer_p)
{
    memory_map &map   = memory_map::instance();
    size_t page_shift = uintptr_t(host) & (page_size - 1);
    mapping m         = {};
    char *range;

    for (int i = 0; i < count; ++i) {
        agent_number(agents[i]);
    }

    exclusive lock(map.mutex);

    if (map.find(host) != nullptr) {
        /* The GPUs know it already, by the same address */
        *agent_pointer_p = host;
        return HSA_STATUS_SUCCESS;
    }

    require(is_mapped((char*)host, size), HSA_STATUS_ERROR_OUT_OF_RESOURCES);

    m.length = page_align(page_shift + size);
    range    = (char*)range_take(m.length, range_use::alias);
    require(range != nullptr, HSA_STATUS_ERROR_OUT_OF_RESOURCES);

    m.kind  = mapping_kind::locked;
    m.base  = range + page_shift;
    m.host  = (char*)host;
    m.size  = size;
    m.agent = cpu_number;
    m.flags = pool_flags(kind);
    map.add(m);
    *agent_pointer_p = m.base;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t unlock_host(void *host)
{
    memory_map &map = memory_map::instance();
    mapping m;

    {
        exclusive lock(map.mutex);

        if (!map.remove_lock(host, &m)) {
            /* The real runtime ignores what the driver says here */
            return HSA_STATUS_SUCCESS;
        }
    }
    memory_release(m, false);
    return HSA_STATUS_SUCCESS;
}

void check_lock_arguments(void *host, size_t size, hsa_agent_t *agents,
                          int count, void **agent_pointer_p)
{
    require_argument((size != 0) && (host != nullptr) &&
                     (agent_pointer_p != nullptr));
    *agent_pointer_p = nullptr;
    require_argument((agents != nullptr) == (count != 0));
}

} // namespace

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_memory_lock(void *host_ptr, size_t size,
                                         hsa_agent_t *agents, int num_agent,
                                         void **agent_ptr)
{
    return call(fn_hsa_amd_memory_lock, [&] {
        check_lock_arguments(host_ptr, size, agents, num_agent, agent_ptr);
        return lock_host(host_ptr, size, agents, num_agent, pool_cpu_fine,
                         agent_ptr);
    });
}

hsa_status_t HSA_API hsa_amd_memory_lock_to_pool(
        void *host_ptr, size_t size, hsa_agent_t *agents, int num_agent,
        hsa_amd_memory_pool_t pool, uint32_t flags, void **agent_ptr)
{
    return call(fn_hsa_amd_memory_lock_to_pool, [&] {
        emul::pool p;

        require_argument(flags == 0);
        check_lock_arguments(host_ptr, size, agents, num_agent, agent_ptr);
        p = pool_of(pool);
        require(!agent_is_gpu(p.agent), HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
        return lock_host(host_ptr, size, agents, num_agent, p.kind, agent_ptr);
    });
}

hsa_status_t HSA_API hsa_amd_memory_unlock(void *host_ptr)
{
    return call(fn_hsa_amd_memory_unlock,
                [&] { return unlock_host(host_ptr); });
}
