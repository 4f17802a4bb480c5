/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <cstring>

#include <dlfcn.h>

/*
 * Programs patch the beginnings of functions and run what was there elsewhere.
 * The instructions must be such that this is possible, for a long jump.
 */

#if defined(__x86_64__)

class cuda_hooks : public cuda_test {
protected:
    static constexpr size_t long_jump = 12;

    static bool is(const uint8_t *code, std::initializer_list<uint8_t> bytes)
    {
        for (uint8_t byte : bytes) {
            if (*code++ != byte) {
                return false;
            }
        }
        return true;
    }

    /* @return Length of an instruction that can be moved, or 0. As UCX 1.13
     *         knows them, which knows the fewest. */
    static size_t movable(const uint8_t *code)
    {
        if ((*code & 0xf0) == 0x50) {
            return 1; /* push or pop of a register */
        }
        if (is(code, {0x41}) && ((code[1] & 0xf0) == 0x50)) {
            return 2; /* the same, of the upper ones */
        }
        if (is(code, {0x48, 0x89, 0xe5})) {
            return 3; /* mov %rsp, %rbp */
        }
        if (is(code, {0x48, 0x81, 0xec})) {
            return 7; /* sub of 32 bits from %rsp */
        }
        if ((*code & 0xf8) == 0xb8) {
            return 5; /* mov of 32 bits to a register */
        }
        return 0;
    }
};

TEST_F(cuda_hooks, beginnings_of_functions_can_be_moved)
{
    static const char *const names[] = {
        "cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocPitch",
        "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
        "cuMemMap", "cuMemUnmap", "cuMemFree", "cuMemFree_v2", "cuMemFreeHost",
        "cuMemFreeAsync", "cuModuleGetGlobal_v2", "cuLibraryGetGlobal"
    };

    REQUIRE_EMULATOR();
    for (const char *name : names) {
        const uint8_t *code = (uint8_t*)dlsym(RTLD_DEFAULT, name);
        size_t length, moved;

        ASSERT_NE(nullptr, code) << name;
        for (moved = 0; moved < long_jump; moved += length) {
            length = movable(code + moved);
            ASSERT_NE(0u, length) << name << " at byte " << moved;
        }
    }
}

#endif
