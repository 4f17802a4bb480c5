/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "allocation.h"

#include "counts.h"
#include "futex.h"
#include "node.h"
#include "table.h"

#include <fcntl.h>
#include <unistd.h>

namespace emul {

namespace {

allocation_record &record(unsigned index)
{
    return node_shared()->allocations[index];
}

attach_record &attach(unsigned index)
{
    return node_shared()->attaches[index];
}

/* Give the memory back to its device */
void release(allocation_record &a)
{
    node_shared()->charged[a.device] -= a.charged;
    a.id.store(0);
}

/* From now on the file lives only by its mappings */
void orphan(allocation_record &a)
{
    unlink(node_memory_path(a.id.load()).c_str());
    a.state = allocation_orphan;
    a.owner = nobody;
    if (a.attached == 0) {
        release(a);
    }
}

void drop_attach(attach_record &at)
{
    allocation_record &a = record(at.allocation);

    at.used.store(0);
    if ((--a.attached == 0) && (a.state == allocation_orphan)) {
        release(a);
    }
    futex_bump(node_shared()->memory_events);
}

int create_file(uint64_t id, size_t size)
{
    std::string path = node_memory_path(id);
    int fd           = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                            0600);

    if ((fd >= 0) && (ftruncate(fd, size) != 0)) {
        close(fd);
        unlink(path.c_str());
        return -1;
    }
    return fd;
}

/* @return Index, or nobody: no capacity or no record */
unsigned charge(unsigned device, size_t size, uint64_t id)
{
    static unsigned hint  = 0; /* only under the node lock */
    node_shared_t *shared = node_shared();
    uint64_t capacity     = setting_value(setting_gpu_memory);
    uint64_t charged      = page_align(size);
    node_lock lock;
    unsigned index;

    if (charged > capacity - std::min(capacity, shared->charged[device])) {
        processes_reap();
        if (charged > capacity - std::min(capacity, shared->charged[device])) {
            return nobody;
        }
    }

    index = table_find_free(shared->allocations_used, max_allocations, &hint,
                            [](unsigned i) { return !record(i).id.load(); });
    if (index == nobody) {
        return nobody;
    }

    allocation_record &a = record(index);
    a.size               = size;
    a.charged            = charged;
    a.device             = device;
    a.owner              = node_self_slot();
    a.state              = allocation_live;
    a.attached           = 0;
    if (index >= shared->allocations_used) {
        shared->allocations_used = index + 1;
    }
    shared->charged[device] += charged;
    a.id.store(id);
    return index;
}

/* Node lock held. The owner lives, the allocation is attachable. */
attach_result attach_live(unsigned allocation, memory_file *file_p)
{
    static unsigned hint  = 0; /* only under the node lock */
    node_shared_t *shared = node_shared();
    allocation_record &a  = record(allocation);
    unsigned index;

    index = table_find_free(shared->attaches_used, max_attaches, &hint,
                            [](unsigned i) { return !attach(i).used.load(); });
    if (index == nobody) {
        return attach_result::no_room;
    }

    file_p->fd = open(node_memory_path(a.id.load()).c_str(),
                      O_RDWR | O_CLOEXEC);
    if (file_p->fd < 0) {
        return attach_result::no_room;
    }

    attach(index).allocation = allocation;
    attach(index).process    = node_self_slot();
    if (index >= shared->attaches_used) {
        shared->attaches_used = index + 1;
    }
    attach(index).used.store(1);
    ++a.attached;

    file_p->index  = index;
    file_p->device = a.device;
    file_p->size   = a.size;
    return attach_result::done;
}

attach_result attach_try(const handle &h, size_t length, memory_file *file_p)
{
    node_lock lock;
    allocation_record &a = record(h.index);

    if (!handle_owner_alive(h)) {
        return attach_result::invalid;
    }

    if ((a.id.load() != h.id) || (a.state != allocation_live)) {
        return attach_result::gone;
    }

    if ((length == 0) || (length > a.charged)) {
        return attach_result::invalid;
    }

    return attach_live(h.index, file_p);
}

} // namespace

