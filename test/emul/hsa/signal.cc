/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "signal.h"

#include "agent.h"

#include <core/counts.h>
#include <core/message.h>
#include <core/settings.h>
#include <core/shared_cells.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

namespace emul {

namespace {

constexpr unsigned chunk_slots = 1024;
constexpr unsigned max_chunks  = 4096;

/* Slots are never freed nor moved, so that looking one up takes no lock. */
struct signal_table {
    std::atomic<signal_slot*>    chunks[max_chunks];
    std::mutex                   mutex;
    unsigned                     used;    /* slots */
    std::vector<unsigned>        free;
    std::map<unsigned, uint64_t> by_cell; /* shared cell to living handle */
    std::map<unsigned, unsigned> holders; /* shared cell to number of slots,
                                             also of destroyed but retained */
};

signal_table &table()
{
    static signal_table *instance = new signal_table();
    return *instance;
}

signal_slot &slot_at(unsigned number)
{
    return table().chunks[number / chunk_slots].load()[number % chunk_slots];
}

/* Table locked */
signal_slot &slot_take()
{
    signal_table &t = table();
    unsigned number;

    if (!t.free.empty()) {
        number = t.free.back();
        t.free.pop_back();
        return slot_at(number);
    }

    number = t.used;
    require(number < chunk_slots * max_chunks,
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    if (number % chunk_slots == 0) {
        t.chunks[number / chunk_slots].store(new signal_slot[chunk_slots]());
    }
    ++t.used;
    slot_at(number).number = number;
    return slot_at(number);
}

/* Table locked. The value is at slot.where already. */
hsa_signal_t slot_open(signal_slot &slot, signal_kind kind)
{
    uint64_t handle = (uint64_t(++slot.generation) << 32) | (slot.number + 1);

    slot.kind = kind;
    slot.armed.store(0);
    slot.references.store(1);
    slot.retained.store(1);
    slot.handle.store(handle);
    return hsa_signal_t{handle};
}

emul_count_t count_of(signal_kind kind)
{
    switch (kind) {
    case signal_kind::ipc_created:
        return EMUL_COUNT_IPC_SIGNALS;
    case signal_kind::ipc_attached:
        return EMUL_COUNT_IPC_SIGNAL_ATTACHES;
    default:
        return EMUL_COUNT_SIGNALS;
    }
}

/* Table locked. Created ones and attached ones both take a kernel object. */
void require_room_for_ipc_signal()
{
    require(int64_t(table().by_cell.size()) <
            setting_value(setting_max_ipc_signals),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

hsa_signal_t create_local(hsa_signal_value_t value, signal_kind kind)
{
    std::lock_guard<std::mutex> guard(table().mutex);
    signal_slot &slot = slot_take();

    slot.where = &slot.own;
    slot.own.value.store(value);
    for (auto &word : slot.own.watchers.words) {
        word.store(0);
    }
    count_add(count_of(kind), 1);
    return slot_open(slot, kind);
}

/* Table locked */
hsa_signal_t open_shared(unsigned index, signal_kind kind)
{
    signal_slot &slot = slot_take();
    hsa_signal_t signal;

    slot.shared = index;
    slot.where  = &shared_cell_content(index);
    signal      = slot_open(slot, kind);
    count_add(count_of(kind), 1);
    table().by_cell[index] = signal.handle;
    ++table().holders[index];
    return signal;
}

/* Table locked. A cell that no slot uses can be another one's tomorrow. */
void release_unheld(unsigned index)
{
    if (table().holders[index] == 0) {
        table().holders.erase(index);
        shared_cell_release(index);
    }
}

hsa_signal_t create_ipc(hsa_signal_value_t value)
{
    std::lock_guard<std::mutex> guard(table().mutex);
    unsigned index;

    require_room_for_ipc_signal();
    index = shared_cell_create(value);
    require(index != nobody, HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    return open_shared(index, signal_kind::ipc_created);
}

hsa_signal_t attach(const handle &h)
{
    std::unique_lock<std::mutex> lock(table().mutex, std::defer_lock);
    unsigned index;

    /* With EMUL_LATE_ATTACH=block this may never come back: no lock. */
    shared_cell_wait_attachable(h);

    lock.lock();
    require_argument(shared_cell_attach(h, &index) == attach_result::done);

    auto known = table().by_cell.find(index);
    if (known != table().by_cell.end()) {
        signal_slot &slot = *signal_find(hsa_signal_t{known->second});

        slot.references.fetch_add(1);
        count_add(EMUL_COUNT_IPC_SIGNAL_ATTACHES, 1);
        return hsa_signal_t{known->second};
    }

    try {
        require_room_for_ipc_signal();
    } catch (const status_error&) {
        release_unheld(index);
        throw;
    }
    return open_shared(index, signal_kind::ipc_attached);
}

/* A further reference to a signal, of whatever kind, came from an attach */
void drop_reference(signal_slot &slot)
{
    emul_count_t what = count_of(slot.kind);

    if (slot.references.fetch_sub(1) > 1) {
        count_add(EMUL_COUNT_IPC_SIGNAL_ATTACHES, -1);
        return;
    }

    count_add(what, -1);
    slot.handle.store(0);
    if (slot.is_ipc()) {
        table().by_cell.erase(slot.shared);
    }
    if (slot.kind == signal_kind::ipc_created) {
        shared_cell_close(slot.shared);
    }
}

void destroy(hsa_signal_t signal)
{
    signal_slot *slot;
    bool last;

    {
        std::lock_guard<std::mutex> guard(table().mutex);

        slot = signal_find(signal);
        require(slot != nullptr, HSA_STATUS_ERROR_INVALID_SIGNAL);
        drop_reference(*slot);
        last = slot->handle.load() == 0;
    }

    if (last) {
        /* sleepers of this process look and find it destroyed */
        slot->changed();
        signal_release(*slot);
    }
}

bool has_cpu_consumer(uint32_t count, const hsa_agent_t *consumers)
{
    std::set<uint64_t> different;
    bool cpu = false;

    require_argument(consumers != nullptr);
    for (uint32_t i = 0; i < count; ++i) {
        different.insert(consumers[i].handle);
        cpu |= consumers[i].handle == agent_handle(cpu_number).handle;
    }
    require_argument(different.size() == count);
    return cpu;
}

hsa_signal_t create(hsa_signal_value_t value, uint32_t consumer_count,
                    const hsa_agent_t *consumers, uint64_t attributes)
{
    bool gpu_only = attributes & HSA_AMD_SIGNAL_AMD_GPU_ONLY;

    if (attributes & HSA_AMD_SIGNAL_IPC) {
        return create_ipc(value);
    }

    if (!gpu_only && (consumer_count != 0)) {
        gpu_only = !has_cpu_consumer(consumer_count, consumers);
    }
    return create_local(value, gpu_only ? signal_kind::gpu_only :
                                          signal_kind::local);
}

static_assert(sizeof(hsa_amd_ipc_signal_t) == sizeof(handle),
              "an IPC signal handle is a handle of the node");

} // namespace

signal_slot *signal_find(hsa_signal_t signal)
{
    unsigned number = unsigned(signal.handle) - 1;
    signal_slot *chunk;

    if ((signal.handle == 0) || (number >= chunk_slots * max_chunks)) {
        return nullptr;
    }

    chunk = table().chunks[number / chunk_slots].load();
    if ((chunk == nullptr) ||
        !signal_lives(chunk[number % chunk_slots], signal)) {
        return nullptr;
    }
    return &chunk[number % chunk_slots];
}

signal_slot &signal_checked(hsa_signal_t signal)
{
    signal_slot *slot;

    require_argument(signal.handle != 0);
    slot = signal_find(signal);
    require(slot != nullptr, HSA_STATUS_ERROR_INVALID_SIGNAL);
    return *slot;
}

signal_slot &signal_used(hsa_signal_t signal, const char *by)
{
    signal_slot *slot = signal_find(signal);

    if (slot == nullptr) {
        fatal("%s: signal %#lx has been destroyed or never existed", by,
              (unsigned long)signal.handle);
    }
    return *slot;
}

bool signal_retain(signal_slot &slot, hsa_signal_t signal)
{
    std::lock_guard<std::mutex> guard(table().mutex);

    if (!signal_lives(slot, signal)) {
        return false;
    }

    slot.retained.fetch_add(1);
    return true;
}

void signal_release(signal_slot &slot)
{
    std::lock_guard<std::mutex> guard(table().mutex);

    if (slot.retained.fetch_sub(1) > 1) {
        return;
    }

    if (slot.is_ipc()) {
        --table().holders[slot.shared];
        release_unheld(slot.shared);
    }
    table().free.push_back(slot.number);
}

bool signal_condition_met(hsa_signal_condition_t condition,
                          hsa_signal_value_t value,
                          hsa_signal_value_t compare_value)
{
    switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
        return value == compare_value;
    case HSA_SIGNAL_CONDITION_NE:
        return value != compare_value;
    case HSA_SIGNAL_CONDITION_LT:
        return value < compare_value;
    case HSA_SIGNAL_CONDITION_GTE:
        return value >= compare_value;
    default:
        return false;
    }
}

void signals_each(void (*visit)(const signal_slot &slot, void *data),
                  void *data)
{
    std::lock_guard<std::mutex> guard(table().mutex);

    for (unsigned number = 0; number < table().used; ++number) {
        if (slot_at(number).handle.load() != 0) {
            visit(slot_at(number), data);
        }
    }
}

void signals_destroy_all()
{
    for (unsigned number = 0; number < table().used; ++number) {
        uint64_t handle;

        while ((handle = slot_at(number).handle.load()) != 0) {
            destroy(hsa_signal_t{handle});
        }
    }
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_signal_create(hsa_signal_value_t initial_value,
                                       uint32_t num_consumers,
                                       const hsa_agent_t *consumers,
                                       hsa_signal_t *signal)
{
    return call(fn_hsa_signal_create, [&] {
        require_argument(signal != nullptr);
        *signal = create(initial_value, num_consumers, consumers, 0);
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_signal_create(hsa_signal_value_t initial_value,
                                           uint32_t num_consumers,
                                           const hsa_agent_t *consumers,
                                           uint64_t attributes,
                                           hsa_signal_t *signal)
{
    return call(fn_hsa_amd_signal_create, [&] {
        require_argument(signal != nullptr);
        *signal = create(initial_value, num_consumers, consumers, attributes);
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_signal_destroy(hsa_signal_t signal)
{
    return call(fn_hsa_signal_destroy, [&] {
        require_argument(signal.handle != 0);
        destroy(signal);
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_ipc_signal_create(hsa_signal_t signal,
                                               hsa_amd_ipc_signal_t *handle)
{
    return call(fn_hsa_amd_ipc_signal_create, [&] {
        require_argument(handle != nullptr);

        signal_slot &slot = signal_checked(signal);
        emul::handle h;

        /* Passing an attached one on works by the handle it came from */
        require_argument(slot.kind == signal_kind::ipc_created);
        h = shared_cell_export(slot.shared);
        memcpy(handle, &h, sizeof(h));
        return HSA_STATUS_SUCCESS;
    });
}

hsa_status_t HSA_API hsa_amd_ipc_signal_attach(
        const hsa_amd_ipc_signal_t *handle, hsa_signal_t *signal)
{
    return call(fn_hsa_amd_ipc_signal_attach, [&] {
        emul::handle h;

        require_argument((handle != nullptr) && (signal != nullptr));
        memcpy(&h, handle, sizeof(h));
        *signal = attach(h);
        return HSA_STATUS_SUCCESS;
    });
}
