/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_TRANSPORT_H_
#define CUDA_TRANSPORT_H_

#include "../apps/demo_channel.h"

#include <uct/api/uct.h>

#include <cuda_runtime_api.h>

#include <string>

namespace bench {

/** Throws if a call of CUDA's runtime has failed. */
void check_cuda(cudaError_t status, const char *call);

/** Throws if UCX could not do it. */
void check_ucx(ucs_status_t status, const std::string &what);

/** A CUDA transport of UCX, opened in this process through UCT. */
class cuda_transport {
public:
    /** Throws demo::error if UCX does not offer it. */
    explicit cuda_transport(const std::string &name);

    cuda_transport(const cuda_transport&)            = delete;
    cuda_transport &operator=(const cuda_transport&) = delete;

    ~cuda_transport();

    /** What a peer needs to know to reach this process. */
    std::string device_address() const;
    std::string iface_address() const;

    /** The key of device memory, which stays the caller's: bytes to be sent. */
    std::string make_key(void *address, size_t length) const;

    /** An endpoint, which is the caller's, to who has these addresses. */
    uct_ep_h connect(const std::string &device_address,
                     const std::string &iface_address) const;

    const std::string &name() const
    {
        return m_name;
    }

    uct_component_h component() const
    {
        return m_component;
    }

    unsigned progress() const
    {
        return uct_worker_progress(m_worker);
    }

    /** Call progress until nothing is outstanding. */
    void finish() const;

    /** Ask to be woken up by what completes. */
    ucs_status_t arm() const
    {
        return uct_iface_event_arm(m_iface, UCT_EVENT_SEND_COMP);
    }

    /** Forget that something has completed since. */
    void disarm() const;

private:
    void open();
    void close();
    void open_md();
    void open_iface();

    const std::string   m_name;
    uct_component_h     m_component = nullptr;
    uct_md_h            m_md        = nullptr;
    ucs_async_context_t *m_async    = nullptr;
    uct_worker_h        m_worker    = nullptr;
    uct_iface_h         m_iface     = nullptr;
    uct_iface_attr_t    m_iface_attr;
    size_t              m_key_size  = 0;
    int                 m_event_fd  = -1;
};

} // namespace bench

#endif
