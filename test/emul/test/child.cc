/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "child.h"

#include <cerrno>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

namespace {

/* By exec, with the two descriptors at the numbers that the child expects */
pid_t spawn(const std::vector<std::string> &arguments,
            const std::vector<std::string> &environment, int out, int error)
{
    std::vector<char*> argv, envp;
    posix_spawn_file_actions_t actions;
    pid_t pid;

    for (auto &argument : arguments) {
        argv.push_back((char*)argument.c_str());
    }
    argv.push_back(nullptr);

    for (auto &variable : environment) {
        envp.push_back((char*)variable.c_str());
    }
    for (char **variable = environ; *variable != nullptr; ++variable) {
        envp.push_back(*variable);
    }
    envp.push_back(nullptr);

    posix_spawn_file_actions_init(&actions);
    if (out >= 0) {
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    }
    posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
    if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(),
                    envp.data()) != 0) {
        throw std::runtime_error("cannot start " + arguments[0]);
    }
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

std::string read_all(int fd)
{
    std::string text;
    char buffer[4096];
    ssize_t length;

    while ((length = read(fd, buffer, sizeof(buffer))) > 0) {
        text.append(buffer, length);
    }
    return text;
}

int wait_for(pid_t pid)
{
    int status;

    while ((waitpid(pid, &status, 0) < 0) && (errno == EINTR)) {
    }
    return status;
}

} // namespace

child::child(environment_list environment)
{
    int sockets[2];
    int errors[2];

    if ((socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) ||
        (pipe2(errors, O_CLOEXEC) != 0)) {
        throw std::runtime_error("no descriptors for a peer");
    }
    fcntl(sockets[0], F_SETFD, FD_CLOEXEC);

    m_socket = sockets[0];
    m_stderr = errors[0];
    m_pid    = spawn({"/proc/self/exe", "--peer", std::to_string(sockets[1])},
                     environment, -1, errors[1]);
    close(sockets[1]);
    close(errors[1]);
}

child::~child()
{
    close(m_socket);
    close(m_stderr);
}

void child::send(const void *message, size_t size)
{
    child_send(m_socket, message, size);
}

bool child::receive(void *message, size_t size)
{
    return child_receive(m_socket, message, size);
}

bool child::has_sent() const
{
    pollfd descriptor = {m_socket, POLLIN, 0};

    return poll(&descriptor, 1, 0) > 0;
}

int child::wait_for_end()
{
    int status;

    /* first its last words, or a full pipe would keep it from ending */
    m_errors = read_all(m_stderr);
    status   = wait_for(m_pid);
    m_pid    = -1;
    return status;
}

void child::kill()
{
    ::kill(m_pid, SIGKILL);
    wait_for_end();
}

bool child_receive(int socket, void *message, size_t size)
{
    return recv(socket, message, size, MSG_WAITALL) == ssize_t(size);
}

/* One that died is not this process's end */
bool child_send(int socket, const void *message, size_t size)
{
    return send(socket, message, size, MSG_NOSIGNAL) == ssize_t(size);
}

int run_program(std::initializer_list<std::string> arguments,
                environment_list environment, std::string *output_p)
{
    int output[2];
    pid_t pid;

    if (pipe2(output, O_CLOEXEC) != 0) {
        throw std::runtime_error("no descriptors for a program");
    }

    pid = spawn(arguments, environment, output[1], output[1]);
    close(output[1]);
    *output_p = read_all(output[0]);
    close(output[0]);
    return wait_for(pid);
}

void test_nap()
{
    timespec nap = {0, 1000000};

    nanosleep(&nap, nullptr);
}
