/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_STREAMS_H_
#define CUDA_STREAMS_H_

#include "cuda_transport.h"

#include <memory>
#include <vector>

namespace bench {

/**
 * Copies of a CUDA transport, told apart by the stream that the transport puts
 * them on. That of cuda_copy depends on the kinds of both buffers' memory, that
 * of cuda_ipc on the peer's GPU. The first one is from device to device.
 *
 * Copies on one stream have the same buffers; what they hold does not matter.
 */
class cuda_streams {
public:
    cuda_streams(const cuda_streams&)            = delete;
    cuda_streams &operator=(const cuda_streams&) = delete;

    virtual ~cuda_streams();

    /** How many streams there are. */
    size_t count() const
    {
        return m_routes.size();
    }

    const cuda_transport &transport() const
    {
        return m_transport;
    }

    uct_ep_h ep() const
    {
        return m_ep;
    }

    /** Start a copy of @a length bytes, at most those of the buffers. */
    ucs_status_t
    copy(size_t stream, size_t length, uct_completion_t *comp) const
    {
        const route &way = m_routes[stream];
        uct_iov_t iov    = {};

        iov.buffer = way.local;
        iov.length = length;
        iov.memh   = UCT_MEM_HANDLE_NULL;
        iov.count  = 1;
        return uct_ep_put_zcopy(m_ep, &iov, 1, way.remote, way.rkey, comp);
    }

    /** Have the runtime copy the same bytes on a stream of the caller's. */
    void copy_without_ucx(size_t length, cudaStream_t stream) const;

protected:
    struct route {
        void       *local;
        uint64_t   remote;
        uct_rkey_t rkey;
    };

    explicit cuda_streams(const std::string &name) : m_transport(name)
    {
    }

    const cuda_transport m_transport;
    uct_ep_h             m_ep = nullptr;
    std::vector<route>   m_routes;
    /* Where the first one's remote address is mapped here */
    void                 *m_first_remote = nullptr;
};

/** Copies of the transport of that name, of up to @a size bytes. */
std::unique_ptr<cuda_streams>
make_cuda_streams(const std::string &transport, size_t size);

/** The role of the peer of cuda_ipc: has a buffer on each GPU. */
void run_cuda_owner_peer(const demo::channel &channel, size_t size);

} // namespace bench

#endif
