/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_COPY_H_
#define EMUL_HSA_COPY_H_

#include <cstddef>

/*
 * Copying memory, and the engine for copies in the background.
 */

namespace emul {

/** Copy between addresses as agents see them. Ends the process like a GPU does,
 *  if a part is not mapped for the agents. */
void copy_as_agent(void *destination, const void *source, size_t size);

/** Wait until no copy is under way. */
void copies_drain();

/** The process is exiting: copies that end later do nothing any more. */
void copies_silence();

} // namespace emul

#endif
