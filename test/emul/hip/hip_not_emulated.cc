/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <cstdio>
#include <cstdlib>

/* No HIP header here: each function stands for any signature, because it never
 * looks at its arguments and never returns. */

namespace {

[[noreturn]] void not_emulated(const char *function)
{
    fprintf(stderr, "libamdhip64 (emulated): %s is not emulated\n", function);
    abort();
}

} // namespace

#define HIP_NOT_EMULATED(_function) \
    extern "C" void _function(); \
    extern "C" void _function() \
    { \
        not_emulated(#_function); \
    }

#include "hip_not_emulated.list"
