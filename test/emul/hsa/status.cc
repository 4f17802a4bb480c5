/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"

/*
 * The names of status codes, for messages.
 */

namespace emul {

#define EMUL_STATUS_NAMES(_f) \
    _f(HSA_STATUS_SUCCESS) \
    _f(HSA_STATUS_INFO_BREAK) \
    _f(HSA_STATUS_ERROR) \
    _f(HSA_STATUS_ERROR_INVALID_ARGUMENT) \
    _f(HSA_STATUS_ERROR_INVALID_ALLOCATION) \
    _f(HSA_STATUS_ERROR_INVALID_AGENT) \
    _f(HSA_STATUS_ERROR_INVALID_REGION) \
    _f(HSA_STATUS_ERROR_INVALID_SIGNAL) \
    _f(HSA_STATUS_ERROR_OUT_OF_RESOURCES) \
    _f(HSA_STATUS_ERROR_RESOURCE_FREE) \
    _f(HSA_STATUS_ERROR_NOT_INITIALIZED) \
    _f(HSA_STATUS_ERROR_REFCOUNT_OVERFLOW) \
    _f(HSA_STATUS_ERROR_INVALID_MEMORY_POOL) \
    _f(HSA_STATUS_ERROR_FATAL)

static const char *status_name(unsigned status)
{
    switch (status) {
#define EMUL_STATUS_CASE(_name) \
    case _name: \
        return #_name;
    EMUL_STATUS_NAMES(EMUL_STATUS_CASE)
#undef EMUL_STATUS_CASE
    default:
        return nullptr;
    }
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_status_string(hsa_status_t status,
                                       const char **status_string)
{
    return call(fn_hsa_status_string, [&] {
        require_argument(status_string != nullptr);
        *status_string = status_name(status);
        require_argument(*status_string != nullptr);
        return HSA_STATUS_SUCCESS;
    });
}
