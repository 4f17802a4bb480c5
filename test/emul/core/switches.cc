/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "switches.h"

#include "futex.h"
#include "message.h"
#include "node.h"

#include <cerrno>
#include <cstring>

namespace emul {

namespace {

point_record *point_find(const char *name)
{
    node_shared_t *shared = node_shared();

    for (unsigned i = 0; i < shared->points_used.load(); ++i) {
        if (!strcmp(shared->points[i].name, name)) {
            return &shared->points[i];
        }
    }
    return nullptr;
}

unsigned point_index(const point_record *point)
{
    return point - node_shared()->points;
}

/* It does not count yet. Node lock held. */
void point_write(unsigned index, const char *name, point_kind kind)
{
    point_record *point = &node_shared()->points[index];

    if ((index >= max_points) || (strlen(name) >= sizeof(point->name))) {
        fatal("no room for the name '%s'", name);
    }

    strcpy(point->name, name);
    point->kind = kind;
    point->armed.store(0);
}

bool same_target(const target &a, const target &b)
{
    return (a.pid == b.pid) && (a.serial == b.serial) &&
           ((a.serial != 0) || (a.pid == EMUL_ANY_PROCESS) ||
            (a.pid_namespace == b.pid_namespace));
}

template<typename function> void gates_each_closed(function visit)
{
    for (auto &gate : node_shared()->gates) {
        if (gate.closed.load()) {
            visit(gate);
        }
    }
}

template<typename function> void faults_each(function visit)
{
    for (auto &fault : node_shared()->faults) {
        if (fault.used.load()) {
            visit(fault);
        }
    }
}

void gate_open(gate_record &gate)
{
    gate.passes = 0;
    gate.closed.store(0);
    node_shared()->points[gate.point].armed.fetch_sub(1);
    futex_bump(node_shared()->gate_events);
}

void fault_drop(fault_record &fault)
{
    fault.used.store(0);
    node_shared()->points[fault.point].armed.fetch_sub(1);
}

/* Whoever is let through a gate for all and one for this process alone uses up
 * a pass of each. */
bool gate_try_pass(unsigned point, unsigned slot)
{
    bool passes   = true;
    auto is_meant = [&](const gate_record &gate) {
        return (gate.point == point) && target_matches(gate.whom, slot);
    };

    gates_each_closed([&](const gate_record &gate) {
        passes &= !is_meant(gate) || (gate.passes > 0);
    });
    if (passes) {
        gates_each_closed([&](gate_record &gate) {
            gate.passes -= is_meant(gate);
        });
    }
    return passes;
}

void gate_wait(unsigned point)
{
    node_shared_t *shared          = node_shared();
    std::atomic<uint32_t> &waiting = node_self()->waiting[point];
    uint32_t seen;
    bool counted                   = false;

    for (;;) {
        seen = shared->gate_events.load();
        {
            node_lock lock;

            if (gate_try_pass(point, node_self_slot())) {
                break;
            }
        }

        if (!counted) {
            waiting.fetch_add(1);
            counted = true;
        }
        futex_wait(shared->gate_events, seen);
    }

    if (counted) {
        waiting.fetch_sub(1);
    }
}

/* Every rule that matches counts the call; one for this process alone decides
 * before one for all. */
bool fault_apply(unsigned point, int *status_p)
{
    bool fails    = false;
    bool own_rule = false;
    node_lock lock;

    faults_each([&](fault_record &fault) {
        bool own = fault.whom.pid != EMUL_ANY_PROCESS;

        if ((fault.point != point) ||
            !target_matches(fault.whom, node_self_slot())) {
            return;
        }

        if (fault.skip > 0) {
            --fault.skip;
            return;
        }

        if (!fails || (own && !own_rule)) {
            *status_p = fault.status;
        }
        fails     = true;
        own_rule |= own;
        if (--fault.count == 0) {
            fault_drop(fault);
        }
    });
    return fails;
}

} // namespace

unsigned point_add(const char *name, point_kind kind)
{
    node_lock lock;
    point_record *point = point_find(name);
    unsigned index      = node_shared()->points_used.load();

    if (point != nullptr) {
        return point_index(point);
    }

    point_write(index, name, kind);
    node_shared()->points_used.store(index + 1);
    return index;
}

unsigned point_add_numbered(const char *name, unsigned count, point_kind kind)
{
    std::string prefix = std::string(name) + "-";
    node_lock lock;
    point_record *last = point_find((prefix + std::to_string(count - 1))
                                    .c_str());
    unsigned first     = node_shared()->points_used.load();

    if (last != nullptr) {
        return point_index(last) - (count - 1);
    }

    for (unsigned i = 0; i < count; ++i) {
        point_write(first + i, (prefix + std::to_string(i)).c_str(), kind);
    }
    node_shared()->points_used.store(first + count);
    return first;
}

bool point_pass(unsigned point, int *status_p)
{
    if (node_shared()->points[point].armed.load() == 0) {
        return false;
    }

    gate_wait(point);
    return fault_apply(point, status_p);
}

bool point_enter(unsigned point, int *status_p)
{
    node_self()->calls[point].fetch_add(1, std::memory_order_relaxed);
    return point_pass(point, status_p);
}

bool point_is_gated(unsigned point)
{
    return node_shared()->points[point].armed.load() != 0;
}

int calls_read(pid_t pid, const char *function, int64_t *value_p)
{
    node_lock lock;
    point_record *point = point_find(function);
    int64_t sum         = 0;

    if ((point == nullptr) || (point->kind == point_place)) {
        return -EINVAL;
    }

    processes_reap();
    processes_each(pid, [&](unsigned slot) {
        sum += node_shared()->processes[slot].calls[point_index(point)].load();
    });
    *value_p = sum;
    return 0;
}

int gate_waiters(pid_t pid, const char *name, int64_t *value_p)
{
    node_lock lock;
    point_record *point = point_find(name);
    int64_t sum         = 0;

    if (point == nullptr) {
        return -EINVAL;
    }

    processes_reap();
    processes_each(pid, [&](unsigned slot) {
        sum += node_shared()->processes[slot].waiting[point_index(point)]
               .load();
    });
    *value_p = sum;
    return 0;
}

int gate_set(pid_t pid, const char *name, bool closed)
{
    node_lock lock;
    point_record *point = point_find(name);
    gate_record *found  = nullptr;
    gate_record *spare  = nullptr;
    target whom;

    if (point == nullptr) {
        return -EINVAL;
    }

    processes_reap();
    whom = target_make(pid);
    for (auto &gate : node_shared()->gates) {
        if (!gate.closed.load()) {
            spare = &gate;
        } else if ((gate.point == point_index(point)) &&
                   same_target(gate.whom, whom)) {
            found = &gate;
        }
    }

    if (closed == (found != nullptr)) {
        return 0;
    }

    if (!closed) {
        gate_open(*found);
        return 0;
    }

    if (spare == nullptr) {
        return -ENOSPC;
    }

    spare->point  = point_index(point);
    spare->whom   = whom;
    spare->passes = 0;
    spare->closed.store(1);
    point->armed.fetch_add(1);
    return 0;
}

int gate_pass(pid_t pid, const char *name, uint64_t count)
{
    node_lock lock;
    point_record *point = point_find(name);
    gate_record *found  = nullptr;
    target whom;

    if (point == nullptr) {
        return -EINVAL;
    }

    processes_reap();
    whom = target_make(pid);
    gates_each_closed([&](gate_record &gate) {
        if ((gate.point == point_index(point)) &&
            same_target(gate.whom, whom)) {
            found = &gate;
        }
    });
    if (found == nullptr) {
        return -ENOENT;
    }

    found->passes += count;
    futex_bump(node_shared()->gate_events);
    return 0;
}

int fault_set(pid_t pid, const char *function, uint64_t nth, uint64_t count,
              int status)
{
    node_lock lock;
    point_record *point = point_find(function);
    fault_record *spare = nullptr;
    target whom;

    if ((point == nullptr) || (point->kind == point_plain_function) ||
        ((nth == 0) && (count > 0))) {
        return -EINVAL;
    }

    processes_reap();
    whom = target_make(pid);
    for (auto &fault : node_shared()->faults) {
        if (fault.used.load() && (fault.point == point_index(point)) &&
            same_target(fault.whom, whom)) {
            fault_drop(fault);
        }
        if (!fault.used.load()) {
            spare = &fault;
        }
    }

    if (count == 0) {
        return 0;
    }

    if (spare == nullptr) {
        return -ENOSPC;
    }

    spare->point  = point_index(point);
    spare->whom   = whom;
    spare->skip   = nth - 1;
    spare->count  = count;
    spare->status = status;
    spare->used.store(1);
    point->armed.fetch_add(1);
    return 0;
}

void switches_resolve(unsigned slot)
{
    const process_record &process = node_shared()->processes[slot];
    auto resolve                  = [&](target &whom) {
        if ((whom.pid != EMUL_ANY_PROCESS) && (whom.serial == 0) &&
            (whom.pid == process.pid) &&
            (whom.pid_namespace == process.pid_namespace)) {
            whom.serial = process.serial.load();
        }
    };

    gates_each_closed([&](gate_record &gate) { resolve(gate.whom); });
    faults_each([&](fault_record &fault) { resolve(fault.whom); });
}

void switches_drop_process(uint64_t serial)
{
    gates_each_closed([&](gate_record &gate) {
        if (gate.whom.serial == serial) {
            gate_open(gate);
        }
    });
    faults_each([&](fault_record &fault) {
        if (fault.whom.serial == serial) {
            fault_drop(fault);
        }
    });
}

void switches_repair()
{
    node_shared_t *shared = node_shared();

    for (unsigned i = 0; i < shared->points_used.load(); ++i) {
        shared->points[i].armed.store(0);
    }
    gates_each_closed([&](gate_record &gate) {
        shared->points[gate.point].armed.fetch_add(1);
    });
    faults_each([&](fault_record &fault) {
        shared->points[fault.point].armed.fetch_add(1);
    });
    futex_bump(shared->gate_events);
}

} // namespace emul
