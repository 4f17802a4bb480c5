/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_CONTEXT_H_
#define EMUL_CUDA_CONTEXT_H_

#include "api.h"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

/*
 * Contexts, and which one is current to a thread. A CUcontext is the address of
 * a context, which is never given back: a stale handle is known as one.
 */

namespace emul {

struct stream;

struct context {
    std::atomic<bool>       alive; /* a primary one can come back */
    std::atomic<int>        error; /* what all calls return once it is broken */
    int                     device;
    bool                    primary;
    std::atomic<unsigned>   flags;
    unsigned                api_version;
    unsigned long long      id;
    unsigned                retained; /* primary: lock of the contexts */

    std::atomic<stream*>    default_stream; /* nullptr: never used */
    std::mutex              mutex;          /* of all below, and who sets it */
    std::vector<stream*>    streams;        /* all that may have work */
    std::map<long, stream*> thread_streams; /* by thread */
};

/** The device numbers that exist: 0 to this. */
int device_count();

/** @return The device's number. Leaves the call if there is no such one. */
int device_checked(CUdevice device);

/** @return The context behind a handle. Leaves the call if there is none, or
 *          with @a if_gone if it is gone. A broken one is returned. */
context &context_checked(CUcontext handle,
                         CUresult if_gone = CUDA_ERROR_CONTEXT_IS_DESTROYED);

/** Leaves the call if the context is gone or broken. */
void context_require_healthy(const context &c);

/** @return The current context. Leaves the call if there is none, or it is gone
 *          or broken. */
context &context_current();

/** @return The current context even if it is gone or broken, or nullptr. */
context *context_current_any();

/** From now on every call for it returns this, or, as EMUL_ERROR_SCOPE says,
 *  every call of the process, as real drivers do. */
void context_break(context &c, CUresult status);

/** What it was broken by, or CUDA_SUCCESS. */
CUresult context_error(const context &c);

/** Leaves the call if the whole process is broken. */
void process_require_healthy();

/** Call visit(context&) for each one that lives. No lock is held. */
template<typename function> void contexts_each(function visit);
std::vector<context*> contexts_alive();

template<typename function> void contexts_each(function visit)
{
    for (context *c : contexts_alive()) {
        visit(*c);
    }
}

/** A call of a function that needs a current context. */
template<typename body_type>
CUresult call_in_context(function f, body_type body) noexcept
{
    return call(f, [&] { return body(context_current()); });
}

} // namespace emul

#endif
