/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_IPC_REMOTE_H
#define CUDA_IPC_REMOTE_H

#include "cuda_ipc_protocol.h"
#include "cuda_transport.h"

#include <sys/types.h>

#include <string>
#include <vector>

/**
 * @file cuda_ipc_remote.h
 * @brief The process that owns device memory, as the test sees it.
 */
namespace cuda_test {

/** Seconds after which whatever has not happened counts as a hang. */
double time_limit();

/** Device memory of the owner. */
struct remote_memory {
    uint64_t    id;
    uint64_t    address;
    size_t      slot_length;
    std::string key;

    uint64_t slot(unsigned index) const
    {
        return address + (index * slot_length);
    }
};

/** Starts the process, and kills it unless it has ended. What it is told and
 *  cannot do, or does not do in time, is thrown as @ref failure. */
class remote_owner {
public:
    remote_owner();
    ~remote_owner();

    const interface_address &address() const
    {
        return m_address;
    }

    remote_memory alloc(int device, unsigned num_slots, size_t slot_length);
    void free(const remote_memory &mem);

    /** Fill a slot with the pattern of a seed. */
    void fill(const remote_memory &mem, unsigned slot, uint64_t seed);

    /** Whether all of a slot is the pattern of a seed. */
    bool holds(const remote_memory &mem, unsigned slot, uint64_t seed);

    /** Let it free and close everything and exit with status 0. */
    void quit();

    /** Kill it by SIGKILL and wait until it is gone. */
    void kill();

private:
    remote_owner(const remote_owner &);
    remote_owner &operator=(const remote_owner &);

    void start();
    reply
    call(verb_t verb, const std::vector<uint64_t> &numbers, std::string &data);
    reply call(verb_t verb, const std::vector<uint64_t> &numbers);
    int reap();

    pid_t             m_pid;
    int               m_socket;
    interface_address m_address;
};

} /* namespace cuda_test */

#endif
