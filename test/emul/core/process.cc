/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "process.h"

#include "allocation.h"
#include "futex.h"
#include "node.h"
#include "shared_cells.h"
#include "switches.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emul {

namespace {

/* Far behind the data, so that a lock never means a part of the data. */
constexpr off_t liveness_bytes = off_t(1) << 40;

struct flock slot_lock(unsigned first, unsigned count)
{
    struct flock lock = {};

    lock.l_type   = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start  = liveness_bytes + first;
    lock.l_len    = count;
    return lock;
}

/* @return The pid, as seen from here, of a holder in the range; 0: invisible
 *         from this namespace; -1: nobody holds it. */
pid_t slot_holder(int fd, unsigned first, unsigned count)
{
    struct flock lock = slot_lock(first, count);

    if ((fcntl(fd, F_GETLK, &lock) != 0) || (lock.l_type == F_UNLCK)) {
        return -1;
    }
    return (lock.l_pid < 0) ? 0 : lock.l_pid;
}

uint64_t own_pid_namespace()
{
    struct stat file;

    return (stat("/proc/self/ns/pid", &file) == 0) ? file.st_ino : 0;
}

/* Clock ticks since boot: with the pid it names a process for ever */
uint64_t own_start_time()
{
    unsigned long long start = 0;
    char line[1024];
    const char *fields;
    FILE *file;

    file = fopen("/proc/self/stat", "re");
    if (file == nullptr) {
        return 0;
    }

    /* the command's name may hold blanks; fields count from its ')' */
    if ((fgets(line, sizeof(line), file) != nullptr) &&
        ((fields = strrchr(line, ')')) != nullptr)) {
        sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u"
               " %*u %*d %*d %*d %*d %*d %*d %llu", &start);
    }
    fclose(file);
    return start;
}

/* A record lock never conflicts with its own process: another emulated runtime
 * in this process, with a core of its own, looks unlocked from here. */
bool is_this_process(const process_record &process)
{
    static const uint64_t pid_namespace = own_pid_namespace();
    static const uint64_t start_time    = own_start_time();

    return (process.pid == getpid()) &&
           (process.pid_namespace == pid_namespace) &&
           (process.start_time == start_time);
}

} // namespace

unsigned process_enter(int fd)
{
    node_shared_t *shared = node_shared();

    for (unsigned slot = 0; slot < max_processes; ++slot) {
        process_record &process = shared->processes[slot];
        struct flock lock       = slot_lock(slot, 1);

        if ((process.serial.load() != 0) ||
            (fcntl(fd, F_SETLK, &lock) != 0)) {
            continue;
        }

        process.pid           = getpid();
        process.pid_namespace = own_pid_namespace();
        process.start_time    = own_start_time();
        process.bell.store(0);
        process.last_source.store(0);
        for (auto &tally : process.tallies) {
            tally.store(0);
        }
        /* beyond, no earlier process can have left anything */
        for (unsigned i = 0; i < shared->points_used.load(); ++i) {
            process.calls[i].store(0);
            process.waiting[i].store(0);
        }
        process.serial.store(shared->next_id.fetch_add(1));
        switches_resolve(slot);
        return slot;
    }

    return nobody;
}

bool process_alive(unsigned slot)
{
    const process_record &process = node_shared()->processes[slot];

    return is_this_process(process) ||
           (slot_holder(node_descriptor(), slot, 1) >= 0);
}

bool process_locks_any(int fd)
{
    return slot_holder(fd, 0, max_processes) >= 0;
}

void process_remove(unsigned slot)
{
    process_record &process = node_shared()->processes[slot];
    uint64_t serial         = process.serial.load();

    /* Each step can be done twice: whoever finds the slot still taken after
     * this process was killed half way does all of them again. */
    attaches_drop_process(slot);
    allocations_drop_process(slot);
    shared_cells_drop_process(slot);
    switches_drop_process(serial);
    process.serial.store(0);
    futex_bump(node_shared()->memory_events);
}

void processes_reap()
{
    for (unsigned slot = 0; slot < max_processes; ++slot) {
        if ((node_shared()->processes[slot].serial.load() != 0) &&
            !process_alive(slot)) {
            process_remove(slot);
        }
    }
}

int process_pid_here(unsigned slot)
{
    static const uint64_t pid_namespace = own_pid_namespace();
    const process_record &process       = node_shared()->processes[slot];

    /* the kernel knows what the other namespace's process is called here */
    return (process.pid_namespace == pid_namespace) ?
           process.pid : std::max(0, slot_holder(node_descriptor(), slot, 1));
}

target target_make(pid_t pid)
{
    target whom = {pid, own_pid_namespace(), 0};

    if (pid == EMUL_ANY_PROCESS) {
        return whom;
    }

    for (unsigned slot = 0; slot < max_processes; ++slot) {
        uint64_t serial = node_shared()->processes[slot].serial.load();

        if ((serial != 0) && (process_pid_here(slot) == pid)) {
            whom.serial = serial;
            break;
        }
    }
    return whom;
}

bool target_matches(const target &whom, unsigned slot)
{
    const process_record &process = node_shared()->processes[slot];

    if (whom.pid == EMUL_ANY_PROCESS) {
        return true;
    }

    return (whom.serial != 0) && (whom.serial == process.serial.load());
}

} // namespace emul
