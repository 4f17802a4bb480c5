/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_NODE_H_
#define EMUL_CORE_NODE_H_

#include "layout.h"

#include <string>

/*
 * The emulated node as this process sees it.
 *
 * A node is a directory: the control block ("node") and one file for each
 * allocation ("mem-<id>"). The first process creates it, the last one that
 * leaves removes it, and whoever finds one without a living process throws it
 * away and starts anew.
 *
 * Creation, joining and leaving are serialised by flock() on the control block;
 * who gets the lock of a file that meanwhile has been removed starts again.
 *
 * A process is alive as long as the kernel holds its record lock (fcntl) on the
 * byte of the control block that belongs to its slot: the kernel drops it at
 * whatever death, a forked child does not inherit it, and other PID namespaces
 * see it. Therefore the control block must be opened only once in a process.
 */

namespace emul {

/** Join the node of this process, once. Any thread. After fork() the child is
 *  not on the node and cannot join: false. Also false, with a message, if the
 *  node cannot be used. */
bool node_join();

/** Whether this process has joined and is not a forked child. */
bool node_joined();

/** Whether this process was forked by one that had joined. */
bool node_is_forked_child();

/** Whether this process has left, because it exits. */
bool node_has_left();

/** Leave: everything of this process is dropped, the last one removes the node.
 *  The mapping stays, since threads may still look at it. */
void node_leave();

/** Map an existing node without joining it, for a look at its counts.
 *  @return false if there is none. */
bool node_observe();

/** The control block; only after a successful join or observe. */
node_shared_t *node_shared();

/** This process's record and slot; only after a join. */
process_record *node_self();
unsigned node_self_slot();

/** Path of a file in the node's directory. */
std::string node_path(const std::string &name);

/** Path of the file behind an allocation. */
std::string node_memory_path(uint64_t allocation_id);

/** Holds the lock of the control block. Never held over a call to anything
 *  outside of core, nor over a wait. */
class node_lock {
public:
    /** @param leaving  Only node_leave: not to be kept out after it. */
    explicit node_lock(bool leaving = false);
    ~node_lock();

    node_lock(const node_lock &)            = delete;
    node_lock &operator=(const node_lock &) = delete;
};

/** A process that is killed makes no event: how often those look for it who
 *  wait for something that its death would change. */
constexpr int64_t death_check_interval_ns = 5 * 1000 * 1000;

/** Whether the process in this slot is alive. Lock held. */
bool process_alive(unsigned slot);

/** Drop what dead processes have left. Lock held. */
void processes_reap();

/** Whether a switch is meant for the process in this slot. Lock held. */
bool target_matches(const target &whom, unsigned slot);

/** @return The target for a pid as this process knows it. Lock held. */
target target_make(pid_t pid);

/** Call visit(slot) for each live process with this pid, or all. Lock held. */
template<typename function> void processes_each(pid_t pid, function visit)
{
    target whom = target_make(pid);

    for (unsigned slot = 0; slot < max_processes; ++slot) {
        if ((node_shared()->processes[slot].serial.load() != 0) &&
            target_matches(whom, slot)) {
            visit(slot);
        }
    }
}

} // namespace emul

#endif
