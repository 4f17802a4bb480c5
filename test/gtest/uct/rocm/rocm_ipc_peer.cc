/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>

/**
 * @file rocm_ipc_peer.cc
 * @brief A process that does what a test tells it: the owner or the importer
 *        of device memory in the tests of the ROCm IPC transport.
 *
 * A program of its own, and not a fork of the test program, since a GPU
 * runtime does not survive a fork.
 */
namespace rocm_ipc {

/** Everything that this process holds. Made by main and never destroyed: a
 *  process that is told to exit closes nothing behind the test's back. */
struct peer {
    peer_memory    memory;
    peer_transport transport;
};

static peer *self;

/**
 * Passed by each reply on its way out and by each request on its way in. What
 * the director asks for after a reply comes after whatever led to that reply,
 * on whichever lane; the processor keeps this order anyway, but a race detector
 * does not see the way through the other process.
 */
static std::mutex conversation;

static void pass_conversation()
{
    std::lock_guard<std::mutex> guard(conversation);
}

static void hello(const command &, answer &ans)
{
    ans.head.number[0] = getpid();
    ans.head.number[1] = peer_memory::num_devices();
    ans.head.number[2] = emul_get() != NULL;
}

static void close_objects(const command &cmd, answer &ans)
{
    uint64_t kinds = cmd.head.number[0];

    if (kinds & OBJECT_RKEYS) {
        self->transport.close_rkeys();
    }
    if (kinds & OBJECT_EPS) {
        self->transport.close_eps();
    }
    if (kinds & OBJECT_IFACES) {
        self->transport.close_ifaces();
    }
    if (kinds & OBJECT_COMPLETIONS) {
        self->transport.close_completions();
    }
    if (kinds & OBJECT_MEMHS) {
        self->transport.close_memhs();
    }
    if (kinds & OBJECT_MEMORY) {
        ans.head.status = self->memory.free_all();
    }
    if (kinds & OBJECT_MD) {
        self->transport.close_md();
    }
}

static void carry_out(const command &cmd, answer &ans)
{
    peer_memory &memory       = self->memory;
    peer_transport &transport = self->transport;

    switch (cmd.head.verb) {
    case VERB_HELLO:
        return hello(cmd, ans);
    case VERB_ALLOC:
        return memory.alloc(cmd, ans);
    case VERB_FREE:
        return memory.free(cmd, ans);
    case VERB_FILL:
        return memory.fill(cmd, ans);
    case VERB_CHECK:
        return memory.check(cmd, ans);
    case VERB_MD_OPEN:
        return transport.md_open(cmd, ans);
    case VERB_MD_QUERY:
        return transport.md_query(cmd, ans);
    case VERB_REG:
        return transport.reg(cmd, ans);
    case VERB_DEREG:
        return transport.dereg(cmd, ans);
    case VERB_PACK:
        return transport.pack(cmd, ans);
    case VERB_IFACE_OPEN:
        return transport.iface_open(cmd, ans);
    case VERB_IFACE_QUERY:
        return transport.iface_query(cmd, ans);
    case VERB_IFACE_ADDRESS:
        return transport.iface_address(cmd, ans);
    case VERB_IFACE_REACHABLE:
        return transport.iface_reachable(cmd, ans);
    case VERB_IFACE_FLUSH:
        return transport.iface_flush(cmd, ans);
    case VERB_EP_CREATE:
        return transport.ep_create(cmd, ans);
    case VERB_EP_DESTROY:
        return transport.ep_destroy(cmd, ans);
    case VERB_EP_PUT:
    case VERB_EP_GET:
        return transport.ep_zcopy(cmd, ans);
    case VERB_EP_FLUSH:
        return transport.ep_flush(cmd, ans);
    case VERB_UNPACK:
        return transport.unpack(cmd, ans);
    case VERB_RKEY_PTR:
        return transport.rkey_ptr(cmd, ans);
    case VERB_RKEY_RELEASE:
        return transport.rkey_release(cmd, ans);
#if UCX_HAS_ROCM_DEVICE_EP
    case VERB_DEVICE_EP:
        return transport.device_ep(cmd, ans);
    case VERB_ELEM_PACK:
        return transport.elem_pack(cmd, ans);
    case VERB_ELEM_RELEASE:
        return transport.elem_release(cmd, ans);
#endif
    case VERB_PROGRESS:
        return transport.progress(cmd, ans);
    case VERB_COMPLETION:
        return transport.completion_query(cmd, ans);
    case VERB_CLOSE:
        return close_objects(cmd, ans);
    case VERB_WORK_SHARE:
        return transport.work_share(cmd, ans);
    case VERB_WORK_IMPORT:
        return transport.work_import(cmd, ans);
    case VERB_WORK_PROGRESS:
        return transport.work_progress(cmd, ans);
    case VERB_FORK:
        return peer_process::fork(cmd, ans);
    case VERB_LIMIT_FILES:
        return peer_process::limit_files(cmd, ans);
    case VERB_REFUSE_PIDFD:
        return peer_process::refuse_pidfd(cmd, ans);
    case VERB_EMUL_COUNT:
        return peer_emulator::count(cmd, ans);
    case VERB_EMUL_CALLS:
        return peer_emulator::calls(cmd, ans);
    case VERB_EMUL_FAIL:
        return peer_emulator::fail(cmd, ans);
    case VERB_EMUL_GATE_CLOSE:
        return peer_emulator::gate_close(cmd, ans);
    case VERB_EMUL_GATE_OPEN:
        return peer_emulator::gate_open(cmd, ans);
    case VERB_EMUL_GATE_WAITERS:
        return peer_emulator::gate_waiters(cmd, ans);
    case VERB_EMUL_SET:
        return peer_emulator::set(cmd, ans);
    default:
        ans.head.status = UCS_ERR_UNSUPPORTED;
    }
}

static void send_answer(answer &ans)
{
    struct iovec iov[2];
    struct msghdr message = {};

    ans.head.length    = (uint32_t)ans.data.size();
    iov[0].iov_base    = &ans.head;
    iov[0].iov_len     = sizeof(ans.head);
    iov[1].iov_base    = (void*)ans.data.data();
    iov[1].iov_len     = ans.data.size();
    message.msg_iov    = iov;
    message.msg_iovlen = 2;

    /* A director that is gone is noticed by the thread that reads */
    while ((sendmsg(peer_socket_fd, &message, MSG_NOSIGNAL) < 0) &&
           (errno == EINTR)) {
    }
}

/** Carry out one request and send the reply. */
static void serve(const command &cmd)
{
    answer ans = {};
    std::chrono::steady_clock::time_point start;

    ans.head.id     = cmd.head.id;
    ans.head.status = UCS_OK;

    start = std::chrono::steady_clock::now();
    try {
        carry_out(cmd, ans);
    } catch (const std::exception &error) {
        fprintf(stderr, "verb %u: %s\n", cmd.head.verb, error.what());
        ans.head.status = UCS_ERR_NO_ELEM;
    }

    ans.head.elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::steady_clock::now() - start)
                                  .count();
    pass_conversation();
    send_answer(ans);
}

