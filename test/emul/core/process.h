/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_PROCESS_H_
#define EMUL_CORE_PROCESS_H_

/*
 * The processes of a node: their slots, and what happens when one goes.
 */

namespace emul {

/** Take a slot for this process and the record lock that shows that it lives.
 *  Node lock held. @return nobody if all slots are taken. */
unsigned process_enter(int fd);

/** Drop all that belongs to the process in this slot. Node lock held. */
void process_remove(unsigned slot);

/** @return The pid of the process in this slot, as this process's namespace
 *          calls it; 0 if it has none here. Node lock held. */
int process_pid_here(unsigned slot);

/** Whether any process holds a record lock on this control block, whatever
 *  its layout. */
bool process_locks_any(int fd);

/** The open control block. */
int node_descriptor();

} // namespace emul

#endif
