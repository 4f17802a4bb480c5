/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/* Declared by newer headers only, and defined here without their structures */
#define nvmlDeviceGetGpuFabricInfo  nvmlDeviceGetGpuFabricInfo_declared
#define nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetGpuFabricInfoV_declared
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop
#undef nvmlDeviceGetGpuFabricInfo
#undef nvmlDeviceGetGpuFabricInfoV

#include <cuda/companion.h>
#include <core/message.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

/*
 * As much of NVML as tells a program how the GPUs of the node are connected:
 * all to one switch, by EMUL_NVLINKS links each.
 */

namespace {

constexpr int first_bus                 = 0x10; /* as in cuda/device.cc */
constexpr int switch_bus                = 0x08;
constexpr int default_links             = 18;   /* as an H200 */
constexpr unsigned long long bar1_total = 256ull << 30;

#define NVML_FUNCTIONS(_f) \
    _f(nvmlInit) \
    _f(nvmlShutdown) \
    _f(nvmlSystemGetDriverVersion) \
    _f(nvmlDeviceGetCount) \
    _f(nvmlDeviceGetHandleByIndex) \
    _f(nvmlDeviceGetHandleByPciBusId) \
    _f(nvmlDeviceGetIndex) \
    _f(nvmlDeviceGetName) \
    _f(nvmlDeviceGetPciInfo) \
    _f(nvmlDeviceGetFieldValues) \
    _f(nvmlDeviceGetNvLinkState) \
    _f(nvmlDeviceGetNvLinkRemotePciInfo) \
    _f(nvmlDeviceGetBAR1MemoryInfo) \
    _f(nvmlDeviceGetGpuFabricInfo) \
    _f(nvmlDeviceGetGpuFabricInfoV)

enum function : unsigned {
#define NVML_ENUM(_name) fn_##_name,
    NVML_FUNCTIONS(NVML_ENUM)
#undef NVML_ENUM
    function_count
};

const char *const names[function_count] = {
#define NVML_NAME(_name) #_name,
    NVML_FUNCTIONS(NVML_NAME)
#undef NVML_NAME
};

unsigned points[function_count];
std::atomic<int> initialized;

#define DRIVER(_name) \
    ([]() { \
        static const auto function = reinterpret_cast<decltype(&::_name)>( \
                driver_symbol(#_name)); \
        return function; \
    }())

void *driver_symbol(const char *name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *symbol = (library == nullptr) ? nullptr : dlsym(library, name);

    if (symbol == nullptr) {
        emul::fatal("the emulated NVML does not find an emulated libcuda.so.1");
    }
    return symbol;
}

bool attach()
{
    static const bool attached = DRIVER(emul_companion_attach)(
            names, function_count, points);

    return attached;
}

/* A call of a function that needs no nvmlInit */
template<typename body_type>
nvmlReturn_t call_always(function f, body_type body)
{
    nvmlReturn_t result;
    int status;

    if (!attach()) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }

    if (DRIVER(emul_companion_enter)(names[f], points[f], &status)) {
        result = nvmlReturn_t(status);
    } else {
        result = body();
    }
    DRIVER(emul_companion_leave)(names[f], result);
    return result;
}

template<typename body_type> nvmlReturn_t call(function f, body_type body)
{
    return call_always(f, [&] {
        return (initialized.load() > 0) ? body() : NVML_ERROR_UNINITIALIZED;
    });
}

/* Handles are numbers from 1 on */
nvmlDevice_t handle_of(unsigned index)
{
    return nvmlDevice_t(uintptr_t(index + 1));
}

/* @return Whether there is such a device */
bool index_of(nvmlDevice_t device, unsigned *index_p)
{
    *index_p = unsigned(uintptr_t(device) - 1);
    return *index_p < DRIVER(emul_companion_gpus)();
}

/* A call of a function for a device */
template<typename body_type>
nvmlReturn_t call_device(function f, nvmlDevice_t device, const void *result_p,
                         body_type body)
{
    return call(f, [&] {
        unsigned index;

        return ((result_p != nullptr) && index_of(device, &index)) ?
               body(index) : NVML_ERROR_INVALID_ARGUMENT;
    });
}

unsigned link_count()
{
    const char *text = getenv("EMUL_NVLINKS");
    int count        = (text == nullptr) ? default_links : atoi(text);

    return std::clamp(count, 0, int(NVML_NVLINK_MAX_LINKS));
}

void describe_bus(nvmlPciInfo_t *pci, int bus)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = bus;
    snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus);
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", bus);
}

void get_field(nvmlFieldValue_t *field)
{
    switch (field->fieldId) {
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
        field->valueType   = NVML_VALUE_TYPE_UNSIGNED_INT;
        field->value.uiVal = link_count();
        field->nvmlReturn  = NVML_SUCCESS;
        break;
    default:
        field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        break;
    }
}

} // namespace

nvmlReturn_t DECLDIR nvmlInit(void)
{
    return call_always(fn_nvmlInit, [] {
        initialized.fetch_add(1);
        return NVML_SUCCESS;
    });
}

#undef nvmlInit

/* The real library has both names, too */
extern "C" __attribute__((visibility("default"))) nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
}

nvmlReturn_t DECLDIR nvmlShutdown(void)
{
    return call(fn_nvmlShutdown, [] {
        initialized.fetch_sub(1);
        return NVML_SUCCESS;
    });
}

