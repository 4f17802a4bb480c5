/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "demo_roles.h"
#include "demo_channel.h"
#include "demo_gpu.h"
#include "demo_maps.h"
#include "demo_uct.h"

#include <hip/hip_runtime_api.h>

#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <thread>

namespace demo {

namespace {

using monotonic = std::chrono::steady_clock;

constexpr std::chrono::seconds RESULT_TIME{RESULT_SECONDS};

constexpr size_t MAX_ADDRESS = 256; /* Bytes of a UCX address or key */

/* A string of bytes in a message */
struct blob {
    size_t length;
    char   bytes[MAX_ADDRESS];

    void set(const std::string &text)
    {
        if (text.size() > sizeof(bytes)) {
            throw error("an address or key of UCX is longer than expected");
        }

        length = text.size();
        memcpy(bytes, text.data(), length);
    }

    std::string get() const
    {
        return std::string(bytes, length);
    }
};

/* Importer to owner: has its memory and UCX ready; nothing mapped yet */
struct ready_message {
    pid_t pid;
};

/* Owner to importer: the buffer and all that is needed to map it */
struct offer_message {
    uint64_t address;
    uint64_t seed; /* Of the pattern in the buffer */
    blob     device_address;
    blob     iface_address;
    blob     key;
};

/* Importer to owner: the whole buffer was mapped and read */
struct imported_message {
    uint64_t bytes_right;
};

/* Owner to importer: the result is taken, exit */
struct finish_message {
    bool unused;
};

template<size_t size> void copy_text(char (&dest)[size], const std::string &src)
{
    const size_t length = std::min(src.size(), size - 1);

    memcpy(dest, src.data(), length);
    dest[length] = '\0';
}

report describe_surroundings()
{
    report result = {};

    copy_text(result.module_path, loaded_library("libuct_rocm.so"));
    copy_text(result.hip_path, loaded_library("libamdhip64.so"));
    copy_text(result.device_name, gpu_name());
    result.emulated = gpu_is_emulated();
    return result;
}

/* Look again and again, until the condition is true or the time is over */
bool wait_until(monotonic::time_point deadline,
                const std::function<bool()> &condition)
{
    static const timespec pause = {0, 100000}; /* Nanoseconds: 0.1 ms */

    while (!condition()) {
        if (monotonic::now() >= deadline) {
            return false;
        }

        nanosleep(&pause, nullptr);
    }

    return true;
}

/*
 * A call that may block, made by a thread of its own. That thread outlives this
 * object if the call never returns; then only the end of the process ends it.
 */
template<typename value> class background_call {
public:
    template<typename function> explicit background_call(function call)
    {
        std::packaged_task<value()> task(call);

        m_result = task.get_future().share();
        std::thread(std::move(task)).detach();
    }

    bool finished_by(monotonic::time_point deadline) const
    {
        return m_result.wait_until(deadline) == std::future_status::ready;
    }

    /* Value of a call that has finished; throws what it threw */
    value get() const
    {
        return m_result.get();
    }

private:
    std::shared_future<value> m_result;
};

struct free_result {
    hipError_t status;
    double     seconds;
};

free_result timed_free(void *address)
{
    const auto start        = monotonic::now();
    const hipError_t status = hipFree(address);

    return {status,
            std::chrono::duration<double>(monotonic::now() - start).count()};
}

/* The owner's part of a run, step by step */
class owner {
public:
    owner(int peer_fd, size_t size) :
        m_peer(peer_fd), m_buffer(size), m_seed(std::random_device()())
    {
        m_report             = describe_surroundings();
        m_report.buffer_size = size;
    }

    report run()
    {
        m_buffer.fill(m_seed);
        share_buffer();
        free_buffer();
        let_peer_exit();
        return m_report;
    }

private:
    void share_buffer()
    {
        const auto ready  = m_peer.receive<ready_message>();
        const auto before = gpu_mappings(ready.pid);

        m_memory = m_transport.register_memory(m_buffer.address(),
                                               m_buffer.size());
        m_peer.send(make_offer());

        const auto imported = m_peer.receive<imported_message>();

        m_peer_pid              = ready.pid;
        m_mapped                = new_mappings(before, gpu_mappings(ready.pid),
                                               m_buffer.size());
        m_report.mappings_made  = m_mapped.size();
        m_report.bytes_verified = imported.bytes_right;
        m_report.data_right     = imported.bytes_right == m_buffer.size();
    }

