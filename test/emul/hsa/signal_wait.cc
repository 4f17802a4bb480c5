/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "signal.h"

#include <core/futex.h>

/*
 * Waiting for the value of a signal. The hint whether to poll or to block is
 * not followed: on a machine with few cores a poller only delays those for
 * which it waits.
 */

using namespace emul;

/* Timeouts are in units of HSA_SYSTEM_INFO_TIMESTAMP, which are nanoseconds */
static int64_t deadline_after(uint64_t timeout)
{
    int64_t now = now_ns();

    return (timeout > uint64_t(INT64_MAX - now)) ? -1 : now + int64_t(timeout);
}

static hsa_signal_value_t wait(function f, hsa_signal_t signal,
                               hsa_signal_condition_t condition,
                               hsa_signal_value_t compare_value,
                               uint64_t timeout)
{
    hsa_signal_value_t value;
    bool destroyed = false;

    if (!plain_call_begin(f)) {
        return 0;
    }

    signal_slot &slot = signal_used(signal, function_name(f));
    if (!signal_retain(slot, signal)) {
        return 0;
    }

    value = cell_wait(*slot.where, deadline_after(timeout),
                      [&](hsa_signal_value_t seen) {
                          destroyed = !signal_lives(slot, signal);
                          return destroyed ||
                                 signal_condition_met(condition, seen,
                                                      compare_value);
                      });
    signal_release(slot);
    return destroyed ? 0 : value;
}

#define EMUL_WAIT(_name) \
    hsa_signal_value_t HSA_API _name(hsa_signal_t signal, \
                                     hsa_signal_condition_t condition, \
                                     hsa_signal_value_t compare_value, \
                                     uint64_t timeout_hint, hsa_wait_state_t) \
    { \
        return wait(fn_##_name, signal, condition, compare_value, \
                    timeout_hint); \
    }

EMUL_WAIT(hsa_signal_wait_relaxed)
EMUL_WAIT(hsa_signal_wait_scacquire)
EMUL_WAIT(hsa_signal_wait_acquire)
