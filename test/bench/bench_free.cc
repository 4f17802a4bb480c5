/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "bench_free.h"
#include "bench_peer.h"
#include "bench_result.h"

#include "../apps/demo_gpu.h"

#include <hip/hip_runtime_api.h>

#include <chrono>
#include <functional>
#include <future>

namespace bench {

namespace {

using peer_list = std::vector<std::unique_ptr<peer_process>>;

peer_list start_peers(const char *role, int count)
{
    peer_list peers;

    for (int i = 0; i < count; ++i) {
        peers.push_back(std::make_unique<peer_process>(role, 0));
    }

    return peers;
}

void wait_until_mapped(const peer_list &peers)
{
    for (const auto &peer : peers) {
        peer->channel().receive<done_message>();
    }
}

void time_free(const std::function<void()> &free)
{
    const auto begin = std::chrono::steady_clock::now();

    free();
    print_result("free", std::chrono::duration<double>(
                                 std::chrono::steady_clock::now() - begin)
                                 .count());
}

/* Device memory shared by hand, as UCX does it */
class bare_buffer {
public:
    bare_buffer()
    {
        check_hip(hipMalloc(&m_address, BUFFER_SIZE), "hipMalloc");
        check_hsa(hsa_amd_ipc_memory_create(m_address, BUFFER_SIZE,
                                            &m_message.memory),
                  "hsa_amd_ipc_memory_create");
        check_hsa(hsa_amd_signal_create(1, 0, nullptr, HSA_AMD_SIGNAL_IPC,
                                        &m_signal),
                  "hsa_amd_signal_create");
        check_hsa(hsa_amd_ipc_signal_create(m_signal, &m_message.signal),
                  "hsa_amd_ipc_signal_create");
    }

    bare_buffer(const bare_buffer&)            = delete;
    bare_buffer &operator=(const bare_buffer&) = delete;

    ~bare_buffer()
    {
        hsa_signal_destroy(m_signal);
    }

    bare_message message(size_t num_more) const
    {
        bare_message result = m_message;

        result.num_more = num_more;
        return result;
    }

    void free()
    {
        hsa_signal_store_screlease(m_signal, 0);
        check_hip(hipFree(m_address), "hipFree");
    }

private:
    void         *m_address;
    hsa_signal_t m_signal;
    bare_message m_message = {};
};

} // namespace

void time_frees(int num_peers, long mappings, long samples)
{
    const peer_list peers = start_peers("importer", num_peers);
    const demo::rocm_ipc transport;

    for (long done = 0; done < samples; done += mappings) {
        std::vector<std::unique_ptr<shared_buffer>> buffers;

        for (long i = 0; i < mappings; ++i) {
            buffers.push_back(std::make_unique<shared_buffer>(transport));
        }

        for (const auto &peer : peers) {
            send_keys(peer->channel(), transport, buffers);
        }

        wait_until_mapped(peers);
        for (const auto &buffer : buffers) {
            time_free([&]() { buffer->free(); });
        }
    }
}

void time_bare_frees(int num_peers, long mappings, long samples)
{
    const peer_list peers = start_peers("bare", num_peers);

    check_hsa(hsa_init(), "hsa_init");
    for (long done = 0; done < samples; done += mappings) {
        std::vector<std::unique_ptr<bare_buffer>> buffers;

        for (long i = 0; i < mappings; ++i) {
            buffers.push_back(std::make_unique<bare_buffer>());
        }

        for (const auto &peer : peers) {
            for (long i = 0; i < mappings; ++i) {
                peer->channel().send(buffers[i]->message(mappings - 1 - i));
            }
        }

        wait_until_mapped(peers);
        for (const auto &buffer : buffers) {
            time_free([&]() { buffer->free(); });
        }
    }
}

void see_if_free_waits(double seconds)
{
    const peer_list peers = start_peers("importer", 1);
    const demo::rocm_ipc transport;
    std::vector<std::unique_ptr<shared_buffer>> buffers;

    buffers.push_back(std::make_unique<shared_buffer>(transport));
    send_keys(peers[0]->channel(), transport, buffers);
    wait_until_mapped(peers);

    const std::future<void> freed = std::async(std::launch::async, [&]() {
        buffers[0]->free();
    });
    const auto state = freed.wait_for(std::chrono::duration<double>(seconds));

    print_result("free waits", state != std::future_status::ready);
    peers[0]->kill(); /* Ends the wait */
}

} // namespace bench
