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

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace {

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

peer::peer(environment_list environment)
{
    begin(environment);
}

peer::peer(namespace_tag, environment_list environment)
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

void peer::begin(environment_list environment)
{
    m_child.emplace(environment);
    ask(verb::ready);
}

peer::~peer()
{
    if (!m_child->ended()) {
        exit();
    }
}

void peer::start(verb what, uint64_t first, uint64_t second,
                 const uint32_t *bytes)
{
    request r = {what, first, second, {}};

    if (bytes != nullptr) {
        memcpy(r.bytes, bytes, sizeof(r.bytes));
    }
    m_child->send(&r, sizeof(r));
}

reply peer::finish()
{
    reply answer;

    if (!m_child->receive(&answer, sizeof(answer))) {
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

int peer::exit(int status)
{
    start(verb::exit, status);
    return m_child->wait_for_end();
}

int peer_main(int socket)
{
    request r;
    reply answer;

    fcntl(socket, F_SETFD, FD_CLOEXEC);
    while (child_receive(socket, &r, sizeof(r))) {
        answer = perform(r);
        if (!child_send(socket, &answer, sizeof(answer))) {
            break;
        }
    }
    return 0;
}