const char *DECLDIR nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    default:
        return "Unknown Error";
    }
}

nvmlReturn_t DECLDIR nvmlSystemGetDriverVersion(char *version,
                                                unsigned int length)
{
    return call(fn_nvmlSystemGetDriverVersion, [&] {
        if ((version == nullptr) || (length == 0)) {
            return NVML_ERROR_INVALID_ARGUMENT;
        }

        snprintf(version, length, "emulated");
        return NVML_SUCCESS;
    });
}

nvmlReturn_t DECLDIR nvmlDeviceGetCount(unsigned int *deviceCount)
{
    return call(fn_nvmlDeviceGetCount, [&] {
        if (deviceCount == nullptr) {
            return NVML_ERROR_INVALID_ARGUMENT;
        }

        *deviceCount = DRIVER(emul_companion_gpus)();
        return NVML_SUCCESS;
    });
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByIndex(unsigned int index,
                                                nvmlDevice_t *device)
{
    return call_device(fn_nvmlDeviceGetHandleByIndex, handle_of(index), device,
                       [&](unsigned found) {
                           *device = handle_of(found);
                           return NVML_SUCCESS;
                       });
}

#undef nvmlDeviceGetHandleByIndex

extern "C" __attribute__((visibility("default")))
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index,
                                        nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByPciBusId(const char *pciBusId,
                                                   nvmlDevice_t *device)
{
    return call(fn_nvmlDeviceGetHandleByPciBusId, [&] {
        unsigned domain, bus, slot;

        if ((pciBusId == nullptr) || (device == nullptr) ||
            (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3)) {
            return NVML_ERROR_INVALID_ARGUMENT;
        }

        bus    -= first_bus;
        *device = handle_of(bus);
        return ((domain == 0) && (slot == 0) &&
                (bus < DRIVER(emul_companion_gpus)())) ? NVML_SUCCESS :
                                                         NVML_ERROR_NOT_FOUND;
    });
}

nvmlReturn_t DECLDIR nvmlDeviceGetIndex(nvmlDevice_t device,
                                        unsigned int *index)
{
    return call_device(fn_nvmlDeviceGetIndex, device, index,
                       [&](unsigned found) {
                           *index = found;
                           return NVML_SUCCESS;
                       });
}

nvmlReturn_t DECLDIR nvmlDeviceGetName(nvmlDevice_t device, char *name,
                                       unsigned int length)
{
    return call_device(fn_nvmlDeviceGetName, device, name, [&](unsigned) {
        snprintf(name, length, "Emulated GPU");
        return NVML_SUCCESS;
    });
}

nvmlReturn_t DECLDIR nvmlDeviceGetPciInfo(nvmlDevice_t device,
                                          nvmlPciInfo_t *pci)
{
    return call_device(fn_nvmlDeviceGetPciInfo, device, pci,
                       [&](unsigned index) {
                           describe_bus(pci, first_bus + index);
                           return NVML_SUCCESS;
                       });
}

nvmlReturn_t DECLDIR nvmlDeviceGetFieldValues(nvmlDevice_t device,
                                              int valuesCount,
                                              nvmlFieldValue_t *values)
{
    return call_device(fn_nvmlDeviceGetFieldValues, device, values,
                       [&](unsigned) {
                           for (int i = 0; i < valuesCount; ++i) {
                               get_field(&values[i]);
                           }
                           return (valuesCount > 0) ?
                                  NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
                       });
}

nvmlReturn_t DECLDIR nvmlDeviceGetNvLinkState(nvmlDevice_t device,
                                              unsigned int link,
                                              nvmlEnableState_t *isActive)
{
    return call_device(fn_nvmlDeviceGetNvLinkState, device, isActive,
                       [&](unsigned) {
                           *isActive = NVML_FEATURE_ENABLED;
                           return (link < link_count()) ?
                                  NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
                       });
}

nvmlReturn_t DECLDIR nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device,
                                                      unsigned int link,
                                                      nvmlPciInfo_t *pci)
{
    return call_device(fn_nvmlDeviceGetNvLinkRemotePciInfo, device, pci,
                       [&](unsigned) {
                           describe_bus(pci, switch_bus);
                           return (link < link_count()) ?
                                  NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
                       });
}

nvmlReturn_t DECLDIR nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device,
                                                 nvmlBAR1Memory_t *bar1Memory)
{
    return call_device(fn_nvmlDeviceGetBAR1MemoryInfo, device, bar1Memory,
                       [&](unsigned) {
                           bar1Memory->bar1Total = bar1_total;
                           bar1Memory->bar1Free  = bar1_total;
                           bar1Memory->bar1Used  = 0;
                           return NVML_SUCCESS;
                       });
}

/* There is no fabric beyond the node */
extern "C" __attribute__((visibility("default")))
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void *info)
{
    return call_device(fn_nvmlDeviceGetGpuFabricInfo, device, info,
                       [](unsigned) { return NVML_ERROR_NOT_SUPPORTED; });
}

extern "C" __attribute__((visibility("default")))
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info)
{
    return call_device(fn_nvmlDeviceGetGpuFabricInfoV, device, info,
                       [](unsigned) { return NVML_ERROR_NOT_SUPPORTED; });
}
