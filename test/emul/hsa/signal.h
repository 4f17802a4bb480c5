/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_SIGNAL_H_
#define EMUL_HSA_SIGNAL_H_

#include "api.h"

#include <core/cell.h>
#include <core/handle.h>

#include <mutex>

/*
 * Signals.
 *
 * The handle of a signal is a slot number and a generation, so that a handle of
 * a destroyed signal is recognised for ever instead of meaning some later one.
 *
 *   63       generation       32 31        slot + 1        0
 *
 * A slot has references (hsa_signal_create or attach, less destroys): without
 * one the signal is destroyed and its handle invalid. And it is retained by
 * whoever still needs its memory (the references together count as one):
 * waiters, handlers, copies. Only an unretained slot is used again.
 */

namespace emul {

enum class signal_kind { local, gpu_only, ipc_created, ipc_attached };

struct signal_slot {
    std::atomic<uint64_t> handle;     /* 0: destroyed or never created */
    std::atomic<uint32_t> references; /* changed under the table's mutex */
    std::atomic<uint32_t> retained;
    uint32_t              generation;
    uint32_t              number;
    signal_kind           kind;
    uint32_t              shared;     /* index of the shared cell */
    cell                  *where;     /* the value: own, or a shared cell */
    cell                  own;
    std::atomic<uint32_t> armed;      /* handlers waiting for it */

    bool is_ipc() const
    {
        return (kind == signal_kind::ipc_created) ||
               (kind == signal_kind::ipc_attached);
    }

    /** What names it to the bells. IPC signals have the same name in all
     *  processes, local ones another one than any of these. */
    uint64_t source() const
    {
        return is_ipc() ? shared + 1 : (uint64_t(1) << 32) + number;
    }

    /** The value has been changed. */
    void changed()
    {
        cell_changed(*where, source());
    }
};

/** @return nullptr if it is not a living signal. */
signal_slot *signal_find(hsa_signal_t signal);

/** For functions that return a status: leaves the call unless it lives. */
signal_slot &signal_checked(hsa_signal_t signal);

/** For the others, where a wrong handle means memory corruption on real
 *  hardware: ends the process unless it lives. */
signal_slot &signal_used(hsa_signal_t signal, const char *by);

/** Keep the slot; false if the signal has been destroyed meanwhile. */
bool signal_retain(signal_slot &slot, hsa_signal_t signal);
void signal_release(signal_slot &slot);

inline bool signal_lives(const signal_slot &slot, hsa_signal_t signal)
{
    return slot.handle.load() == signal.handle;
}

/** Whether a value satisfies a condition. */
bool signal_condition_met(hsa_signal_condition_t condition,
                          hsa_signal_value_t value,
                          hsa_signal_value_t compare_value);

/** Call visit(slot) for each living signal. */
void signals_each(void (*visit)(const signal_slot &slot, void *data),
                  void *data);

/** Destroy all signals of the process. */
void signals_destroy_all();

} // namespace emul

#endif
