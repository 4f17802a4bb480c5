/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDART_STATE_H_
#define EMUL_CUDART_STATE_H_

#include "functions.h"

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include <cuda.h>

/*
 * What all of the runtime shares: the hook that each call passes, the way to
 * the driver, the device of each thread and its context.
 */

namespace cudart {

enum function : unsigned {
#define EMUL_CUDART_ENUM(_name) fn_##_name,
    EMUL_CUDART_FUNCTIONS(EMUL_CUDART_ENUM)
#undef EMUL_CUDART_ENUM
    function_count
};

/** A function of the driver by its exported name; ends the process if there is
 *  none. */
void *driver_symbol(const char *name);

#define EMUL_CUDART_TEXT(_name)  #_name
#define EMUL_CUDART_EXPAND(_name) EMUL_CUDART_TEXT(_name)

/** Call a function of the driver. It is found by its name at run time, as the
 *  real runtime does, so that hooks see what they would see there: those that
 *  patch the function do, those that patch calls from library to library do
 *  not. */
#define DRIVER(_name) \
    ([]() { \
        static const auto function = reinterpret_cast<decltype(&::_name)>( \
                cudart::driver_symbol(EMUL_CUDART_EXPAND(_name))); \
        return function; \
    }())

/** Both have the same numbers for the same errors. */
inline cudaError_t from_driver(CUresult status)
{
    return static_cast<cudaError_t>(status);
}

/** Passes the hook. @return true: the call must return *status_p. */
bool call_begin(function f, cudaError_t *status_p);

/** Remembers an error for cudaGetLastError. */
cudaError_t call_end(function f, cudaError_t status);

cudaError_t last_error_get();
void last_error_clear();

/** Have a context for this thread: the current one, or else the primary one of
 *  its device, which becomes current. */
cudaError_t context_ensure();

/** The device of this thread. */
int device_get();

/** Change it; its primary context becomes current. */
cudaError_t device_set(int device);

/** Destroy what belongs to this thread's device. */
cudaError_t device_reset();

/** A call of a function that needs no device. */
template<typename body_type> cudaError_t call_always(function f, body_type body)
{
    cudaError_t status;

    if (!call_begin(f, &status)) {
        status = body();
    }
    return call_end(f, status);
}

/** A call of a function that only hands over to the driver. */
template<typename body_type> cudaError_t call(function f, body_type body)
{
    return call_always(f, [&] {
        cudaError_t status = context_ensure();

        return (status == cudaSuccess) ? from_driver(body()) : status;
    });
}

} // namespace cudart

#endif