/** A thread that carries out requests in the order in which they came. */
class lane {
public:
    lane() : m_last(false), m_thread(&lane::run, this)
    {
    }

    /** Waits until everything is done. */
    ~lane()
    {
        {
            std::lock_guard<std::mutex> guard(m_lock);
            m_last = true;
        }

        m_changed.notify_one();
        m_thread.join();
    }

    void push(const command &cmd)
    {
        {
            std::lock_guard<std::mutex> guard(m_lock);
            m_queue.push_back(cmd);
        }

        m_changed.notify_one();
    }

private:
    bool pop(command &cmd)
    {
        std::unique_lock<std::mutex> guard(m_lock);

        m_changed.wait(guard, [this] { return m_last || !m_queue.empty(); });
        if (m_queue.empty()) {
            return false;
        }

        cmd = m_queue.front();
        m_queue.pop_front();
        return true;
    }

    void run()
    {
        command cmd;

        while (pop(cmd)) {
            serve(cmd);
        }
    }

    std::mutex              m_lock;
    std::condition_variable m_changed;
    std::deque<command>     m_queue;
    bool                    m_last;
    std::thread             m_thread; /* last: it uses all the others */
};

static bool receive(command &cmd)
{
    char bytes[sizeof(request) + max_data];
    ssize_t length;

    do {
        length = recv(peer_socket_fd, bytes, sizeof(bytes), 0);
    } while ((length < 0) && (errno == EINTR));

    if (length < (ssize_t)sizeof(request)) {
        return false;
    }

    pass_conversation();
    memcpy(&cmd.head, bytes, sizeof(request));
    cmd.data.assign(bytes + sizeof(request), length - sizeof(request));
    return cmd.data.size() == cmd.head.length;
}

/** Serve until the director says that it is enough; then all lanes have done
 *  their work. */
static void serve_all(answer &last)
{
    std::map<uint32_t, std::unique_ptr<lane>> lanes;
    command cmd;

    while (receive(cmd)) {
        if (cmd.head.verb == VERB_EXIT) {
            last.head.id = cmd.head.id;
            return;
        }

        std::unique_ptr<lane> &chosen = lanes[cmd.head.lane];
        if (!chosen) {
            chosen.reset(new lane());
        }
        chosen->push(cmd);
    }

    /* Some lane may be stuck in the runtime for ever, and nobody is left to
     * whom a tidy end would matter */
    _exit(EXIT_FAILURE);
}

} /* namespace rocm_ipc */

int main()
{
    rocm_ipc::answer last = {};

    /* Into a file, and still all there after a crash */
    setvbuf(stdout, NULL, _IOLBF, 0);
    rocm_ipc::self = new rocm_ipc::peer();
    rocm_ipc::serve_all(last);
    rocm_ipc::send_answer(last);
    return EXIT_SUCCESS;
}
