/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_ipc_protocol.h"
#include "cuda_transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>

/**
 * @file cuda_ipc_owner.cc
 * @brief The process that owns device memory in the tests of the CUDA IPC
 *        transport, and does what a test tells it.
 *
 * A program of its own, and not a fork of the test program, since the CUDA
 * driver does not survive a fork.
 */
namespace cuda_test {

class owner {
public:
    /** Carry out a request. Throws if it cannot be done. */
    void carry_out(const request &todo, reply &done, std::string &data)
    {
        switch (todo.verb) {
        case VERB_OPEN:
            return open(data);
        case VERB_ADDRESS:
            data = m_transport->address().iface;
            return;
        case VERB_ALLOC:
            return alloc(todo, done, data);
        case VERB_FREE:
            block(todo).reset();
            return;
        case VERB_FILL:
            return block(todo)->fill(todo.number[1], todo.number[2]);
        case VERB_CHECK:
            done.number[0] = block(todo)->holds(todo.number[1], todo.number[2]);
            return;
        case VERB_EXIT:
            return;
        default:
            throw failure("no such verb");
        }
    }

private:
    typedef std::unique_ptr<memory> memory_ptr;

    void open(std::string &data)
    {
        device_context(0).make_current();
        m_transport.reset(new transport("cuda_ipc", transport::config_t()));
        data = m_transport->address().device;
    }

    /* A key says which device was current when memory was registered */
    context &device_context(uint64_t device)
    {
        std::unique_ptr<context> &made = m_contexts[device];

        if (!made) {
            made.reset(new context((int)device));
        }
        return *made;
    }

    void alloc(const request &todo, reply &done, std::string &data)
    {
        memory_ptr made;

        device_context(todo.number[0]).make_current();
        made.reset(new memory(MEMORY_DEVICE, (unsigned)todo.number[1],
                              todo.number[2]));
        data           = m_transport->share(made->slot(0), made->length());
        done.number[0] = m_memory.size();
        done.number[1] = (uintptr_t)made->slot(0);
        m_memory.push_back(std::move(made));
    }

    memory_ptr &block(const request &todo)
    {
        if ((todo.number[0] >= m_memory.size()) || !m_memory[todo.number[0]]) {
            throw failure("no such memory");
        }

        return m_memory[todo.number[0]];
    }

    /* What is last goes first */
    std::map<uint64_t, std::unique_ptr<context> > m_contexts;
    std::unique_ptr<transport>                    m_transport;
    std::vector<memory_ptr>                       m_memory;
};

static bool receive(request &todo)
{
    ssize_t length;

    do {
        length = recv(owner_socket_fd, &todo, sizeof(todo), 0);
    } while ((length < 0) && (errno == EINTR));

    return length == (ssize_t)sizeof(todo);
}

static void send_reply(reply &done, std::string &data)
{
    struct iovec iov[2]   = {{&done, sizeof(done)}, {&data[0], data.size()}};
    struct msghdr message = {};

    message.msg_iov    = iov;
    message.msg_iovlen = 2;

    /* A test that is gone is noticed by the next look for a request */
    while ((sendmsg(owner_socket_fd, &message, MSG_NOSIGNAL) < 0) &&
           (errno == EINTR)) {
    }
}

/** @return Whether the test has said that it is enough. */
static bool serve(owner &self)
{
    request todo = {};

    while (receive(todo)) {
        reply done = {};
        std::string data;

        try {
            self.carry_out(todo, done, data);
            done.is_ok = 1;
        } catch (const std::exception &error) {
            data = error.what();
        }

        send_reply(done, data);
        if (todo.verb == VERB_EXIT) {
            return true;
        }
    }

    return false;
}

} /* namespace cuda_test */

int main()
{
    cuda_test::owner self;

    return cuda_test::serve(self) ? EXIT_SUCCESS : EXIT_FAILURE;
}
