/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_HSA_COPY_ENGINE_H_
#define EMUL_HSA_COPY_ENGINE_H_

#include "signal.h"

#include <vector>

/*
 * Threads that do jobs in the background. A job that waits, for a gate, for
 * other signals or for the time that a slow link takes, does not keep others
 * from running: then there is one thread more.
 */

namespace emul {

struct copy_job {
    void                      *destination;
    const void                *source;
    size_t                    size;
    bool                      as_agent; /* or between host addresses */
    std::vector<hsa_signal_t> dependencies;
    std::vector<signal_slot*> dependency_slots;  /* retained */
    hsa_signal_t              completion;
    signal_slot               *completion_slot;  /* retained */
};

/** Hand a job over to the engine. Throws if it has no room. */
void copy_engine_submit(const copy_job &job);

} // namespace emul

#endif
