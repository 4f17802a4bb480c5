/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "bench_peer.h"

#include "../apps/demo_gpu.h"

#include <hip/hip_runtime_api.h>

#include <unistd.h>

#include <cstdlib>

namespace bench {

void check_hsa(hsa_status_t status, const char *call)
{
    if (status != HSA_STATUS_SUCCESS) {
        throw demo::error(std::string(call) + " failed: " +
                          std::to_string(status));
    }
}

void check_hip(int status, const char *call)
{
    if (status != hipSuccess) {
        throw demo::error(std::string(call) + " failed: " +
                          hipGetErrorString(static_cast<hipError_t>(status)));
    }
}

shared_buffer::shared_buffer(const demo::rocm_ipc &transport) :
    m_transport(transport)
{
    check_hip(hipMalloc(&m_address, BUFFER_SIZE), "hipMalloc");
    m_memory = transport.register_memory(m_address, BUFFER_SIZE);
}

shared_buffer::~shared_buffer()
{
    if (m_memory != nullptr) {
        m_transport.deregister(m_memory);
    }

    static_cast<void>(hipFree(m_address));
}

key_message shared_buffer::key() const
{
    key_message message = {};

    message.address = reinterpret_cast<uint64_t>(m_address);
    message.key.set(m_transport.pack_key(m_memory));
    return message;
}

void shared_buffer::free()
{
    if (m_memory != nullptr) {
        m_transport.deregister(m_memory);
        m_memory = nullptr;
    }

    check_hip(hipFree(std::exchange(m_address, nullptr)), "hipFree");
}

void send_keys(const demo::channel &peer, const demo::rocm_ipc &transport,
               const std::vector<std::unique_ptr<shared_buffer>> &buffers)
{
    address_message message = {};

    message.device_address.set(transport.device_address());
    message.iface_address.set(transport.iface_address());
    message.num_keys = buffers.size();
    peer.send(message);
    for (const auto &buffer : buffers) {
        peer.send(buffer->key());
    }
}

completion::completion()
{
    super.count  = 1;
    super.status = UCS_OK;
    super.func   = [](uct_completion_t *comp) {
        reinterpret_cast<completion*>(comp)->done = true;
    };
}

void completion::wait(const demo::rocm_ipc &transport, ucs_status_t status)
{
    while ((status == UCS_INPROGRESS) && !done) {
        uct_worker_progress(transport.worker());
    }

    if (status == UCS_INPROGRESS) {
        status = super.status;
    }

    if (status != UCS_OK) {
        throw demo::error(std::string("copy failed: ") +
                          ucs_status_string(status));
    }
}

imported::imported(const demo::channel &owner,
                   const demo::rocm_ipc &transport) : m_transport(transport)
{
    const auto message                = owner.receive<address_message>();
    const std::string device_address = message.device_address.get();
    const std::string iface_address  = message.iface_address.get();
    uct_ep_params_t params           = {};

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = transport.iface();
    params.dev_addr   = reinterpret_cast<const uct_device_addr_t*>(
            device_address.data());
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(
            iface_address.data());
    if (uct_ep_create(&params, &m_ep) != UCS_OK) {
        throw demo::error("cannot connect to the owner");
    }

    for (size_t i = 0; i < message.num_keys; ++i) {
        const auto packed = owner.receive<key_message>();
        key unpacked      = {packed.address, {}};

        if (uct_rkey_unpack(transport.component(), packed.key.bytes,
                            &unpacked.rkey) != UCS_OK) {
            throw demo::error("cannot unpack a key");
        }
        m_keys.push_back(unpacked);
    }
}

imported::~imported()
{
    for (key &unpacked : m_keys) {
        uct_rkey_release(m_transport.component(), &unpacked.rkey);
    }

    uct_ep_destroy(m_ep);
}

static uct_iov_t make_iov(void *local)
{
    uct_iov_t iov = {};

    iov.buffer = local;
    iov.length = BUFFER_SIZE;
    iov.memh   = UCT_MEM_HANDLE_NULL;
    iov.count  = 1;
    return iov;
}

ucs_status_t
imported::put(size_t index, void *local, uct_completion_t *comp) const
{
    const uct_iov_t iov = make_iov(local);

    return uct_ep_put_zcopy(m_ep, &iov, 1, m_keys[index].address,
                            m_keys[index].rkey.rkey, comp);
}

ucs_status_t
imported::get(size_t index, void *local, uct_completion_t *comp) const
{
    const uct_iov_t iov = make_iov(local);

    return uct_ep_get_zcopy(m_ep, &iov, 1, m_keys[index].address,
                            m_keys[index].rkey.rkey, comp);
}

void imported::map_all(void *local) const
{
    for (size_t i = 0; i < m_keys.size(); ++i) {
        completion comp;

        comp.wait(m_transport, get(i, local, &comp.super));
    }
}

void run_owner_peer(const demo::channel &channel, size_t count)
{
    demo::open_gpu();

    const demo::rocm_ipc transport;
    std::vector<std::unique_ptr<shared_buffer>> buffers;

    for (size_t i = 0; i < count; ++i) {
        buffers.push_back(std::make_unique<shared_buffer>(transport));
    }

    try {
        for (;;) {
            send_keys(channel, transport, buffers);
            channel.receive<done_message>();
        }
    } catch (const demo::peer_gone&) {
        /* A free might wait for the other process, which waits for this one */
        _exit(EXIT_SUCCESS);
    }
}

void run_importer_peer(const demo::channel &channel)
{
    demo::open_gpu();

    const demo::rocm_ipc transport;
    const demo::gpu_buffer local(BUFFER_SIZE);
    std::unique_ptr<imported> memory;

    for (;;) {
        memory = std::make_unique<imported>(channel, transport);
        memory->map_all(local.address());
        channel.send(done_message{});
    }
}

namespace {

struct bare_mapping {
    void         *address;
    hsa_signal_t signal;
};

bool detach_bare(hsa_signal_value_t, void *arg)
{
    const std::unique_ptr<bare_mapping> mapping(
            static_cast<bare_mapping*>(arg));

    hsa_amd_ipc_memory_detach(mapping->address);
    hsa_signal_destroy(mapping->signal);
    return false;
}

void attach_bare(const bare_message &message)
{
    auto mapping = std::make_unique<bare_mapping>();

    check_hsa(hsa_amd_ipc_signal_attach(&message.signal, &mapping->signal),
              "hsa_amd_ipc_signal_attach");
    check_hsa(hsa_amd_ipc_memory_attach(&message.memory, BUFFER_SIZE, 0,
                                        nullptr, &mapping->address),
              "hsa_amd_ipc_memory_attach");
    check_hsa(hsa_amd_signal_async_handler(mapping->signal,
                                           HSA_SIGNAL_CONDITION_LT, 1,
                                           detach_bare, mapping.get()),
              "hsa_amd_signal_async_handler");
    mapping.release(); /* The handler's */
}

} // namespace

void run_bare_peer(const demo::channel &channel)
{
    demo::open_gpu();
    check_hsa(hsa_init(), "hsa_init");

    for (;;) {
        const auto message = channel.receive<bare_message>();

        attach_bare(message);
        if (message.num_more == 0) {
            channel.send(done_message{});
        }
    }
}

} // namespace bench
