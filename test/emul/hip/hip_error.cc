/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "hip_state.h"

namespace hip {

namespace {

thread_local hipError_t last_error = hipSuccess;

struct error_text {
    hipError_t error;
    const char *name;
    const char *text;
};

#define HIP_ERROR_TEXT(_error, _text) {_error, #_error, _text}

/* Every error that an emulated function returns */
constexpr error_text error_texts[] = {
    HIP_ERROR_TEXT(hipSuccess, "no error"),
    HIP_ERROR_TEXT(hipErrorInvalidValue, "invalid argument"),
    HIP_ERROR_TEXT(hipErrorOutOfMemory, "out of memory"),
    HIP_ERROR_TEXT(hipErrorNotInitialized, "runtime is not initialized"),
    HIP_ERROR_TEXT(hipErrorInvalidDevicePointer, "invalid device pointer"),
    HIP_ERROR_TEXT(hipErrorInvalidMemcpyDirection,
                   "invalid direction of a memory copy"),
    HIP_ERROR_TEXT(hipErrorNoDevice, "no GPU was found"),
    HIP_ERROR_TEXT(hipErrorInvalidDevice, "no GPU has this number"),
    HIP_ERROR_TEXT(hipErrorNotSupported, "operation is not supported"),
    HIP_ERROR_TEXT(hipErrorUnknown, "unknown error"),
};

#undef HIP_ERROR_TEXT

const error_text &find_text(hipError_t error)
{
    static constexpr error_text unlisted = {
        hipErrorUnknown, "hipErrorUnknown",
        "an error that the emulated runtime never returns"
    };

    for (const error_text &entry : error_texts) {
        if (entry.error == error) {
            return entry;
        }
    }

    return unlisted;
}

} // namespace

hipError_t result(hipError_t status)
{
    last_error = status;
    return status;
}

hipError_t from_hsa(hsa_status_t status)
{
    switch (status) {
    case HSA_STATUS_SUCCESS:
        return hipSuccess;
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
        return hipErrorOutOfMemory;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
        return hipErrorInvalidValue;
    case HSA_STATUS_ERROR_NOT_INITIALIZED:
        return hipErrorNotInitialized;
    default:
        return hipErrorUnknown;
    }
}

} // namespace hip

const char *hipGetErrorName(hipError_t error)
{
    return hip::find_text(error).name;
}

const char *hipGetErrorString(hipError_t error)
{
    return hip::find_text(error).text;
}

hipError_t hipGetLastError(void)
{
    const hipError_t error = hip::last_error;

    hip::last_error = hipSuccess;
    return error;
}

hipError_t hipPeekAtLastError(void)
{
    return hip::last_error;
}
