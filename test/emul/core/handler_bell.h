/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_HANDLER_BELL_H_
#define EMUL_CORE_HANDLER_BELL_H_

#include <cstdint>

/*
 * Each process has a bell in its record, for which its handler thread sleeps.
 * Whatever that thread should look at rings it, from any process. With
 * EMUL_HANDLER_WAKEUP the bell can be made as unreliable as real ones were:
 *
 *   prompt  rings at every event
 *   late    an event is only noticed when another one follows, from another
 *           source; then the thread looks at everything
 *   lost    never rings
 */

namespace emul {

/** An event from this source for the process in this slot. A source is any
 *  number except 0 that tells signals apart. */
void bell_ring(unsigned slot, uint64_t source);

/** Ring always, whatever the setting: the thread has to end. */
void bell_ring_certainly(unsigned slot);

/** Ring every bell of the node. */
void bells_ring_all();

/** The handler thread is about to look at everything.
 *  @return What to pass to bell_wait afterwards. */
uint32_t bell_answer();

/** Sleep until the bell has rung since bell_answer() returned @a seen. */
void bell_wait(uint32_t seen);

} // namespace emul

#endif
