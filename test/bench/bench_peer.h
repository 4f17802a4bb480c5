/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_PEER_H_
#define BENCH_PEER_H_

#include "bench_message.h"
#include "bench_process.h"

#include "../apps/demo_uct.h"

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/** Bytes of each buffer that is shared. */
constexpr size_t BUFFER_SIZE = 4096;

/** What UCX puts into a key, for a peer that does without UCX. */
struct bare_message {
    hsa_amd_ipc_memory_t memory;
    hsa_amd_ipc_signal_t signal;
    size_t               num_more; /**< How many of these follow */
};

/** Device memory with its registration, shared by UCX. */
class shared_buffer {
public:
    explicit shared_buffer(const demo::rocm_ipc &transport);

    shared_buffer(const shared_buffer&)            = delete;
    shared_buffer &operator=(const shared_buffer&) = delete;

    ~shared_buffer();

    key_message key() const;

    /** hipFree; the registration goes first, as UCX asks for. */
    void free();

private:
    const demo::rocm_ipc &m_transport;
    void                 *m_address;
    uct_mem_h            m_memory = nullptr;
};

/** Tell a peer about buffers. */
void send_keys(const demo::channel &peer, const demo::rocm_ipc &transport,
               const std::vector<std::unique_ptr<shared_buffer>> &buffers);

/** Remote keys of one owner, and an endpoint to it. */
class imported {
public:
    /** Receives what @ref send_keys sends. Nothing is mapped yet. */
    imported(const demo::channel &owner, const demo::rocm_ipc &transport);

    imported(const imported&)            = delete;
    imported &operator=(const imported&) = delete;

    ~imported();

    size_t size() const
    {
        return m_keys.size();
    }

    /** Start a copy to or from the beginning of buffer @a index. */
    ucs_status_t put(size_t index, void *local, uct_completion_t *comp) const;

    ucs_status_t get(size_t index, void *local, uct_completion_t *comp) const;

    /** Get each buffer once, so that all are mapped. */
    void map_all(void *local) const;

private:
    struct key {
        uint64_t          address;
        uct_rkey_bundle_t rkey;
    };

    const demo::rocm_ipc &m_transport;
    uct_ep_h             m_ep = nullptr;
    std::vector<key>     m_keys;
};

/** Completion that can be waited for. */
struct completion {
    uct_completion_t super = {};
    bool             done  = false;

    completion();

    void wait(const demo::rocm_ipc &transport, ucs_status_t status);
};

/* Peers. Each ends when the other end of the channel is closed. */

/** Exports @a count buffers; sends their keys at once, and at each message. */
void run_owner_peer(const demo::channel &channel, size_t count);

/** Maps the buffers of each round by UCX, says so, and is idle. */
void run_importer_peer(const demo::channel &channel);

/** The same by the runtime's own functions: attach, and detach in the async
 *  handler of the signal. It is what a free must cost at least. */
void run_bare_peer(const demo::channel &channel);

/** Throws if an HSA or HIP call has failed. */
void check_hsa(hsa_status_t status, const char *call);
void check_hip(int status, const char *call);

} // namespace bench

#endif
