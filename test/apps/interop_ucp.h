/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef INTEROP_UCP_H_
#define INTEROP_UCP_H_

#include <ucp/api/ucp.h>

#include <string>

namespace interop {

/**
 * UCX as applications use it: a worker of UCP, which sends and receives
 * messages in device memory, and at most one endpoint.
 *
 * All functions throw demo::error if UCX could not do it.
 */
class ucp_peer {
public:
    ucp_peer();

    ucp_peer(const ucp_peer&)            = delete;
    ucp_peer &operator=(const ucp_peer&) = delete;

    /** Ends without asking the other process, which may not listen. */
    ~ucp_peer();

    /** What the other process needs to connect. */
    std::string address() const;

    /** Connect to the process whose worker has this address. */
    void connect(const std::string &address);

    /** Send a message, and return when the buffer is not needed any more. */
    void send(const void *buffer, size_t size);

    /** Receive a message, and return when it is there. */
    void receive(void *buffer, size_t size);

    void progress();

private:
    void open();
    void close();
    void wait(ucs_status_ptr_t request, const std::string &what);

    ucp_context_h m_context = nullptr;
    ucp_worker_h  m_worker  = nullptr;
    ucp_ep_h      m_ep      = nullptr;
};

} // namespace interop

#endif
