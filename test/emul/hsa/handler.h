/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_HANDLER_H_
#define EMUL_HSA_HANDLER_H_

#include <cstdint>

/*
 * The one thread that calls async signal handlers.
 */

namespace emul {

/** Stop the thread, if there is one, and forget all handlers. To be called
 *  without any lock; does not wait if called by the thread itself. */
void handlers_stop();

/** No further handler is called, although the thread may still exist: the
 *  process is exiting, and what handlers use may be gone. Does not wait. */
void handlers_silence();

/** Call visit(handle) with the signal of each armed handler. */
void handlers_each(void (*visit)(uint64_t signal, void *data), void *data);

} // namespace emul

#endif
