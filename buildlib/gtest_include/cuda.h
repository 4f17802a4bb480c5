/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef OVERLAY_GTEST_CUDA_H_
#define OVERLAY_GTEST_CUDA_H_

/*
 * Stands before the toolkit's cuda.h when UCX's unit tests are built: those of
 * UCX 1.18 and older create contexts with the three arguments that cuCtxCreate
 * had before CUDA 13. With four it is another function, cuCtxCreate_v4.
 */

#include_next <cuda.h>

#if defined(__cplusplus) && (CUDA_VERSION >= 13000)
static inline CUresult
cuCtxCreate_v4(CUcontext *context_p, unsigned flags, CUdevice device)
{
    return cuCtxCreate_v4(context_p, nullptr, flags, device);
}
#endif

#endif
