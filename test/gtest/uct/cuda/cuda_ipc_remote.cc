/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_ipc_remote.h"

#include <common/test_helpers.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cuda_test {

double time_limit()
{
    return 30.0 * ucs::test_time_multiplier();
}

/** The program lies beside the test program: both are built together. */
static std::string owner_program()
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
    std::string self(path, (length > 0) ? length : 0);

    return self.substr(0, self.rfind('/') + 1) + "cuda_ipc_owner";
}

remote_owner::remote_owner() : m_pid(-1), m_socket(-1)
{
    start();
    try {
        call(VERB_OPEN, {}, m_address.device);
        call(VERB_ADDRESS, {}, m_address.iface);
    } catch (const failure &) {
        kill();
        close(m_socket);
        throw;
    }
}

remote_owner::~remote_owner()
{
    kill();
    close(m_socket);
}

void remote_owner::start()
{
    std::string program = owner_program();
    char *argv[]        = {&program[0], NULL};
    posix_spawn_file_actions_t actions;
    int sockets[2];
    int ret;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        throw failure(std::string("socketpair: ") + strerror(errno));
    }

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sockets[1], owner_socket_fd);
    ret = posix_spawn(&m_pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(sockets[1]);
    m_socket = sockets[0];
    if (ret != 0) {
        m_pid = -1;
        close(m_socket);
        throw failure(program + ": " + strerror(ret));
    }
}

reply remote_owner::call(verb_t verb, const std::vector<uint64_t> &numbers,
                         std::string &data)
{
    char bytes[sizeof(reply) + max_data];
    request todo      = {};
    struct pollfd pfd = {m_socket, POLLIN, 0};
    ssize_t length;
    reply done;

    todo.verb = verb;
    std::copy(numbers.begin(), numbers.end(), todo.number);
    if (send(m_socket, &todo, sizeof(todo), MSG_NOSIGNAL) < 0) {
        throw failure(std::string("the owner is gone: ") + strerror(errno));
    }

    if (poll(&pfd, 1, (int)(time_limit() * 1e3)) != 1) {
        throw failure("the owner does not reply to verb " +
                      ucs::to_string(verb));
    }

    length = recv(m_socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (length < (ssize_t)sizeof(done)) {
        throw failure("the owner has died");
    }

    memcpy(&done, bytes, sizeof(done));
    data.assign(bytes + sizeof(done), length - sizeof(done));
    if (!done.is_ok) {
        throw failure("owner: " + data);
    }

    return done;
}

reply remote_owner::call(verb_t verb, const std::vector<uint64_t> &numbers)
{
    std::string data;

    return call(verb, numbers, data);
}

remote_memory
remote_owner::alloc(int device, unsigned num_slots, size_t slot_length)
{
    remote_memory mem;
    reply done = call(VERB_ALLOC, {(uint64_t)device, num_slots, slot_length},
                      mem.key);

    mem.id          = done.number[0];
    mem.address     = done.number[1];
    mem.slot_length = slot_length;
    return mem;
}

void remote_owner::free(const remote_memory &mem)
{
    call(VERB_FREE, {mem.id});
}

void remote_owner::fill(const remote_memory &mem, unsigned slot, uint64_t seed)
{
    call(VERB_FILL, {mem.id, slot, seed});
}

bool remote_owner::holds(const remote_memory &mem, unsigned slot, uint64_t seed)
{
    return call(VERB_CHECK, {mem.id, slot, seed}).number[0] != 0;
}

/** @return How it ended, as waitpid() says. */
int remote_owner::reap()
{
    int exit_status = -1;

    waitpid(m_pid, &exit_status, 0);
    m_pid = -1;
    return exit_status;
}

void remote_owner::quit()
{
    struct pollfd pfd = {m_socket, POLLIN, 0};
    int exit_status;

    call(VERB_EXIT, {});
    if (poll(&pfd, 1, (int)(time_limit() * 1e3)) != 1) {
        throw failure("the owner does not exit");
    }

    exit_status = reap();
    if (exit_status != 0) {
        throw failure("owner: " + ucs::exit_status_info(exit_status));
    }
}

void remote_owner::kill()
{
    if (m_pid != -1) {
        ::kill(m_pid, SIGKILL);
        reap();
    }
}

} /* namespace cuda_test */
