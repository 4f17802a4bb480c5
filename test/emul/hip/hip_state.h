/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HIP_STATE_H_
#define EMUL_HIP_STATE_H_

#include <hip/hip_runtime_api.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

/**
 * @file hip_state.h
 * @brief What the emulated HIP runtime keeps between calls.
 *
 * It is a thin layer on the public HSA API, as the real one is for the calls
 * emulated here. Whatever it knows of devices it has asked HSA for, and it
 * allocates and frees through the exported HSA functions, so that whoever
 * intercepts those sees every hipMalloc and hipFree.
 */

namespace hip {

/** One GPU, as HIP numbers them: in the order in which HSA lists them. */
struct gpu {
    hsa_agent_t           agent; /**< The GPU itself */
    hsa_amd_memory_pool_t pool;  /**< Its own memory, coarse grained */
    size_t                size;  /**< Bytes in that pool */
    std::string           name;  /**< Product name */
};

/** The devices of this process. Never changes once it was built. */
struct topology {
    std::vector<gpu>         gpus;
    std::vector<hsa_agent_t> gpu_agents; /**< Agents of @ref gpus */
    hsa_amd_memory_pool_t    host_pool;  /**< Fine-grained memory of the CPU */
};

/**
 * Initialize HSA and look at the devices at the first successful call; later
 * calls only read. May be called from any thread.
 *
 * @return The devices, or NULL if HSA does not initialize, or has no GPU or no
 *         fine-grained CPU pool. A failure is not remembered.
 */
const topology *topology_get();

enum class memory_kind {
    DEVICE,  /**< hipMalloc: memory of one GPU */
    MANAGED, /**< hipMallocManaged: CPU memory that every GPU can access */
    HOST     /**< hipHostMalloc: likewise */
};

struct allocation {
    void        *base;
    size_t      size;   /**< Bytes, as asked for */
    memory_kind kind;
    int         device; /**< Current device of the thread that allocated */
    unsigned    flags;  /**< Flags given by the user */
};

/**
 * Live allocations of this process. Its lock is never held across a call to
 * HSA: a free may wait there for other processes, and nobody else should wait
 * for that free.
 */
class allocation_table {
public:
    void insert(const allocation &entry);

    /** Allocation that contains @a ptr, if any. */
    std::optional<allocation> find(const void *ptr) const;

    /** Take out and return the allocation that starts at @a base, if any. */
    std::optional<allocation> take(const void *base);

private:
    mutable std::mutex              m_lock;
    std::map<uintptr_t, allocation> m_entries; /* By base address */
};

/** The table of this process. Lives until the process ends, because hipFree
 *  may be called by destructors of other libraries. */
allocation_table &allocations();

/** Device that the calling thread has selected; 0 unless it has. */
int current_device();

void select_device(int device);

/** Remember @a status as the calling thread's last error and return it. */
hipError_t result(hipError_t status);

/** HIP's word for a failure that HSA has reported. */
hipError_t from_hsa(hsa_status_t status);

} // namespace hip

#endif
