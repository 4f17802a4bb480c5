/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "peer.h"

#include "hsa_objects.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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

template<typename type> bool receive(int socket, type *message)
{
    return recv(socket, message, sizeof(*message), MSG_WAITALL) ==
           ssize_t(sizeof(*message));
}

/* A peer that died is not this process's end */
template<typename type> bool transmit(int socket, const type &message)
{
    return ::send(socket, &message, sizeof(message), MSG_NOSIGNAL) ==
           ssize_t(sizeof(message));
}

std::atomic<uint64_t> handler_calls;

bool count_call(hsa_signal_value_t, void *)
{
    ++handler_calls;
    return false;
}

/* To be killed in the middle of anything */
[[noreturn]] void churn()
{
    hsa_amd_memory_pool_t pool = gpu_pool(0);
    hsa_amd_ipc_memory_t memory;
    hsa_signal_t shared, again;
    hsa_amd_ipc_signal_t handle;
    void *pointer, *mapped;

    for (;;) {
        hsa_amd_memory_pool_allocate(pool, 4096, 0, &pointer);
        hsa_amd_ipc_memory_create(pointer, 4096, &memory);
        hsa_amd_ipc_memory_attach(&memory, 4096, 0, nullptr, &mapped);
        hsa_amd_signal_create(1, 0, nullptr, HSA_AMD_SIGNAL_IPC, &shared);
        hsa_amd_ipc_signal_create(shared, &handle);
        hsa_amd_ipc_signal_attach(&handle, &again);
        hsa_signal_destroy(again);
        hsa_signal_destroy(shared);
        hsa_amd_ipc_memory_detach(mapped);
        hsa_amd_memory_pool_free(pointer);
    }
}

reply perform(const request &r)
{
    reply answer       = {};
    hsa_signal_t local = {r.first};
    void *pointer      = (void*)r.first;

    switch (r.what) {
    case verb::ready:
        answer.status = hsa_init();
        break;
    case verb::own_pid:
        answer.value = getpid();
        break;
    case verb::allocate:
        answer.status = hsa_amd_memory_pool_allocate(gpu_pool(0), r.first, 0,
                                                     &pointer);
        answer.value  = uintptr_t(pointer);
        break;
    case verb::free:
        answer.status = hsa_amd_memory_pool_free(pointer);
        break;
    case verb::free_in_thread:
        std::thread(hsa_amd_memory_pool_free, pointer).detach();
        break;
    case verb::export_memory:
        answer.status = hsa_amd_ipc_memory_create(
                pointer, r.second, (hsa_amd_ipc_memory_t*)answer.bytes);
        break;
    case verb::attach:
        answer.status = hsa_amd_ipc_memory_attach(
                (hsa_amd_ipc_memory_t*)r.bytes, r.first, 0, nullptr, &pointer);
        answer.value  = uintptr_t(pointer);
        break;
    case verb::detach:
        answer.status = hsa_amd_ipc_memory_detach(pointer);
        break;
    case verb::read:
        answer.value = *(volatile uint64_t*)pointer;
        break;
    case verb::write:
        *(volatile uint64_t*)pointer = r.second;
        break;
    case verb::signal_create:
        answer.status = hsa_signal_create(r.first, 0, nullptr, &local);
        answer.value  = local.handle;
        break;
    case verb::ipc_create:
        answer.status = hsa_amd_signal_create(r.first, 0, nullptr,
                                              HSA_AMD_SIGNAL_IPC, &local);
        answer.value  = local.handle;
        if (answer.ok()) {
            answer.status = hsa_amd_ipc_signal_create(
                    local, (hsa_amd_ipc_signal_t*)answer.bytes);
        }
        break;
    case verb::ipc_attach:
        answer.status = hsa_amd_ipc_signal_attach(
                (hsa_amd_ipc_signal_t*)r.bytes, &local);
        answer.value  = local.handle;
        break;
    case verb::signal_load:
        answer.value = hsa_signal_load_scacquire(local);
        break;
    case verb::signal_store:
        hsa_signal_store_screlease(local, r.second);
        break;
    case verb::signal_wait:
        answer.value = hsa_signal_wait_scacquire(
                local, HSA_SIGNAL_CONDITION_EQ, r.second, UINT64_MAX,
                HSA_WAIT_STATE_BLOCKED);
        break;
    case verb::signal_destroy:
        answer.status = hsa_signal_destroy(local);
        break;
    case verb::arm:
        answer.status = hsa_amd_signal_async_handler(
                local, HSA_SIGNAL_CONDITION_EQ, r.second, count_call, nullptr);
        break;
    case verb::handler_calls:
        answer.value = handler_calls;
        break;
    case verb::churn:
        churn();
    case verb::shut_down:
        answer.status = hsa_shut_down();
        break;
    case verb::exit:
        exit(int(r.first));
    }
    return answer;
}

} // namespace

