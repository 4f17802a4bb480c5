/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef DEMO_CHANNEL_H_
#define DEMO_CHANNEL_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace demo {

/** What went wrong, in words for whoever runs the demo. */
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/** The process at the other end of a channel is gone. */
class peer_gone : public error {
public:
    using error::error;
};

/** How long anything may take that should take no time: only a hang is
 *  longer than this. */
constexpr std::chrono::seconds HANG_TIMEOUT{120};

/**
 * One end of a pair of connected sockets between two processes of the demo.
 * Messages are plain structs: both ends run the same program file.
 */
class channel {
public:
    /** Takes over @a fd, one end of a SOCK_SEQPACKET pair. */
    explicit channel(int fd) : m_fd(fd)
    {
    }

    channel(channel &&other) noexcept : m_fd(std::exchange(other.m_fd, -1))
    {
    }

    channel(const channel&)            = delete;
    channel &operator=(const channel&) = delete;

    ~channel()
    {
        close();
    }

    static std::pair<channel, channel> make_pair()
    {
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
            throw error(std::string("socketpair: ") + strerror(errno));
        }

        return {channel(fds[0]), channel(fds[1])};
    }

    int fd() const
    {
        return m_fd;
    }

    void close()
    {
        if (m_fd != -1) {
            ::close(m_fd);
            m_fd = -1;
        }
    }

    template<typename message> void send(const message &msg) const
    {
        static_assert(std::is_trivially_copyable_v<message>);

        if (::send(m_fd, &msg, sizeof(msg), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(sizeof(msg))) {
            throw peer_gone("the other process of the demo has ended early");
        }
    }

    /** Sleep in poll() until the next message is there, and return it. */
    template<typename message> message receive() const
    {
        static_assert(std::is_trivially_copyable_v<message>);
        message msg;

        wait_readable();
        if (recv(m_fd, &msg, sizeof(msg), 0) !=
            static_cast<ssize_t>(sizeof(msg))) {
            throw peer_gone("the other process of the demo has ended early");
        }

        return msg;
    }

    /** Sleep in poll() until the other end is closed, by exit for example. */
    void wait_closed() const
    {
        char byte;

        wait_readable();
        if (recv(m_fd, &byte, sizeof(byte), 0) > 0) {
            throw error("unexpected message from the other process");
        }
    }

private:
    void wait_readable() const
    {
        const std::chrono::milliseconds timeout = HANG_TIMEOUT;
        pollfd event                            = {m_fd, POLLIN, 0};
        int ret;

        do {
            ret = poll(&event, 1, timeout.count());
        } while ((ret == -1) && (errno == EINTR));

        if (ret != 1) {
            throw error("the other process of the demo does not answer");
        }
    }

    int m_fd;
};

} // namespace demo

#endif
