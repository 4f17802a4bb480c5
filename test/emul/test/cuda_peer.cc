/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_peer.h"

#include "cuda_test.h"

#include <cstdlib>
#include <cstring>

#include <fcntl.h>

namespace {

CUresult enter_context()
{
    CUcontext context;
    CUresult status = cuInit(0);

    if (status == CUDA_SUCCESS) {
        status = cuDevicePrimaryCtxRetain(&context, 0);
    }
    return (status == CUDA_SUCCESS) ? cuCtxSetCurrent(context) : status;
}

cuda_reply perform(const cuda_request &r)
{
    cuda_reply answer   = {};
    CUdeviceptr pointer = r.first;
    size_t available    = 0;
    size_t total;

    switch (r.what) {
    case cuda_verb::ready:
        answer.status = enter_context();
        break;
    case cuda_verb::allocate:
        answer.status = cuMemAlloc(&pointer, r.first);
        answer.value  = pointer;
        break;
    case cuda_verb::free:
        answer.status = cuMemFree(pointer);
        break;
    case cuda_verb::free_memory:
        answer.status = cuMemGetInfo(&available, &total);
        answer.value  = available;
        break;
    case cuda_verb::export_ipc:
        answer.status = cuIpcGetMemHandle(&answer.handle, pointer);
        break;
    case cuda_verb::open:
        answer.status = cuIpcOpenMemHandle(&pointer, r.handle,
                                           CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        answer.value  = pointer;
        break;
    case cuda_verb::close:
        answer.status = cuIpcCloseMemHandle(pointer);
        break;
    case cuda_verb::read:
        answer.status = cuMemcpyDtoH(&answer.value, pointer,
                                     sizeof(answer.value));
        break;
    case cuda_verb::write:
        answer.status = cuMemcpyHtoD(pointer, &r.second, sizeof(r.second));
        if (answer.status == CUDA_SUCCESS) {
            answer.status = cuCtxSynchronize();
        }
        break;
    case cuda_verb::exit:
        exit(int(r.first));
    }
    return answer;
}

} // namespace

cuda_peer::cuda_peer(environment_list environment) : m_child(environment)
{
    EXPECT_OK(ask(cuda_verb::ready).status);
}

cuda_peer::~cuda_peer()
{
    if (!m_child.ended()) {
        exit();
    }
}

void cuda_peer::start(cuda_verb what, uint64_t first, uint64_t second,
                      const CUipcMemHandle *handle)
{
    cuda_request r = {what, first, second, {}};

    if (handle != nullptr) {
        r.handle = *handle;
    }
    m_child.send(&r, sizeof(r));
}

cuda_reply cuda_peer::finish()
{
    cuda_reply answer;

    if (!m_child.receive(&answer, sizeof(answer))) {
        answer        = {};
        answer.status = CUDA_ERROR_UNKNOWN; /* it has died */
    }
    return answer;
}

cuda_reply cuda_peer::ask(cuda_verb what, uint64_t first, uint64_t second,
                          const CUipcMemHandle *handle)
{
    start(what, first, second, handle);
    return finish();
}

int cuda_peer::exit(int status)
{
    start(cuda_verb::exit, status);
    return m_child.wait_for_end();
}

int cuda_peer_main(int socket)
{
    cuda_request r;
    cuda_reply answer;

    fcntl(socket, F_SETFD, FD_CLOEXEC);
    while (child_receive(socket, &r, sizeof(r))) {
        answer = perform(r);
        if (!child_send(socket, &answer, sizeof(answer))) {
            break;
        }
    }
    return 0;
}
