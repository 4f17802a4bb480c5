/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "handler.h"

#include "api.h"
#include "signal.h"

#include <core/counts.h>
#include <core/handler_bell.h>
#include <core/node.h>
#include <core/settings.h>

#include <memory>
#include <thread>
#include <vector>

namespace emul {

namespace {

/* Each holds one retain of its slot, and is in the list as long as armed. A
 * plain function to be called has no slot. */
struct armed_handler {
    hsa_signal_t           signal;
    signal_slot            *slot;
    hsa_signal_condition_t condition;
    hsa_signal_value_t     compare_value;
    hsa_amd_signal_handler function;
    void                   (*plain_function)(void *argument);
    void                   *argument;

    bool satisfied_by(hsa_signal_value_t value) const
    {
        return signal_condition_met(condition, value, compare_value);
    }
};

using handler_pointer = std::shared_ptr<armed_handler>;

struct handler_state {
    std::mutex                   mutex;
    std::vector<handler_pointer> armed;  /* in the order of registration */
    std::thread                  *thread;
    std::atomic<bool>            stop;
    std::atomic<bool>            silent;
};

handler_state &state()
{
    static handler_state *instance = new handler_state();
    return *instance;
}

void disarm(const handler_pointer &handler)
{
    {
        std::lock_guard<std::mutex> guard(state().mutex);
        auto &armed = state().armed;

        for (auto entry = armed.begin(); entry != armed.end(); ++entry) {
            if (*entry == handler) {
                armed.erase(entry);
                break;
            }
        }

        if (handler->slot == nullptr) {
            return;
        }

        if (handler->slot->armed.fetch_sub(1) == 1) {
            handler->slot->where->watchers.remove(node_self_slot());
        }
    }
    count_add(EMUL_COUNT_HANDLERS, -1);
    signal_release(*handler->slot);
}

/* The gate is after the decision: what happens to the signal while a test holds
 * the thread here comes too late for it, as it can on real hardware. */
bool call(const handler_pointer &handler, hsa_signal_value_t value)
{
    int ignored;

    point_pass(function_point(fn_handler), &ignored);
    if (state().silent.load()) {
        return true;
    }
    return handler->function(value, handler->argument);
}

/* @return Whether it has been called and wants to be called again */
bool look_at(const handler_pointer &handler)
{
    hsa_signal_value_t value;

    if (handler->slot == nullptr) {
        disarm(handler);
        handler->plain_function(handler->argument);
        return false;
    }

    value = handler->slot->where->value.load(std::memory_order_acquire);
    if (!signal_lives(*handler->slot, handler->signal)) {
        if (setting_value(setting_destroyed_handler) ==
            destroyed_handler_call) {
            call(handler, value);
        } else {
            count_add(EMUL_COUNT_HANDLERS_DROPPED, 1);
        }
        disarm(handler);
        return false;
    }

    if (!handler->satisfied_by(value)) {
        return false;
    }

    if (!call(handler, value)) {
        disarm(handler);
        return false;
    }
    return true;
}

/* One round over all handlers; those that are added meanwhile ring the bell.
 * @return Whether one wants to be called again at once */
bool look_at_all()
{
    std::vector<handler_pointer> handlers;
    bool again = false;

    {
        std::lock_guard<std::mutex> guard(state().mutex);
        handlers = state().armed;
    }

    for (auto &handler : handlers) {
        if (state().stop.load() || state().silent.load()) {
            return false;
        }
        again |= look_at(handler);
    }
    return again;
}

void handler_thread(uint32_t seen)
{
    while (!state().stop.load()) {
        bell_wait(seen);
        do {
            seen = bell_answer();
        } while (look_at_all());
    }
}

void start_thread_once()
{
    if (state().thread == nullptr) {
        state().stop.store(false);
        /* events from now on count as if the thread already slept */
        state().thread = new std::thread(handler_thread, bell_answer());
    }
}

void arm(const armed_handler &handler)
{
    std::lock_guard<std::mutex> guard(state().mutex);

    start_thread_once();
    state().armed.push_back(std::make_shared<armed_handler>(handler));
    if (handler.slot != nullptr) {
        handler.slot->armed.fetch_add(1);
        handler.slot->where->watchers.add(node_self_slot());
        count_add(EMUL_COUNT_HANDLERS, 1);
    }

    /* Only now, so that the thread finds it. A change of the value before the
     * watcher was added is found by looking, one after rings by itself. */
    bell_ring(node_self_slot(), (handler.slot != nullptr) ?
              handler.slot->source() : uintptr_t(handler.argument) | 1);
}

/* Which signals the runtime accepts handlers for */
void require_interrupts(const signal_slot &slot)
{
    bool accepted = slot.kind == signal_kind::local;

    if ((slot.kind == signal_kind::ipc_attached) &&
        (setting_value(setting_ipc_handler) == ipc_handler_accept)) {
        accepted = true;
    }
    require(accepted, HSA_STATUS_ERROR_INVALID_SIGNAL);
}

} // namespace

void handlers_stop()
{
    std::thread *thread;
    std::vector<handler_pointer> rest;

    {
        std::lock_guard<std::mutex> guard(state().mutex);

        thread         = state().thread;
        state().thread = nullptr;
    }

    if (thread == nullptr) {
        return;
    }

    state().stop.store(true);
    bell_ring_certainly(node_self_slot());
    if (thread->get_id() == std::this_thread::get_id()) {
        thread->detach();
    } else {
        thread->join();
    }
    delete thread;

    {
        std::lock_guard<std::mutex> guard(state().mutex);
        rest = state().armed;
    }
    for (auto &handler : rest) {
        disarm(handler);
    }
}

void handlers_silence()
{
    state().silent.store(true);
}

void handlers_each(void (*visit)(uint64_t signal, void *data), void *data)
{
    std::lock_guard<std::mutex> guard(state().mutex);

    for (auto &handler : state().armed) {
        if (handler->slot != nullptr) {
            visit(handler->signal.handle, data);
        }
    }
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_amd_signal_async_handler(
        hsa_signal_t signal, hsa_signal_condition_t cond,
        hsa_signal_value_t value, hsa_amd_signal_handler handler, void *arg)
{
    return emul::call(fn_hsa_amd_signal_async_handler, [&] {
        require_argument(handler != nullptr);

        signal_slot &slot = signal_checked(signal);

        require_interrupts(slot);
        require(signal_retain(slot, signal), HSA_STATUS_ERROR_INVALID_SIGNAL);
        arm({signal, &slot, cond, value, handler, nullptr, arg});
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_async_function(void (*callback)(void *arg),
                                            void *arg)
{
    return emul::call(fn_hsa_amd_async_function, [&] {
        require_argument(callback != nullptr);
        arm({{0}, nullptr, HSA_SIGNAL_CONDITION_EQ, 0, nullptr, callback, arg});
        return HSA_STATUS_SUCCESS;
    });
}