    offer_message make_offer() const
    {
        offer_message offer = {};

        offer.address = reinterpret_cast<uint64_t>(m_buffer.address());
        offer.seed    = m_seed;
        offer.device_address.set(m_transport.device_address());
        offer.iface_address.set(m_transport.iface_address());
        offer.key.set(m_transport.pack_key(m_memory));
        return offer;
    }

    /* The peer is now asleep in poll(); it will not call UCX by itself */
    void free_buffer()
    {
        m_transport.deregister(m_memory);

        const size_t size        = m_buffer.size();
        const size_t free_before = free_device_memory();
        const auto deadline      = monotonic::now() + RESULT_TIME;
        void *const address      = m_buffer.release();

        m_free.emplace([address]() { return timed_free(address); });
        m_report.free_finished = m_free->finished_by(deadline);
        if (m_report.free_finished) {
            take_free_result();
            /* It may return before the peer has let go of the memory */
            wait_until(deadline, [&]() {
                return (count_present(m_peer_pid, m_mapped) == 0) &&
                       (free_device_memory() >= free_before + size);
            });
        }

        m_report.mappings_left = count_present(m_peer_pid, m_mapped);
        take_free_memory(free_before);
    }

    /* In the background, because a runtime may let this question wait for the
     * free that it is about */
    void take_free_memory(size_t free_before)
    {
        background_call<size_t> question(free_device_memory);

        m_report.free_bytes_known =
                question.finished_by(monotonic::now() + QUESTION_TIME);
        if (m_report.free_bytes_known) {
            m_report.bytes_given_back =
                    static_cast<int64_t>(question.get()) -
                    static_cast<int64_t>(free_before);
        }
    }

    void take_free_result()
    {
        const free_result result = m_free->get();

        m_report.free_seconds = result.seconds;
        m_report.free_failed  = result.status != hipSuccess;
    }

    void let_peer_exit()
    {
        m_peer.send(finish_message{});
        m_peer.wait_closed();

        if (!m_report.free_finished &&
            m_free->finished_by(monotonic::now() + HANG_TIMEOUT)) {
            m_report.ended_after_peer_exit = true;
            take_free_result();
        }
    }

    /* More than a runtime needs to tell how much memory is free */
    static constexpr std::chrono::milliseconds QUESTION_TIME{500};

    channel                                     m_peer;
    rocm_ipc                                    m_transport;
    gpu_buffer                                  m_buffer;
    const uint64_t                              m_seed;
    uct_mem_h                                   m_memory   = nullptr;
    pid_t                                       m_peer_pid = 0;
    std::set<mapping>                           m_mapped;
    std::optional<background_call<free_result>> m_free;
    report                                      m_report;
};

report run_import(const channel &peer, size_t size)
{
    rocm_ipc transport;
    gpu_buffer copy(size);
    report result = describe_surroundings();

    copy.fill(0); /* So that nothing but the owner's bytes can look right */
    peer.send(ready_message{getpid()});

    const auto offer = peer.receive<offer_message>();
    remote_memory remote(transport, offer.device_address.get(),
                         offer.iface_address.get(), offer.key.get());

    remote.get(copy.address(), offer.address, size);
    result.bytes_verified = copy.count_right(offer.seed);
    result.data_right     = result.bytes_verified == size;
    peer.send(imported_message{result.bytes_verified});

    /* Alive and idle: asleep in poll(), not a single call into UCX */
    peer.receive<finish_message>();
    return result;
}

/* Runs a role and reports how it went */
int run_role(int parent_fd, const std::function<report()> &role)
{
    channel parent(parent_fd);
    report result = {};

    try {
        open_gpu();
        result = role();
    } catch (const std::exception &e) {
        result           = {};
        result.failed    = true;
        result.lost_peer = dynamic_cast<const peer_gone*>(&e) != nullptr;
        copy_text(result.failure, e.what());
    }

    parent.send(result);
    return result.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

} // namespace

int run_owner(int peer_fd, int parent_fd, size_t size)
{
    return run_role(parent_fd, [=]() {
        return owner(peer_fd, size).run();
    });
}

int run_importer(int peer_fd, int parent_fd, size_t size)
{
    channel peer(peer_fd);

    return run_role(parent_fd, [&]() { return run_import(peer, size); });
}

} // namespace demo
