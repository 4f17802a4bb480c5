/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "link.h"

#include "futex.h"
#include "settings.h"

#include <algorithm>
#include <mutex>

namespace emul {

int64_t link_use(size_t size)
{
    static std::mutex mutex;
    static int64_t link_free = 0; /* when the last transfer ends */
    int64_t bandwidth        = setting_value(setting_copy_bandwidth);
    int64_t latency          = setting_value(setting_copy_latency);
    int64_t end;

    if ((bandwidth == 0) && (latency == 0)) {
        return 0;
    }

    end = now_ns();
    if (bandwidth != 0) {
        std::lock_guard<std::mutex> guard(mutex);

        link_free = std::max(link_free, end) +
                    int64_t(double(size) / bandwidth * 1e9);
        end       = link_free;
    }
    return end + latency * 1000;
}

void sleep_until(int64_t when)
{
    timespec time = {time_t(when / 1000000000), long(when % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr)) {
    }
}

} // namespace emul
