/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_TRANSPORT_H_
#define CUDA_TRANSPORT_H_

#include "../apps/demo_channel.h"
#include "../apps/demo_uct.h"

#include <cuda_runtime_api.h>

#include <string>

namespace bench {

/** Throws if a call of CUDA's runtime has failed. */
void check_cuda(cudaError_t status, const char *call);

using demo::check_ucx;

/** A CUDA transport of UCX. */
class cuda_transport : public demo::transport {
public:
    explicit cuda_transport(const std::string &name);

    /** The key of device memory, which stays the caller's: bytes to be sent. */
    std::string make_key(void *address, size_t length) const;

    unsigned progress() const
    {
        return uct_worker_progress(worker());
    }

    /** Call progress until nothing is outstanding. */
    void finish() const;

    /** Ask to be woken up by what completes. */
    ucs_status_t arm() const
    {
        return uct_iface_event_arm(iface(), UCT_EVENT_SEND_COMP);
    }

    /** Forget that something has completed since. */
    void disarm() const;

private:
    int m_event_fd = -1;
};

} // namespace bench

#endif
