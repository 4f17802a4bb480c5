/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "stream.h"

/*
 * Host functions in the order of a stream.
 */

using namespace emul;

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream,
                                     CUstreamCallback callback, void *userData,
                                     unsigned int flags)
{
    return call(fn_cuStreamAddCallback, [&] {
        stream &s    = stream_checked(hStream);
        operation op = {};

        require_value((callback != nullptr) && (flags == 0));
        op.what     = action::callback;
        op.callback = callback;
        op.handle   = hStream;
        op.data     = userData;
        stream_issue(s, op);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    return call(fn_cuLaunchHostFunc, [&] {
        stream &s    = stream_checked(hStream);
        operation op = {};

        require_value(fn != nullptr);
        op.what          = action::host_function;
        op.host_function = fn;
        op.data          = userData;
        stream_issue(s, op);
        return CUDA_SUCCESS;
    });
}
