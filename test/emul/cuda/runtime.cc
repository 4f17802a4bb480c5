/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "context.h"
#include "event.h"
#include "leak_report.h"
#include "stream.h"

#include <core/node.h>

/*
 * The life of the driver in a process: from cuInit to the end of the process.
 */

namespace emul {

static std::atomic<bool> initialized;

bool driver_is_initialized()
{
    return initialized.load(std::memory_order_relaxed);
}

/* Runs after the destructors of all that was linked with this library. Threads
 * of the process may still be in calls, so that nothing is unmapped. */
__attribute__((destructor)) static void process_exits()
{
    if (!node_joined()) {
        /* never used, or a forked child: its parent's things are not its own */
        return;
    }

    streams_silence();
    leak_report();
    node_leave();
}

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    return call_always(fn_cuInit, [&] {
        require_value(Flags == 0);
        require(device_count() > 0, CUDA_ERROR_NO_DEVICE);
        initialized.store(true);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
    return call_always(fn_cuDriverGetVersion, [&] {
        require_value(driverVersion != nullptr);
        *driverVersion = CUDA_VERSION;
        return CUDA_SUCCESS;
    });
}
