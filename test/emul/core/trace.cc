/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "trace.h"

#include "message.h"

#include <cstdlib>
#include <cstring>

#include <sys/syscall.h>
#include <unistd.h>

namespace emul {

bool tracing()
{
    static const bool traced = [] {
        const char *value = getenv("EMUL_TRACE");

        return (value != nullptr) && !strcmp(value, "y");
    }();

    return traced;
}

void trace(const char *name, const char *what, unsigned status)
{
    message("[%ld] %s %s%#x", long(syscall(SYS_gettid)), name, what, status);
}

} // namespace emul