bool allocation_create(unsigned device, size_t size, memory_file *file_p)
{
    uint64_t id = node_shared()->next_id.fetch_add(1);
    int fd;
    unsigned index;

    if (size > uint64_t(setting_value(setting_gpu_memory))) {
        return false;
    }

    fd = create_file(id, page_align(size));
    if (fd < 0) {
        return false;
    }

    index = charge(device, size, id);
    if (index == nobody) {
        close(fd);
        unlink(node_memory_path(id).c_str());
        return false;
    }

    *file_p = {fd, index, device, size};
    count_add(EMUL_COUNT_ALLOCATIONS, 1);
    count_add(EMUL_COUNT_BYTES_ALLOCATED, page_align(size));
    return true;
}

static bool free_must_wait(unsigned index)
{
    node_lock lock;
    allocation_record &a = record(index);

    /* no attach from here on: attach_try looks at the state under the lock */
    a.state = allocation_freeing;
    if (a.attached != 0) {
        processes_reap();
    }
    return (a.attached != 0) && (setting_value(setting_free) == free_block);
}

void allocation_wait_detached(unsigned index)
{
    uint32_t seen = node_shared()->memory_events.load();
    bool counted  = false;

    while (free_must_wait(index)) {
        if (!counted) {
            count_add(EMUL_COUNT_FREES_BLOCKED, 1);
            counted = true;
        }
        futex_wait(node_shared()->memory_events, seen, death_check_interval_ns);
        seen = node_shared()->memory_events.load();
    }

    if (counted) {
        count_add(EMUL_COUNT_FREES_BLOCKED, -1);
    }
}

void allocation_release(unsigned index)
{
    node_lock lock;

    count_add(EMUL_COUNT_ALLOCATIONS, -1);
    count_add(EMUL_COUNT_BYTES_ALLOCATED, -int64_t(record(index).charged));
    orphan(record(index));
}

handle allocation_export(unsigned index)
{
    return handle_make(handle_kind::allocation, record(index).id.load(), index);
}

attach_result allocation_attach(const handle &h, size_t length,
                                memory_file *file_p)
{
    attach_result result;
    uint32_t seen;

    if (!handle_valid(handle_kind::allocation, h)) {
        return attach_result::invalid;
    }

    for (;;) {
        seen   = node_shared()->memory_events.load();
        result = attach_try(h, length, file_p);
        if ((result != attach_result::gone) ||
            (setting_value(setting_late_attach) == late_attach_error)) {
            break;
        }
        futex_wait(node_shared()->memory_events, seen, death_check_interval_ns);
    }

    if (result == attach_result::done) {
        count_add(EMUL_COUNT_ATTACHES, 1);
    }
    return result;
}

void allocation_detach(unsigned attach_index)
{
    node_lock lock;

    drop_attach(attach(attach_index));
    count_add(EMUL_COUNT_ATTACHES, -1);
}

uint64_t allocations_charged()
{
    uint64_t sum = 0;

    for (unsigned device = 0; device < max_devices; ++device) {
        sum += allocations_charged(device);
    }
    return sum;
}

uint64_t allocations_charged(unsigned device)
{
    return node_shared()->charged[device];
}

void attaches_drop_process(unsigned slot)
{
    for (unsigned i = 0; i < node_shared()->attaches_used; ++i) {
        if (attach(i).used.load() && (attach(i).process == slot)) {
            drop_attach(attach(i));
        }
    }
}

void allocations_drop_process(unsigned slot)
{
    for (unsigned i = 0; i < node_shared()->allocations_used; ++i) {
        if ((record(i).id.load() != 0) && (record(i).owner == slot)) {
            orphan(record(i));
        }
    }
}

void allocations_repair()
{
    node_shared_t *shared = node_shared();

    for (auto &charged : shared->charged) {
        charged = 0;
    }

    for (unsigned i = 0; i < shared->allocations_used; ++i) {
        record(i).attached = 0;
    }
    for (unsigned i = 0; i < shared->attaches_used; ++i) {
        if (attach(i).used.load()) {
            ++record(attach(i).allocation).attached;
        }
    }

    for (unsigned i = 0; i < shared->allocations_used; ++i) {
        allocation_record &a = record(i);

        if (a.id.load() == 0) {
            continue;
        }

        shared->charged[a.device] += a.charged;
        if ((a.state == allocation_orphan) && (a.attached == 0)) {
            release(a);
        }
    }
}

} // namespace emul
