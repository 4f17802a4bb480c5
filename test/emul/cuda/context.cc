/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "context.h"

#include "event.h"
#include "memory.h"
#include "stream.h"

#include <core/counts.h>
#include <core/message.h>
#include <core/settings.h>

#include <algorithm>

namespace emul {

namespace {

constexpr unsigned max_depth = 256; /* of a thread's stack of contexts */

/* What the first context that broke was broken by */
std::atomic<int> process_error{CUDA_SUCCESS};

struct contexts {
    std::mutex            mutex;
    std::vector<context*> all;      /* that ever were */
    std::vector<context*> primary;  /* by device; nullptr: never used */
    unsigned long long    next_id;
};

contexts &the_contexts()
{
    static contexts *instance = new contexts{
            {}, {}, std::vector<context*>(max_devices, nullptr), 1};
    return *instance;
}

/* Plain data: it is used by whatever thread ends last */
thread_local struct {
    context  *items[max_depth];
    unsigned depth;
} stack;

/* Contexts locked */
context *make_context(contexts &all, int device, bool primary, unsigned flags)
{
    context *c = new context();

    c->device      = device;
    c->primary     = primary;
    c->api_version = 3020;
    c->flags.store(flags);
    all.all.push_back(c);
    return c;
}

/* Contexts locked */
void bring_to_life(contexts &all, context &c)
{
    c.id = all.next_id++;
    c.error.store(CUDA_SUCCESS);
    c.default_stream.store(nullptr);
    c.alive.store(true);
    count_add(EMUL_COUNT_CONTEXTS, 1);
}

/* What is under way is waited for, as the real one does; then all that belongs
 * to it goes. */
void destroy(context &c)
{
    context_drain(c);
    c.alive.store(false);
    context_close_streams(c);
    events_drop_context(c);
    memory_drop_context(c);
    count_add(EMUL_COUNT_CONTEXTS, -1);
}

void push(context *c)
{
    require(stack.depth < max_depth, CUDA_ERROR_OUT_OF_MEMORY);
    stack.items[stack.depth++] = c;
}

context &primary_context(int device)
{
    contexts &all = the_contexts();
    context *&c   = all.primary[device];

    if (c == nullptr) {
        c = make_context(all, device, true, 0);
    }
    return *c;
}

void require_flags(unsigned flags)
{
    /* one of the four ways to wait, and single bits */
    unsigned scheduling = flags & CU_CTX_SCHED_MASK;

    require_value((flags & ~unsigned(CU_CTX_FLAGS_MASK)) == 0);
    require_value((scheduling & (scheduling - 1)) == 0);
}

CUresult create(CUcontext *handle_p, unsigned flags, CUdevice device)
{
    contexts &all = the_contexts();
    context *c;

    process_require_healthy();
    require_value(handle_p != nullptr);
    require_flags(flags);
    device_checked(device);

    {
        std::lock_guard<std::mutex> guard(all.mutex);

        c = make_context(all, device, false, flags);
        bring_to_life(all, *c);
    }
    push(c);
    *handle_p = CUcontext(c);
    return CUDA_SUCCESS;
}

CUresult destroy_created(CUcontext handle)
{
    context &c = context_checked(handle);

    process_require_healthy();
    require(!c.primary, CUDA_ERROR_INVALID_CONTEXT);
    destroy(c);
    if ((stack.depth > 0) && (stack.items[stack.depth - 1] == &c)) {
        --stack.depth;
    }
    return CUDA_SUCCESS;
}

CUresult retain(CUcontext *handle_p, CUdevice device)
{
    contexts &all = the_contexts();

    require_value(handle_p != nullptr);
    device_checked(device);

    std::lock_guard<std::mutex> guard(all.mutex);
    context &c = primary_context(device);

    if (c.retained++ == 0) {
        bring_to_life(all, c);
    }
    *handle_p = CUcontext(&c);
    return CUDA_SUCCESS;
}

CUresult release(CUdevice device, bool all_references)
{
    contexts &all = the_contexts();
    context *c;

    device_checked(device);

    {
        std::lock_guard<std::mutex> guard(all.mutex);

        c = &primary_context(device);
        if (all_references) {
            if (c->retained == 0) {
                return CUDA_SUCCESS;
            }
            c->retained = 1;
        }
        require(c->retained > 0, CUDA_ERROR_INVALID_CONTEXT);
        if (--c->retained > 0) {
            return CUDA_SUCCESS;
        }
    }
    destroy(*c);
    return CUDA_SUCCESS;
}

/* Where a real driver crashes */
context &context_or_abort(CUcontext handle, const char *function)
{
    try {
        return context_checked(handle);
    } catch (const status_error &error) {
        if (error.status == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
            fatal("%s: the context %p was destroyed", function,
                  (void*)handle);
        }
        throw;
    }
}

CUresult set_current(CUcontext handle)
{
    context *c = (handle == nullptr) ? nullptr :
                 &context_or_abort(handle, "cuCtxSetCurrent");

    if (stack.depth > 0) {
        --stack.depth;
    }
    if (c != nullptr) {
        push(c);
    }
    return CUDA_SUCCESS;
}

CUresult pop_current(CUcontext *handle_p)
{
    require(stack.depth > 0, CUDA_ERROR_INVALID_CONTEXT);
    --stack.depth;
    if (handle_p != nullptr) {
        *handle_p = CUcontext(stack.items[stack.depth]);
    }
    return CUDA_SUCCESS;
}

} // namespace

context &context_checked(CUcontext handle, CUresult if_gone)
{
    contexts &all = the_contexts();
    context *c    = (context*)handle;
    std::lock_guard<std::mutex> guard(all.mutex);

    require(std::find(all.all.begin(), all.all.end(), c) != all.all.end(),
            CUDA_ERROR_INVALID_CONTEXT);
    require(c->alive.load(), if_gone);
    return *c;
}

void context_require_healthy(const context &c)
{
    CUresult error = context_error(c);

    require(c.alive.load(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(error == CUDA_SUCCESS, error);
}

context *context_current_any()
{
    return (stack.depth > 0) ? stack.items[stack.depth - 1] : nullptr;
}

context &context_current()
{
    context *c = context_current_any();

    require(c != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    context_require_healthy(*c);
    return *c;
}

void context_break(context &c, CUresult status)
{
    int healthy = CUDA_SUCCESS;

    c.error.compare_exchange_strong(healthy, status);
    if (setting_value(setting_error_scope) == error_scope_process) {
        healthy = CUDA_SUCCESS;
        process_error.compare_exchange_strong(healthy, status);
    }
}

CUresult context_error(const context &c)
{
    CUresult error = CUresult(c.error.load());

    return (error != CUDA_SUCCESS) ? error : CUresult(process_error.load());
}

void process_require_healthy()
{
    CUresult error = CUresult(process_error.load());

    require(error == CUDA_SUCCESS, error);
}

std::vector<context*> contexts_alive()
{
    contexts &all = the_contexts();
    std::lock_guard<std::mutex> guard(all.mutex);
    std::vector<context*> alive;

    std::copy_if(all.all.begin(), all.all.end(), std::back_inserter(alive),
                 [](const context *c) { return c->alive.load(); });
    return alive;
}

} // namespace emul

using namespace emul;

/* The flags of a context that is not there are kept for the next one */
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return call(fn_cuDevicePrimaryCtxSetFlags, [&] {
        std::lock_guard<std::mutex> guard(the_contexts().mutex);

        device_checked(dev);
        require_flags(flags);
        primary_context(dev).flags.store(flags);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags,
                                            int *active)
{
    return call(fn_cuDevicePrimaryCtxGetState, [&] {
        std::lock_guard<std::mutex> guard(the_contexts().mutex);

        device_checked(dev);
        require_value((flags != nullptr) && (active != nullptr));
        *flags  = primary_context(dev).flags.load();
        *active = primary_context(dev).alive.load();
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    return call(fn_cuDevicePrimaryCtxRetain, [&] { return retain(pctx, dev); });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return call(fn_cuDevicePrimaryCtxRelease,
                [&] { return release(dev, false); });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev)
{
    return call(fn_cuDevicePrimaryCtxReset, [&] { return release(dev, true); });
}

/* The names by which programs built with other toolkits call it */
#undef cuCtxCreate

extern "C" __attribute__((visibility("default")))
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return call(fn_cuCtxCreate, [&] { return create(pctx, flags, dev); });
}

extern "C" __attribute__((visibility("default")))
CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *parameters,
                        int count, unsigned int flags, CUdevice dev)
{
    return call(fn_cuCtxCreate, [&] {
        require((parameters == nullptr) && (count == 0),
                CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        return create(pctx, flags, dev);
    });
}

#if CUDA_VERSION >= 12050
extern "C" __attribute__((visibility("default")))
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *parameters,
                        unsigned int flags, CUdevice dev)
{
    return call(fn_cuCtxCreate, [&] {
        require(parameters == nullptr, CUDA_ERROR_NOT_SUPPORTED);
        return create(pctx, flags, dev);
    });
}
#endif

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx)
{
    return call(fn_cuCtxDestroy, [&] { return destroy_created(ctx); });
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx)
{
    return call(fn_cuCtxDetach, [&] { return destroy_created(ctx); });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
    return call(fn_cuCtxPushCurrent, [&] {
        context &c = context_or_abort(ctx, "cuCtxPushCurrent");

        push(&c);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx)
{
    return call(fn_cuCtxPopCurrent, [&] { return pop_current(pctx); });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
    return call(fn_cuCtxSetCurrent, [&] { return set_current(ctx); });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
    return call(fn_cuCtxGetCurrent, [&] {
        require_value(pctx != nullptr);
        *pctx = CUcontext(context_current_any());
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    return call(fn_cuCtxGetDevice, [&] {
        context *c = context_current_any();

        require_value(device != nullptr);
        require(c != nullptr, CUDA_ERROR_INVALID_CONTEXT);
        require(c->alive.load(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        *device = c->device;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    return call_in_context(fn_cuCtxGetFlags, [&](context &c) {
        require_value(flags != nullptr);
        *flags = c.flags.load();
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
    return call_in_context(fn_cuCtxSetFlags, [&](context &c) {
        require_flags(flags);
        c.flags.store(flags);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    return call(fn_cuCtxGetId, [&] {
        context &c = (ctx == nullptr) ? context_current() :
                                        context_checked(ctx);

        require_value(ctxId != nullptr);
        *ctxId = c.id;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    return call(fn_cuCtxGetApiVersion, [&] {
        context &c = (ctx == nullptr) ?
                     context_current() :
                     context_checked(ctx, CUDA_ERROR_INVALID_CONTEXT);

        require_value(version != nullptr);
        *version = c.api_version;
        return CUDA_SUCCESS;
    });
}

static CUresult synchronize(context &c)
{
    context_drain(c);
    context_require_healthy(c);
    return CUDA_SUCCESS;
}

#undef cuCtxSynchronize

extern "C" __attribute__((visibility("default")))
CUresult cuCtxSynchronize(void)
{
    return call_in_context(fn_cuCtxSynchronize,
                           [](context &c) { return synchronize(c); });
}

extern "C" __attribute__((visibility("default")))
CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    return call(fn_cuCtxSynchronize, [&] {
        context &c = (ctx == nullptr) ? context_current() :
                                        context_checked(ctx);

        context_require_healthy(c);
        return synchronize(c);
    });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority,
                                             int *greatestPriority)
{
    return call_in_context(fn_cuCtxGetStreamPriorityRange, [&](context &) {
        if (leastPriority != nullptr) {
            *leastPriority = 0;
        }
        if (greatestPriority != nullptr) {
            *greatestPriority = -5;
        }
        return CUDA_SUCCESS;
    });
}

/* Every GPU of the node reaches the memory of every other one */
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext,
                                       unsigned int Flags)
{
    return call_in_context(fn_cuCtxEnablePeerAccess, [&](context &c) {
        context &peer = context_checked(peerContext);

        require_value(Flags == 0);
        require(peer.device != c.device, CUDA_ERROR_INVALID_DEVICE);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext)
{
    return call_in_context(fn_cuCtxDisablePeerAccess, [&](context &) {
        context_checked(peerContext);
        return CUDA_SUCCESS;
    });
}

EMUL_ALSO(cuCtxCreate, cuCtxCreate_v2);
EMUL_ALSO(cuCtxDestroy, cuCtxDestroy_v2);
EMUL_ALSO(cuCtxPushCurrent, cuCtxPushCurrent_v2);
EMUL_ALSO(cuCtxPopCurrent, cuCtxPopCurrent_v2);
EMUL_ALSO(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);
EMUL_ALSO(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
EMUL_ALSO(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);
