/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "state.h"

#include <memory>

using namespace cudart;

namespace {

/* What the runtime's callback of a stream was asked to be called with */
struct user_callback {
    cudaStreamCallback_t function;
    void                 *data;
};

void CUDA_CB call_user(CUstream stream, CUresult status, void *arg)
{
    std::unique_ptr<user_callback> user(static_cast<user_callback*>(arg));

    user->function(stream, from_driver(status), user->data);
}

CUresult add_callback(cudaStream_t stream, cudaStreamCallback_t callback,
                      void *data, unsigned flags)
{
    if (callback == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }

    std::unique_ptr<user_callback> user(new user_callback{callback, data});
    CUresult status = DRIVER(cuStreamAddCallback)(stream, call_user, user.get(),
                                                  flags);
    if (status == CUDA_SUCCESS) {
        user.release();
    }
    return status;
}

} // namespace

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream)
{
    return call(fn_cudaStreamCreate,
                [&] { return DRIVER(cuStreamCreate)(pStream, 0); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream,
                                                unsigned int flags)
{
    return call(fn_cudaStreamCreateWithFlags,
                [&] { return DRIVER(cuStreamCreate)(pStream, flags); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream,
                                                   unsigned int flags,
                                                   int priority)
{
    return call(fn_cudaStreamCreateWithPriority, [&] {
        return DRIVER(cuStreamCreateWithPriority)(pStream, flags, priority);
    });
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
    return call(fn_cudaStreamDestroy,
                [&] { return DRIVER(cuStreamDestroy)(stream); });
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream)
{
    return call(fn_cudaStreamSynchronize,
                [&] { return DRIVER(cuStreamSynchronize)(stream); });
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
    return call(fn_cudaStreamQuery,
                [&] { return DRIVER(cuStreamQuery)(stream); });
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream,
                                          cudaEvent_t event, unsigned int flags)
{
    return call(fn_cudaStreamWaitEvent, [&] {
        return DRIVER(cuStreamWaitEvent)(stream, event, flags);
    });
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream,
                                            cudaStreamCallback_t callback,
                                            void *userData, unsigned int flags)
{
    return call(fn_cudaStreamAddCallback, [&] {
        return add_callback(stream, callback, userData, flags);
    });
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream,
                                         unsigned int *flags)
{
    return call(fn_cudaStreamGetFlags,
                [&] { return DRIVER(cuStreamGetFlags)(hStream, flags); });
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    return call(fn_cudaStreamGetPriority,
                [&] { return DRIVER(cuStreamGetPriority)(hStream, priority); });
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
                                         void *userData)
{
    return call(fn_cudaLaunchHostFunc,
                [&] { return DRIVER(cuLaunchHostFunc)(stream, fn, userData); });
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event)
{
    return call(fn_cudaEventCreate,
                [&] { return DRIVER(cuEventCreate)(event, 0); });
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event,
                                               unsigned int flags)
{
    return call(fn_cudaEventCreateWithFlags,
                [&] { return DRIVER(cuEventCreate)(event, flags); });
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return call(fn_cudaEventRecord,
                [&] { return DRIVER(cuEventRecord)(event, stream); });
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
    return call(fn_cudaEventQuery,
                [&] { return DRIVER(cuEventQuery)(event); });
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
    return call(fn_cudaEventSynchronize,
                [&] { return DRIVER(cuEventSynchronize)(event); });
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
    return call(fn_cudaEventDestroy,
                [&] { return DRIVER(cuEventDestroy)(event); });
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start,
                                           cudaEvent_t end)
{
    return call(fn_cudaEventElapsedTime,
                [&] { return DRIVER(cuEventElapsedTime)(ms, start, end); });
}
