/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"

#include "companion.h"

#include <core/control.h>
#include <core/message.h>
#include <core/node.h>
#include <core/settings.h>
#include <core/trace.h>

#include <cstring>

namespace emul {

thread_local bool in_host_function;

namespace {

const char *const names[function_count] = {
#define EMUL_CUDA_NAME(_name) #_name,
    EMUL_CUDA_FUNCTIONS(EMUL_CUDA_NAME)
    EMUL_CUDA_PLACES(EMUL_CUDA_NAME)
#undef EMUL_CUDA_NAME
};

unsigned points[function_count];
unsigned first_stream_point;

bool add_points()
{
    for (unsigned f = 0; f < function_count; ++f) {
        points[f] = point_add(names[f], (f >= fn_copy) ? point_place :
                                                         point_function);
    }
    first_stream_point = point_add_numbered("stream", max_stream_points,
                                            point_queue);
    return true;
}

} // namespace

bool runtime_attach()
{
    /* the common case is one load and the guard of a static */
    if (!node_joined() && !node_join()) {
        return false;
    }

    static const bool added = add_points();
    return added;
}

bool function_is_emulated(const char *name)
{
    for (unsigned f = 0; f < fn_copy; ++f) {
        if (!strcmp(names[f], name)) {
            return true;
        }
    }
    return false;
}

unsigned function_point(function f)
{
    return points[f];
}

unsigned stream_point(unsigned ordinal)
{
    return (ordinal < max_stream_points) ? first_stream_point + ordinal :
                                           nobody;
}

bool call_begin(function f, CUresult *status_p)
{
    int status;

    if (!runtime_attach()) {
        /* a forked child, a node that cannot be used, or the process exits */
        *status_p = node_has_left() ? CUDA_ERROR_DEINITIALIZED :
                                      CUDA_ERROR_NOT_INITIALIZED;
        return true;
    }

    if (tracing()) {
        /* also at the begin: some calls do not come back */
        trace(names[f], "called ", 0);
    }

    if (point_enter(points[f], &status)) {
        *status_p = CUresult(status);
        return true;
    }
    return false;
}

CUresult call_end(function f, CUresult status)
{
    if (tracing()) {
        trace(names[f], "-> ", status);
    }
    return status;
}

} // namespace emul

using namespace emul;

int emul_companion_attach(const char *const *names, unsigned count,
                          unsigned *points)
{
    if (!runtime_attach()) {
        return 0;
    }

    for (unsigned i = 0; i < count; ++i) {
        points[i] = point_add(names[i], point_function);
    }
    return 1;
}

int emul_companion_enter(const char *name, unsigned point, int *status_p)
{
    if (!node_joined()) {
        return 0;
    }

    if (tracing()) {
        trace(name, "called ", 0);
    }
    return point_enter(point, status_p);
}

void emul_companion_leave(const char *name, int status)
{
    if (tracing()) {
        trace(name, "-> ", status);
    }
}

unsigned emul_companion_gpus(void)
{
    return runtime_attach() ? setting_value(setting_gpus) : 0;
}
