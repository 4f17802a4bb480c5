/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_CUDA_HEADERS_H_
#define EMUL_CUDA_CUDA_HEADERS_H_

/* What the header declares is what the library exports */
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#endif
