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
