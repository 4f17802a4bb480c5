/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_streams.h"
#include "bench_message.h"
#include "bench_process.h"

#include <algorithm>
#include <cstdlib>

namespace bench {

cuda_streams::~cuda_streams()
{
    if (m_ep != nullptr) {
        uct_ep_destroy(m_ep);
    }
}

void cuda_streams::copy_without_ucx(size_t length, cudaStream_t stream) const
{
    check_cuda(cudaMemcpyAsync(m_first_remote, m_routes[0].local, length,
                               cudaMemcpyDefault, stream),
               "cudaMemcpyAsync");
}

namespace {

/* Streams of cuda_ipc at most, by default */
constexpr size_t MAX_IPC_STREAMS = 16;

enum class memory_kind { device, host, managed };

class cuda_buffer {
public:
    cuda_buffer(memory_kind kind, size_t size) : m_kind(kind)
    {
        switch (kind) {
        case memory_kind::device:
            check_cuda(cudaMalloc(&m_address, size), "cudaMalloc");
            break;
        case memory_kind::host:
            check_cuda(cudaHostAlloc(&m_address, size, cudaHostAllocDefault),
                       "cudaHostAlloc");
            break;
        case memory_kind::managed:
            check_cuda(cudaMallocManaged(&m_address, size,
                                         cudaMemAttachGlobal),
                       "cudaMallocManaged");
            break;
        }
    }

    cuda_buffer(const cuda_buffer&)            = delete;
    cuda_buffer &operator=(const cuda_buffer&) = delete;

    ~cuda_buffer()
    {
        static_cast<void>((m_kind == memory_kind::host) ?
                          cudaFreeHost(m_address) : cudaFree(m_address));
    }

    void *address() const
    {
        return m_address;
    }

private:
    const memory_kind m_kind;
    void              *m_address;
};

using buffer_list = std::vector<std::unique_ptr<cuda_buffer>>;

/* One buffer of each kind to copy from, and one to copy to */
class copy_streams : public cuda_streams {
public:
    explicit copy_streams(size_t size) : cuda_streams("cuda_copy")
    {
        constexpr memory_kind kinds[] = {memory_kind::device, memory_kind::host,
                                         memory_kind::managed};

        m_ep = m_transport.connect(m_transport.device_address(),
                                   m_transport.iface_address());
        let_ucx_see_allocations();
        for (const memory_kind kind : kinds) {
            m_from.push_back(std::make_unique<cuda_buffer>(kind, size));
            m_to.push_back(std::make_unique<cuda_buffer>(kind, size));
        }

        for (const auto &from : m_from) {
            for (const auto &to : m_to) {
                m_routes.push_back({from->address(),
                                    reinterpret_cast<uint64_t>(to->address()),
                                    UCT_INVALID_RKEY});
            }
        }

        m_first_remote = m_to[0]->address();
    }

private:
    /* UCX learns of a buffer's kind from its allocation, which it sees from the
     * first copy on: be it of something else. */
    void let_ucx_see_allocations() const
    {
        char from = 0, to;
        uct_iov_t iov = {};

        iov.buffer = &from;
        iov.length = sizeof(from);
        iov.count  = 1;
        if (uct_ep_put_zcopy(m_ep, &iov, 1, reinterpret_cast<uint64_t>(&to),
                             UCT_INVALID_RKEY, nullptr) != UCS_INPROGRESS) {
            throw demo::error("UCX cannot copy from host to host");
        }
        m_transport.finish();
    }

    buffer_list m_from;
    buffer_list m_to;
};

/* A buffer of the owner, and its handle for who does without UCX */
struct cuda_key_message {
    key_message          super;
    cudaIpcMemHandle_t   handle;
};

/* One buffer here, and one of the owner's on each GPU */
class ipc_streams : public cuda_streams {
public:
    explicit ipc_streams(size_t size) :
        cuda_streams("cuda_ipc"), m_owner("owner", size),
        m_local(memory_kind::device, size)
    {
        const auto address = m_owner.channel().receive<address_message>();

        m_ep = m_transport.connect(address.device_address.get(),
                                   address.iface_address.get());
        for (size_t i = 0; i < address.num_keys; ++i) {
            import(m_owner.channel().receive<cuda_key_message>());
        }
    }

    ~ipc_streams()
    {
        for (uct_rkey_bundle_t &key : m_keys) {
            uct_rkey_release(m_transport.component(), &key);
        }

        cudaIpcCloseMemHandle(m_first_remote);
    }

private:
    void import(const cuda_key_message &message)
    {
        uct_rkey_bundle_t key;

        check_ucx(uct_rkey_unpack(m_transport.component(),
                                  message.super.key.bytes, &key),
                  "unpack a key");
        m_keys.push_back(key);
        m_routes.push_back({m_local.address(), message.super.address,
                            key.rkey});
        if (m_first_remote == nullptr) {
            check_cuda(cudaIpcOpenMemHandle(&m_first_remote, message.handle,
                                            cudaIpcMemLazyEnablePeerAccess),
                       "cudaIpcOpenMemHandle");
        }
    }

    peer_process                   m_owner;
    cuda_buffer                    m_local;
    std::vector<uct_rkey_bundle_t> m_keys;
};

/* GPUs of which each can have a stream of its own */
int count_gpus()
{
    int count;

    check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    return std::min<int>(count, MAX_IPC_STREAMS);
}

} // namespace

std::unique_ptr<cuda_streams>
make_cuda_streams(const std::string &transport, size_t size)
{
    if (transport == "cuda_copy") {
        return std::make_unique<copy_streams>(size);
    } else if (transport == "cuda_ipc") {
        return std::make_unique<ipc_streams>(size);
    }

    throw demo::error("no CUDA transport has the name " + transport);
}

void run_cuda_owner_peer(const demo::channel &channel, size_t size)
{
    const int num_gpus = count_gpus();
    const cuda_transport transport("cuda_ipc");
    address_message address = {};
    buffer_list buffers;

    address.device_address.set(transport.device_address());
    address.iface_address.set(transport.iface_address());
    address.num_keys = num_gpus;
    channel.send(address);

    for (int gpu = 0; gpu < num_gpus; ++gpu) {
        cuda_key_message message = {};

        check_cuda(cudaSetDevice(gpu), "cudaSetDevice");
        buffers.push_back(std::make_unique<cuda_buffer>(memory_kind::device,
                                                        size));
        message.super.address = reinterpret_cast<uint64_t>(
                buffers.back()->address());
        message.super.key.set(transport.make_key(buffers.back()->address(),
                                                 size));
        check_cuda(cudaIpcGetMemHandle(&message.handle,
                                       buffers.back()->address()),
                   "cudaIpcGetMemHandle");
        channel.send(message);
    }

    channel.wait_closed();
    _exit(EXIT_SUCCESS);
}

} // namespace bench
