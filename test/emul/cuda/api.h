/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_API_H_
#define EMUL_CUDA_API_H_

#include "cuda_headers.h"
#include "functions.h"

#include <core/switches.h>

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
#define EMUL_CUDA_ENUM(_name) fn_##_name,
    EMUL_CUDA_FUNCTIONS(EMUL_CUDA_ENUM)
    EMUL_CUDA_PLACES(EMUL_CUDA_ENUM)
#undef EMUL_CUDA_ENUM
    function_count
};

/** Streams of a process that have a point of their own, default ones as 0. */
constexpr unsigned max_stream_points = 1024;

/** Export a function of this file under another name too: the one by which
 *  programs that were built with an older toolkit call it. */
#define EMUL_ALSO(_old, _new) \
    __asm__(".globl " #_old "\n" \
            ".set " #_old ", " #_new "\n")

/** Whether a function of this name is emulated. */
bool function_is_emulated(const char *name);

/** The point of a function or place on the node. Only when attached. */
unsigned function_point(function f);

/** The point of a stream, or nobody if it has none. */
unsigned stream_point(unsigned ordinal);

/** Whether cuInit has been called. */
bool driver_is_initialized();

/** Whether this thread is inside of a host function that a stream has called. */
extern thread_local bool in_host_function;

/** Thrown inside of a call to return this status from it. */
struct status_error {
    CUresult status;
};

/** Leave the call with this status unless the condition holds. */
inline void require(bool condition, CUresult status)
{
    if (!condition) {
        throw status_error{status};
    }
}

inline void require_value(bool condition)
{
    require(condition, CUDA_ERROR_INVALID_VALUE);
}

/** Passes the hook. Filled *status_p and true: return it. */
bool call_begin(function f, CUresult *status_p);
CUresult call_end(function f, CUresult status);

/** A call of a function that needs no cuInit. */
template<typename body_type>
CUresult call_always(function f, body_type body) noexcept
{
    CUresult status;

    if (!call_begin(f, &status)) {
        try {
            status = body();
        } catch (const status_error &error) {
            status = error.status;
        } catch (const std::exception &) {
            /* no memory, no thread */
            status = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return call_end(f, status);
}

/** A call of a function that needs it. */
template<typename body_type>
CUresult call_anywhere(function f, body_type body) noexcept
{
    return call_always(f, [&] {
        require(driver_is_initialized(), CUDA_ERROR_NOT_INITIALIZED);
        return body();
    });
}

/** The same, of one that a host function must not call. */
template<typename body_type>
CUresult call(function f, body_type body) noexcept
{
    return call_anywhere(f, [&] {
        require(!in_host_function, CUDA_ERROR_NOT_PERMITTED);
        return body();
    });
}

} // namespace emul

#endif
