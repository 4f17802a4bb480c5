/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <core/message.h>

/*
 * What the real library exports and is not emulated. A program that calls one
 * of these is told so, instead of being given an answer that is made up.
 *
 * The header of CUDA is not included: no argument is looked at.
 */

#define EMUL_NOT_EMULATED(_name) \
    extern "C" __attribute__((visibility("default"))) void _name() \
    { \
        emul::fatal("%s is not emulated", #_name); \
    }

#include "not_emulated.list"
