/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_API_H_
#define EMUL_HSA_API_H_

#include "functions.h"

#include <core/switches.h>

#include "hsa_headers.h"

#include <exception>

/*
 * What every function of the API passes when it is called, and what the
 * modules use to leave one with a status.
 *
 * Inside the library nothing calls the API: all that it shares has hidden
 * visibility, so that neither a count nor a hook on the API sees inner calls.
 */

namespace emul {

enum function : unsigned {
#define EMUL_HSA_ENUM(_name) fn_##_name,
    EMUL_HSA_STATUS_FUNCTIONS(EMUL_HSA_ENUM)
    EMUL_HSA_PLAIN_FUNCTIONS(EMUL_HSA_ENUM)
    EMUL_HSA_PLACES(EMUL_HSA_ENUM)
#undef EMUL_HSA_ENUM
    function_count
};

/** The name of a function, as it is called in C. */
const char *function_name(function f);

/** The point of a function or place on the node. Only when attached. */
unsigned function_point(function f);

/** Whether some hsa_init has no hsa_shut_down yet. */
bool runtime_is_open();

/** Thrown inside of a call to return this status from it. */
struct status_error {
    hsa_status_t status;
};

/** Leave the call with this status unless the condition holds. */
inline void require(bool condition, hsa_status_t status)
{
    if (!condition) {
        throw status_error{status};
    }
}

/** The status codes of the AMD extension are not in the same enum. */
inline void require(bool condition, int status)
{
    require(condition, hsa_status_t(status));
}

inline void require_argument(bool condition)
{
    require(condition, HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

/** Passes the hook. Filled *status_p and true: return it. */
bool call_begin(function f, hsa_status_t *status_p);
hsa_status_t call_end(function f, hsa_status_t status);

/** A call of a function that needs no hsa_init. */
template<typename body_type>
hsa_status_t call_always(function f, body_type body) noexcept
{
    hsa_status_t status;

    if (!call_begin(f, &status)) {
        try {
            status = body();
        } catch (const status_error &error) {
            status = error.status;
        } catch (const std::exception &) {
            /* no memory, no thread */
            status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
        }
    }
    return call_end(f, status);
}

/** A call of any other function that returns a status. */
template<typename body_type>
hsa_status_t call(function f, body_type body) noexcept
{
    return call_always(f, [&] {
        require(runtime_is_open(), HSA_STATUS_ERROR_NOT_INITIALIZED);
        return body();
    });
}

/** A call of a function that returns no status.
 *  @return false in a forked child, where it must do nothing. */
bool plain_call_begin(function f);

} // namespace emul

#endif
