/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_COPY_H_
#define EMUL_CUDA_COPY_H_

#include "stream.h"

namespace emul {

/** Move the bytes of a copy, or set those of a fill, piece by piece.
 *  @param where_p  Filled with the side that is not mapped.
 *  @return false if one is not. */
bool copy_memory(const operation &op, const void **where_p);
bool fill_memory(const operation &op, const void **where_p);

} // namespace emul

#endif
