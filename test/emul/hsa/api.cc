/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"

#include <core/control.h>
#include <core/node.h>
#include <core/trace.h>

namespace emul {

namespace {

const char *const names[function_count] = {
#define EMUL_HSA_NAME(_name) #_name,
    EMUL_HSA_STATUS_FUNCTIONS(EMUL_HSA_NAME)
    EMUL_HSA_PLAIN_FUNCTIONS(EMUL_HSA_NAME)
    EMUL_HSA_PLACES(EMUL_HSA_NAME)
#undef EMUL_HSA_NAME
};

point_kind kind_of(unsigned f)
{
    if (f >= fn_copy) {
        return point_place;
    }
    return (f >= fn_hsa_signal_load_relaxed) ? point_plain_function :
                                               point_function;
}

unsigned points[function_count];

bool add_points()
{
    for (unsigned f = 0; f < function_count; ++f) {
        points[f] = point_add(names[f], kind_of(f));
    }
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

const char *function_name(function f)
{
    return names[f];
}

unsigned function_point(function f)
{
    return points[f];
}

bool call_begin(function f, hsa_status_t *status_p)
{
    int status;

    if (!runtime_attach()) {
        *status_p = (f == fn_hsa_init) && !node_is_forked_child() ?
                    HSA_STATUS_ERROR_OUT_OF_RESOURCES :
                    HSA_STATUS_ERROR_NOT_INITIALIZED;
        return true;
    }

    if (tracing()) {
        /* also at the begin: some calls do not come back */
        trace(names[f], "called ", 0);
    }

    if (point_enter(points[f], &status)) {
        *status_p = hsa_status_t(status);
        return true;
    }
    return false;
}

hsa_status_t call_end(function f, hsa_status_t status)
{
    if (tracing()) {
        trace(names[f], "-> ", status);
    }
    return status;
}

bool plain_call_begin(function f)
{
    int ignored;

    if (!runtime_attach()) {
        return false;
    }

    if (tracing()) {
        trace(names[f], "called ", 0);
    }

    point_enter(points[f], &ignored);
    return true;
}

} // namespace emul