peer::peer(std::initializer_list<std::string> environment)
{
    begin(environment);
}

peer::peer(namespace_tag, std::initializer_list<std::string> environment)
{
    int own = open("/proc/self/ns/pid_for_children", O_RDONLY | O_CLOEXEC);

    /* only children are affected, and only until it is set back */
    if ((own < 0) || (unshare(CLONE_NEWPID) != 0)) {
        throw std::runtime_error("cannot make a PID namespace");
    }
    begin(environment);
    if (setns(own, CLONE_NEWPID) != 0) {
        throw std::runtime_error("cannot leave a PID namespace");
    }
    close(own);
}

void peer::begin(std::initializer_list<std::string> environment)
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
    ask(verb::ready);
}

peer::~peer()
{
    if (m_pid > 0) {
        exit();
    }
    close(m_socket);
    close(m_stderr);
}

void peer::start(verb what, uint64_t first, uint64_t second,
                 const uint32_t *bytes)
{
    request r = {what, first, second, {}};

    if (bytes != nullptr) {
        memcpy(r.bytes, bytes, sizeof(r.bytes));
    }
    transmit(m_socket, r);
}

reply peer::finish()
{
    reply answer;

    if (!receive(m_socket, &answer)) {
        answer        = {};
        answer.status = HSA_STATUS_ERROR_FATAL; /* it has died */
    }
    return answer;
}

reply peer::ask(verb what, uint64_t first, uint64_t second,
                const uint32_t *bytes)
{
    start(what, first, second, bytes);
    return finish();
}

bool peer::finished() const
{
    pollfd descriptor = {m_socket, POLLIN, 0};

    return poll(&descriptor, 1, 0) > 0;
}

int peer::wait_for_end()
{
    int status;

    /* first its last words, or a full pipe would keep it from ending */
    m_errors = read_all(m_stderr);
    while ((waitpid(m_pid, &status, 0) < 0) && (errno == EINTR)) {
    }
    m_pid = -1;
    return status;
}

void peer::kill()
{
    ::kill(m_pid, SIGKILL);
    wait_for_end();
}

int peer::exit(int status)
{
    start(verb::exit, status);
    return wait_for_end();
}

int peer_main(int socket)
{
    request r;
    reply answer;

    fcntl(socket, F_SETFD, FD_CLOEXEC);
    while (receive(socket, &r)) {
        answer = perform(r);
        if (!transmit(socket, answer)) {
            break;
        }
    }
    return 0;
}

int run_program(std::initializer_list<std::string> arguments,
                std::initializer_list<std::string> environment,
                std::string *output_p)
{
    int output[2];
    int status;
    pid_t pid;

    if (pipe2(output, O_CLOEXEC) != 0) {
        throw std::runtime_error("no descriptors for a program");
    }

    pid = spawn(arguments, environment, output[1], output[1]);
    close(output[1]);
    *output_p = read_all(output[0]);
    close(output[0]);
    while ((waitpid(pid, &status, 0) < 0) && (errno == EINTR)) {
    }
    return status;
}

void test_nap()
{
    timespec nap = {0, 1000000};

    nanosleep(&nap, nullptr);
}
