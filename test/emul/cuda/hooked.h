/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_HOOKED_H_
#define EMUL_CUDA_HOOKED_H_

#include "cuda_headers.h"

/*
 * Functions that programs patch: they overwrite the beginning of the function
 * by a jump and run the instructions that were there elsewhere, which takes
 * instructions that do not depend on where they are. The compiler cannot be
 * told, so the beginning is written down: 17 bytes of such ones, in the forms
 * that UCX of any release knows.
 *
 * Used as: EMUL_HOOKED(name, parameters) { body }, with the exported name.
 */

#if defined(__x86_64__)

#define EMUL_HOOKED(_name, ...) \
    extern "C" __attribute__((visibility("hidden"))) \
    CUresult emul_body_##_name(__VA_ARGS__); \
    __asm__(".text\n" \
            ".globl " #_name "\n" \
            ".p2align 4\n" \
            ".type " #_name ", @function\n" \
            #_name ":\n" \
            "    pushq %rbp\n" \
            "    movq %rsp, %rbp\n" \
            "    .byte 0x48, 0x81, 0xec\n" /* subq $128, %rsp: 32 bits wide */ \
            "    .long 128\n" \
            "    movl $0, %eax\n" \
            "    leave\n" \
            "    jmp emul_body_" #_name "\n" \
            ".size " #_name ", . - " #_name "\n"); \
    CUresult emul_body_##_name(__VA_ARGS__)

#else

#define EMUL_HOOKED(_name, ...) \
    extern "C" __attribute__((visibility("default"))) \
    CUresult _name(__VA_ARGS__)

#endif

#endif
