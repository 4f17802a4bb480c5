/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <core/message.h>

/*
 * What the real library exports and is not emulated, as in cuda/not_emulated.cc.
 */

#define EMUL_NOT_EMULATED(_name) \
    extern "C" __attribute__((visibility("default"))) void _name() \
    { \
        emul::fatal("%s is not emulated", #_name); \
    }

#include "not_emulated.list"

/*
 * What the code that nvcc adds to a program calls when it is loaded and unloaded.
 * Such a program runs as long as it launches no kernel.
 */

#define EMUL_IGNORED(_name) \
    extern "C" __attribute__((visibility("default"))) void *_name() \
    { \
        static void *handle; \
    \
        return &handle; \
    }

EMUL_IGNORED(__cudaRegisterFatBinary)
EMUL_IGNORED(__cudaRegisterFatBinaryEnd)
EMUL_IGNORED(__cudaUnregisterFatBinary)
EMUL_IGNORED(__cudaRegisterFunction)
EMUL_IGNORED(__cudaRegisterVar)
EMUL_IGNORED(__cudaRegisterManagedVar)
EMUL_IGNORED(__cudaRegisterHostVar)
EMUL_IGNORED(__cudaRegisterUnifiedTable)
EMUL_IGNORED(__cudaInitModule)
