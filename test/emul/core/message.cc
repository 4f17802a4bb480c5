/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "message.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace emul {

static void print(const char *format, va_list arguments)
{
    char line[512];
    int head, body;

    head = snprintf(line, sizeof(line), "emul[%d]: ", int(getpid()));
    body = vsnprintf(line + head, sizeof(line) - head - 1, format, arguments);
    body = std::min<int>(body, sizeof(line) - head - 2);

    line[head + body] = '\n';
    if (write(STDERR_FILENO, line, head + body + 1) < 0) {
        /* nowhere left to say it */
    }
}

void message(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

void fatal(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    abort();
}

} // namespace emul
