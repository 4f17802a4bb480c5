/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"

#include <core/message.h>

#include <cstring>
#include <string>

#include <dlfcn.h>

/*
 * Finding a function of the driver by its name and the version of the API that
 * the caller was built with.
 */

namespace emul {

namespace {

struct versioned {
    const char *name;
    const char *suffix;
    int        since; /* version of the API */
};

/* Of a function that has several ABIs, the newest one first. Those that are not
 * here had theirs changed before what anybody runs today. */
const versioned changed[] = {
    {"cuCtxCreate", "_v4", 12050},
    {"cuCtxCreate", "_v3", 11040},
    {"cuCtxCreate", "_v2", 3020},
    {"cuCtxSynchronize", "", 2000},
    {"cuDeviceGetUuid", "_v2", 11040},
    {"cuEventElapsedTime", "_v2", 12080},
    {"cuEventElapsedTime", "", 2000},
    {"cuGetProcAddress", "_v2", 12000},
    {"cuGetProcAddress", "", 11030},
    {"cuIpcOpenMemHandle", "_v2", 11000},
    {"cuMemGetHandleForAddressRange", "", 11070},
    {"cuCtxSetFlags", "", 12010},
    {"cuCtxGetId", "", 12000},
    {"cuStreamGetId", "", 12000},
    {"cuStreamGetDevice", "", 13000},
    {"cuMemAllocAsync", "", 11020},
    {"cuMemFreeAsync", "", 11020},
    {"cuLibraryGetGlobal", "", 12000},
};

bool ends_with(const std::string &text, const char *end)
{
    size_t length = strlen(end);

    return (text.size() > length) &&
           !text.compare(text.size() - length, length, end);
}

/* Names that a caller may give with a suffix, which says the same as a flag
 * that is ignored here: each thread's default stream is its own by its handle */
std::string without_stream_suffix(const std::string &name)
{
    return (ends_with(name, "_ptsz") || ends_with(name, "_ptds")) ?
           name.substr(0, name.size() - 5) : name;
}

std::string without_suffix(std::string name)
{
    if ((name.size() > 3) && !name.compare(name.size() - 3, 2, "_v")) {
        name.resize(name.size() - 3);
    }
    return name;
}

/* In this library and no other: a program may have one of the same name */
void *find_exported(const std::string &name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    return (library == nullptr) ? nullptr : dlsym(library, name.c_str());
}

void *find_newest(const std::string &name)
{
    void *found = find_exported(name + "_v2");

    return (found != nullptr) ? found : find_exported(name);
}

CUdriverProcAddressQueryResult find(const std::string &name, int version,
                                    void **function_p)
{
    bool listed = false;

    *function_p = nullptr;
    if (!function_is_emulated(without_suffix(name).c_str())) {
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }

    if (!function_is_emulated(name.c_str())) {
        *function_p = find_exported(name);
        return (*function_p == nullptr) ?
               CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND :
               CU_GET_PROC_ADDRESS_SUCCESS;
    }

    for (const versioned &candidate : changed) {
        if (name != candidate.name) {
            continue;
        }

        listed = true;
        if (version >= candidate.since) {
            *function_p = find_exported(name + candidate.suffix);
            return CU_GET_PROC_ADDRESS_SUCCESS;
        }
    }
    if (listed) {
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }

    *function_p = find_newest(name);
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

CUdriverProcAddressQueryResult get(const char *symbol, void **function_p,
                                   int version,
                                   CUdriverProcAddressQueryResult *result_p)
{
    CUdriverProcAddressQueryResult result;

    require_value((symbol != nullptr) && (function_p != nullptr));
    result = find(without_stream_suffix(symbol), version, function_p);
    if (result_p != nullptr) {
        *result_p = result;
    }
    return result;
}

} // namespace

} // namespace emul

using namespace emul;

#undef cuGetProcAddress

extern "C" __attribute__((visibility("default")))
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                          cuuint64_t)
{
    return call_always(fn_cuGetProcAddress, [&] {
        return (get(symbol, pfn, cudaVersion, nullptr) ==
                CU_GET_PROC_ADDRESS_SUCCESS) ? CUDA_SUCCESS :
                                               CUDA_ERROR_NOT_FOUND;
    });
}

extern "C" __attribute__((visibility("default")))
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                             cuuint64_t,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    return call_always(fn_cuGetProcAddress, [&] {
        get(symbol, pfn, cudaVersion, symbolStatus);
        return CUDA_SUCCESS; /* the pointer and the other status tell */
    });
}
