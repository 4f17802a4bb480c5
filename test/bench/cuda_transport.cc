/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_transport.h"

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace bench {

void check_cuda(cudaError_t status, const char *call)
{
    if (status != cudaSuccess) {
        throw demo::error(std::string(call) + " failed: " +
                          cudaGetErrorString(status));
    }
}

namespace {

void do_nothing(void *, unsigned)
{
}

} // namespace

/* Components have the names of their transports, but for this one */
cuda_transport::cuda_transport(const std::string &name) :
    demo::transport(name, (name == "cuda_copy") ? "cuda_cpy" : name,
                    "libuct_cuda.so", do_nothing)
{
    if (iface_attr().cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) {
        check_ucx(uct_iface_event_fd_get(iface(), &m_event_fd),
                  "tell its file descriptor");
    }
}

/* The key of cuda_ipc is all in its bytes, and outlives the registration */
std::string cuda_transport::make_key(void *address, size_t length) const
{
    const uct_mem_h memory = register_memory(address, length);
    const std::string key  = pack_key(memory);

    deregister(memory);
    return key;
}

void cuda_transport::finish() const
{
    while (uct_iface_flush(iface(), 0, nullptr) == UCS_INPROGRESS) {
        progress();
    }
}

void cuda_transport::disarm() const
{
    uint64_t count;

    if ((m_event_fd != -1) &&
        (read(m_event_fd, &count, sizeof(count)) == -1) && (errno != EAGAIN)) {
        throw demo::error(std::string("read: ") + strerror(errno));
    }
}

} // namespace bench
