/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "control.h"

#include "counts.h"
#include "settings.h"
#include "switches.h"

#include <emul.h>

#include <cerrno>

namespace emul {

static int count(pid_t pid, emul_count_t what, int64_t *value_p)
{
    return runtime_attach() ? count_read(pid, what, value_p) : -ENODEV;
}

static int calls(pid_t pid, const char *function, int64_t *value_p)
{
    return runtime_attach() ? calls_read(pid, function, value_p) : -ENODEV;
}

static int fail(pid_t pid, const char *function, uint64_t nth, uint64_t count,
                int status)
{
    return runtime_attach() ? fault_set(pid, function, nth, count, status) :
                              -ENODEV;
}

static int gate_close(pid_t pid, const char *point)
{
    return runtime_attach() ? gate_set(pid, point, true) : -ENODEV;
}

static int gate_open(pid_t pid, const char *point)
{
    return runtime_attach() ? gate_set(pid, point, false) : -ENODEV;
}

static int waiters(pid_t pid, const char *point, int64_t *value_p)
{
    return runtime_attach() ? gate_waiters(pid, point, value_p) : -ENODEV;
}

static int pass(pid_t pid, const char *point, uint64_t count)
{
    return runtime_attach() ? gate_pass(pid, point, count) : -ENODEV;
}

static int set(const char *name, const char *value)
{
    return runtime_attach() ? settings_set(name, value) : -ENODEV;
}

} // namespace emul

extern "C" __attribute__((visibility("default")))
const emul_api_t emul_api = {
    EMUL_VERSION,
    emul::count,
    emul::calls,
    emul::fail,
    emul::gate_close,
    emul::gate_open,
    emul::waiters,
    emul::pass,
    emul::set
};
