/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "fuzz_peer.h"

#include "../apps/demo_gpu.h"
#include "../apps/demo_uct.h"

#include <hip/hip_runtime_api.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

namespace fuzz {

namespace {

constexpr char FD_VARIABLE[]         = "FUZZ_PEER_FD";
constexpr char INVALIDATE_VARIABLE[] = "UCX_ROCM_IPC_SIGNAL_INVALIDATE";

/* A string of bytes in a message */
struct blob {
    size_t length;
    char   bytes[256];

    void set(const std::string &text)
    {
        if (text.size() > sizeof(bytes)) {
            throw demo::error("an address or key is longer than expected");
        }

        length = text.size();
        memcpy(bytes, text.data(), length);
    }

    std::string get() const
    {
        return std::string(bytes, length);
    }
};

struct address_message {
    blob device_address;
    blob iface_address;
    int  num_keys;
};

struct key_message {
    blob    key;
    fate    end;
    uint8_t content;
};

/* One key, from its allocation on */
key_message export_memory(const demo::rocm_ipc &transport, size_t size,
                          fate end, uint8_t content)
{
    demo::gpu_buffer buffer(size);
    key_message message = {};

    if (hipMemset(buffer.address(), content, size) != hipSuccess) {
        throw demo::error("hipMemset failed");
    }

    const uct_mem_h memory = transport.register_memory(buffer.address(), size);

    message.key.set(transport.pack_key(memory));
    message.end     = end;
    message.content = content;
    transport.deregister(memory);

    void *const address = buffer.release();
    if ((end == fate::freed) && (hipFree(address) != hipSuccess)) {
        throw demo::error("hipFree failed");
    }

    return message;
}

} // namespace

bool is_peer()
{
    return getenv(FD_VARIABLE) != nullptr;
}

void peer_main()
{
    const demo::channel parent(atoi(getenv(FD_VARIABLE)));

    try {
        demo::open_gpu();

        const demo::rocm_ipc transport;
        const key_message keys[] = {
            export_memory(transport, 4096, fate::alive, 0x11),
            export_memory(transport, 3 * 65536, fate::alive, 0x22),
            export_memory(transport, 8192, fate::freed, 0x33),
        };
        address_message address = {};

        address.device_address.set(transport.device_address());
        address.iface_address.set(transport.iface_address());
        address.num_keys = std::size(keys);
        parent.send(address);
        for (const key_message &key : keys) {
            parent.send(key);
        }

        /* Exits with the other one, however that ends and whenever */
        char byte;
        while ((read(parent.fd(), &byte, 1) == -1) && (errno == EINTR)) {
        }
    } catch (const std::exception &e) {
        fprintf(stderr, "peer: %s\n", e.what());
    }

    /* Nothing here is to be tidied up */
    _exit(EXIT_SUCCESS);
}

peer::peer(bool invalidate)
{
    auto [ours, theirs] = demo::channel::make_pair();

    m_pid = fork();
    if (m_pid == -1) {
        throw demo::error(std::string("fork: ") + strerror(errno));
    } else if (m_pid == 0) {
        /* Before any thread was started, so that all functions may be used */
        fcntl(theirs.fd(), F_SETFD, 0);
        setenv(FD_VARIABLE, std::to_string(theirs.fd()).c_str(), 1);
        setenv(INVALIDATE_VARIABLE, invalidate ? "y" : "n", 1);
        execl("/proc/self/exe", "fuzz-peer", nullptr);
        _exit(EXIT_FAILURE);
    }

    theirs.close();
    receive_keys(ours);
    m_channel = std::make_unique<demo::channel>(std::move(ours));
}

peer::~peer()
{
    m_channel.reset();
    if (m_pid != -1) {
        waitpid(m_pid, nullptr, 0);
    }
}

void peer::kill()
{
    ::kill(m_pid, SIGKILL);
    waitpid(m_pid, nullptr, 0);
    m_pid = -1;

    for (live_key &key : m_keys) {
        key.end = fate::owner_killed;
    }
}

void peer::receive_keys(const demo::channel &channel)
{
    const auto address = channel.receive<address_message>();

    m_device_address = address.device_address.get();
    m_iface_address  = address.iface_address.get();
    for (int i = 0; i < address.num_keys; ++i) {
        const auto key = channel.receive<key_message>();

        m_keys.push_back({key.key.get(), key.end, key.content});
    }
}

} // namespace fuzz
