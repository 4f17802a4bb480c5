/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_HEADERS_H_
#define EMUL_HSA_HEADERS_H_

/*
 * The real headers. What they declare is all that this library exports; it is
 * compiled with hidden visibility otherwise.
 */

#pragma GCC visibility push(default)
#include <hsa.h>
#include <hsa_ext_amd.h>
#pragma GCC visibility pop

#endif
