/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_AGENT_H_
#define EMUL_HSA_AGENT_H_

#include "hsa_headers.h"

/*
 * The agents: number 0 is the CPU, the GPUs follow. And their memory pools.
 */

namespace emul {

constexpr unsigned cpu_number = 0;

/** Number of agents, the CPU included. */
unsigned agent_count();

hsa_agent_t agent_handle(unsigned number);

/** Leaves the call with HSA_STATUS_ERROR_INVALID_AGENT if there is none. */
unsigned agent_number(hsa_agent_t agent);

inline bool agent_is_gpu(unsigned number)
{
    return number != cpu_number;
}

/** The device of the node that this agent is. */
inline unsigned agent_device(unsigned gpu_number)
{
    return gpu_number - 1;
}

inline unsigned device_agent(unsigned device)
{
    return device + 1;
}

/* The pools, in the order in which they are listed */
enum pool_kind : unsigned {
    pool_cpu_fine,
    pool_cpu_kernarg,
    pool_cpu_coarse,
    pool_gpu_coarse,
    pool_gpu_group,
    pool_kind_count
};

struct pool {
    unsigned  agent;
    pool_kind kind;
};

/** Leaves the call with HSA_STATUS_ERROR_INVALID_MEMORY_POOL if there is
 *  none. */
pool pool_of(hsa_amd_memory_pool_t handle);

/** hsa_amd_memory_pool_global_flag_t */
uint32_t pool_flags(pool_kind kind);

/** Bytes behind a pool. */
size_t pool_size(pool_kind kind);

} // namespace emul

#endif
