/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"

/*
 * The names and texts of status codes, for messages. They can be asked for at
 * any time, also when nothing else works any more.
 */

namespace emul {

/* Those that the emulator returns, and that tests like to inject */
#define EMUL_ERRORS(_f) \
    _f(CUDA_SUCCESS, "no error") \
    _f(CUDA_ERROR_INVALID_VALUE, "invalid argument") \
    _f(CUDA_ERROR_OUT_OF_MEMORY, "out of memory") \
    _f(CUDA_ERROR_NOT_INITIALIZED, "initialization error") \
    _f(CUDA_ERROR_DEINITIALIZED, "driver shutting down") \
    _f(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected") \
    _f(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal") \
    _f(CUDA_ERROR_INVALID_CONTEXT, "invalid device context") \
    _f(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed") \
    _f(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed") \
    _f(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped") \
    _f(CUDA_ERROR_NOT_MAPPED, "resource not mapped") \
    _f(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered") \
    _f(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, \
       "peer access is not supported between these two devices") \
    _f(CUDA_ERROR_OPERATING_SYSTEM, \
       "OS call failed or operation not supported on this OS") \
    _f(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle") \
    _f(CUDA_ERROR_ILLEGAL_STATE, \
       "the operation cannot be performed in the present state") \
    _f(CUDA_ERROR_NOT_FOUND, "named symbol not found") \
    _f(CUDA_ERROR_NOT_READY, "device not ready") \
    _f(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered") \
    _f(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, \
       "too many resources requested for launch") \
    _f(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated") \
    _f(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, \
       "peer access is already enabled") \
    _f(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled") \
    _f(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, \
       "cannot set while device is active in this process") \
    _f(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed") \
    _f(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted") \
    _f(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, \
       "part or all of the requested memory range is already mapped") \
    _f(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, \
       "pointer does not correspond to a registered memory region") \
    _f(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure") \
    _f(CUDA_ERROR_NOT_PERMITTED, "operation not permitted") \
    _f(CUDA_ERROR_NOT_SUPPORTED, "operation not supported") \
    _f(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized") \
    _f(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, \
       "operation not permitted when stream is capturing") \
    _f(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "unsupported exec affinity") \
    _f(CUDA_ERROR_UNKNOWN, "unknown error")

namespace {

struct error_text {
    const char *name;
    const char *text;
};

error_text find_text(CUresult error)
{
    switch (unsigned(error)) {
#define EMUL_ERROR_CASE(_name, _text) \
    case _name: \
        return {#_name, _text};
    EMUL_ERRORS(EMUL_ERROR_CASE)
#undef EMUL_ERROR_CASE
    default:
        return {nullptr, nullptr};
    }
}

CUresult tell(function f, CUresult error, const char *error_text::*what,
              const char **text_p)
{
    CUresult status;

    if (call_begin(f, &status) && (status != CUDA_ERROR_NOT_INITIALIZED) &&
        (status != CUDA_ERROR_DEINITIALIZED)) {
        return status;
    }

    if (text_p == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }

    *text_p = find_text(error).*what;
    return (*text_p == nullptr) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

} // namespace

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr)
{
    return tell(fn_cuGetErrorName, error, &error_text::name, pStr);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr)
{
    return tell(fn_cuGetErrorString, error, &error_text::text, pStr);
}
