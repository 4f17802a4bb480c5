/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "signal.h"

/*
 * Reading and changing the value of a signal.
 *
 * A change is always sequentially consistent, whatever order was asked for: the
 * sleepers' protocol needs that (core/cell.h). Loads have the order of their
 * name, so that a race detector sees what the caller relies on.
 */

using namespace emul;

static hsa_signal_value_t load(function f, hsa_signal_t signal,
                               std::memory_order order)
{
    if (!plain_call_begin(f)) {
        return 0;
    }
    return signal_used(signal, function_name(f)).where->value.load(order);
}

/* change(value) on the atomic, if this process may touch it at all */
template<typename change_type>
static hsa_signal_value_t update(function f, hsa_signal_t signal,
                                 change_type change)
{
    hsa_signal_value_t before;

    if (!plain_call_begin(f)) {
        return 0;
    }

    signal_slot &slot = signal_used(signal, function_name(f));
    before            = change(slot.where->value);
    slot.changed();
    return before;
}

#define EMUL_LOAD(_order, _memory_order) \
    hsa_signal_value_t HSA_API hsa_signal_load_##_order(hsa_signal_t signal) \
    { \
        return load(fn_hsa_signal_load_##_order, signal, _memory_order); \
    }

EMUL_LOAD(relaxed, std::memory_order_relaxed)
EMUL_LOAD(scacquire, std::memory_order_acquire)
EMUL_LOAD(acquire, std::memory_order_acquire)

#define EMUL_STORE(_name) \
    void HSA_API hsa_signal_##_name(hsa_signal_t signal, \
                                    hsa_signal_value_t value) \
    { \
        update(fn_hsa_signal_##_name, signal, [&](auto &atomic) { \
            return atomic.exchange(value); \
        }); \
    }

EMUL_STORE(store_relaxed)
EMUL_STORE(store_screlease)
EMUL_STORE(store_release)

/* A silent store wakes nobody */
#define EMUL_SILENT_STORE(_name) \
    void HSA_API hsa_signal_##_name(hsa_signal_t signal, \
                                    hsa_signal_value_t value) \
    { \
        if (plain_call_begin(fn_hsa_signal_##_name)) { \
            signal_used(signal, "hsa_signal_" #_name).where->value \
                    .store(value); \
        } \
    }

EMUL_SILENT_STORE(silent_store_relaxed)
EMUL_SILENT_STORE(silent_store_screlease)

#define EMUL_CHANGE(_name, _method) \
    void HSA_API hsa_signal_##_name(hsa_signal_t signal, \
                                    hsa_signal_value_t value) \
    { \
        update(fn_hsa_signal_##_name, signal, [&](auto &atomic) { \
            return atomic._method(value); \
        }); \
    }

#define EMUL_EXCHANGE(_name, _unused) \
    hsa_signal_value_t HSA_API hsa_signal_##_name(hsa_signal_t signal, \
                                                  hsa_signal_value_t value) \
    { \
        return update(fn_hsa_signal_##_name, signal, [&](auto &atomic) { \
            return atomic.exchange(value); \
        }); \
    }

#define EMUL_CAS(_name, _unused) \
    hsa_signal_value_t HSA_API hsa_signal_##_name( \
            hsa_signal_t signal, hsa_signal_value_t expected, \
            hsa_signal_value_t value) \
    { \
        return update(fn_hsa_signal_##_name, signal, [&](auto &atomic) { \
            hsa_signal_value_t seen = expected; \
            atomic.compare_exchange_strong(seen, value); \
            return seen; \
        }); \
    }

#define EMUL_ALL_ORDERS(_define, _operation, _method) \
    _define(_operation##_relaxed, _method) \
    _define(_operation##_scacquire, _method) \
    _define(_operation##_screlease, _method) \
    _define(_operation##_scacq_screl, _method) \
    _define(_operation##_acquire, _method) \
    _define(_operation##_release, _method) \
    _define(_operation##_acq_rel, _method)

EMUL_ALL_ORDERS(EMUL_CHANGE, add, fetch_add)
EMUL_ALL_ORDERS(EMUL_CHANGE, subtract, fetch_sub)
EMUL_ALL_ORDERS(EMUL_CHANGE, and, fetch_and)
EMUL_ALL_ORDERS(EMUL_CHANGE, or, fetch_or)
EMUL_ALL_ORDERS(EMUL_CHANGE, xor, fetch_xor)
EMUL_ALL_ORDERS(EMUL_EXCHANGE, exchange, )
EMUL_ALL_ORDERS(EMUL_CAS, cas, )
