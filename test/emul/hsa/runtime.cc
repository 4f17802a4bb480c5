/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "api.h"
#include "copy.h"
#include "handler.h"
#include "leak_report.h"
#include "memory.h"
#include "signal.h"

#include <core/futex.h>
#include <core/node.h>

#include <cstring>

/*
 * The life of the runtime in a process: hsa_init to hsa_shut_down, or to the
 * end of the process.
 */

namespace emul {

namespace {

struct {
    std::mutex           *mutex;
    std::atomic<int32_t> references;
} runtime = {new std::mutex, {0}};

void release_memory()
{
    memory_map &map = memory_map::instance();
    std::vector<mapping> all;

    {
        std::unique_lock<std::shared_mutex> lock(map.mutex);

        map.each([&all](const mapping &m) { all.push_back(m); });
        map.clear();
    }

    for (const mapping &m : all) {
        memory_release(m, false);
    }
}

hsa_status_t init()
{
    std::lock_guard<std::mutex> guard(*runtime.mutex);

    if (runtime.references.load() == INT32_MAX) {
        return HSA_STATUS_ERROR_REFCOUNT_OVERFLOW;
    }

    runtime.references.fetch_add(1);
    return HSA_STATUS_SUCCESS;
}

/* The last one takes everything away that the process still holds */
hsa_status_t shut_down()
{
    std::lock_guard<std::mutex> guard(*runtime.mutex);

    if (runtime.references.load() == 1) {
        leak_report();
        copies_drain();
        handlers_stop();
        signals_destroy_all();
        release_memory();
    }

    runtime.references.fetch_sub(1);
    return HSA_STATUS_SUCCESS;
}

/* Runs after the destructors of all that was linked with this library. Threads
 * of the process may still be in calls, so that nothing is unmapped. */
__attribute__((destructor)) void process_exits()
{
    if (!node_joined()) {
        /* never used, or a forked child: its parent's things are not its own */
        return;
    }

    handlers_silence();
    copies_silence();
    leak_report();
    node_leave();
}

hsa_status_t system_get_info(unsigned attribute, void *value)
{
    uint64_t number;

    switch (attribute) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case HSA_SYSTEM_INFO_VERSION_MINOR:
        *(uint16_t*)value = 1;
        return HSA_STATUS_SUCCESS;
    case HSA_SYSTEM_INFO_TIMESTAMP:
        number = now_ns();
        break;
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
        number = 1000000000;
        break;
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
        number = UINT64_MAX;
        break;
    case HSA_SYSTEM_INFO_ENDIANNESS:
        *(hsa_endianness_t*)value = HSA_ENDIANNESS_LITTLE;
        return HSA_STATUS_SUCCESS;
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
        *(hsa_machine_model_t*)value = HSA_MACHINE_MODEL_LARGE;
        return HSA_STATUS_SUCCESS;
    case HSA_SYSTEM_INFO_EXTENSIONS:
        memset(value, 0, 128);
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
        *(const char**)value = "emulated";
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
        *(bool*)value = false;
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }

    *(uint64_t*)value = number;
    return HSA_STATUS_SUCCESS;
}

} // namespace

bool runtime_is_open()
{
    return runtime.references.load(std::memory_order_relaxed) > 0;
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_init()
{
    return call_always(fn_hsa_init, [] { return init(); });
}

hsa_status_t HSA_API hsa_shut_down()
{
    return call(fn_hsa_shut_down, [] { return shut_down(); });
}

hsa_status_t HSA_API hsa_system_get_info(hsa_system_info_t attribute,
                                         void *value)
{
    return call(fn_hsa_system_get_info, [&] {
        require_argument(value != nullptr);
        return emul::system_get_info(attribute, value);
    });
}
