/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"
#include "stream.h"

#include <core/counts.h>
#include <core/handle.h>
#include <core/node.h>
#include <core/settings.h>

#include <cstring>

/*
 * Sharing device memory between processes.
 *
 * Who frees does not wait for those that have it open: they go on using the
 * memory, which stays charged until the last one closes it.
 */

namespace emul {

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

static_assert(sizeof(CUipcMemHandle) >= sizeof(handle),
              "an IPC handle has room for a handle of the node");

CUresult export_memory(CUipcMemHandle *ipc, CUdeviceptr pointer)
{
    memory_map &map = memory_map::instance();
    std::shared_lock<std::shared_mutex> lock(map.mutex);
    mapping *m      = map.find((void*)pointer);
    handle h;

    require_value((ipc != nullptr) && (m != nullptr) &&
                  (m->kind == memory_kind::device));

    h = allocation_export(m->index);
    memset(ipc, 0, sizeof(*ipc));
    memcpy(ipc, &h, sizeof(h));
    return CUDA_SUCCESS;
}

/* What this process has open already on this device keeps its address.
 * Map locked. */
mapping *find_open(const context &c, uint64_t shared_id)
{
    return memory_map::instance().find_if([&](const mapping &m) {
        return (m.kind == memory_kind::imported) && (m.owner == &c) &&
               (m.shared_id == shared_id);
    });
}

void require_opened(attach_result result)
{
    require(result != attach_result::no_room, CUDA_ERROR_OUT_OF_MEMORY);
    require_value(result == attach_result::done);
}

void require_room()
{
    require(count_own(EMUL_COUNT_ATTACHES) <
            setting_value(setting_max_attaches), CUDA_ERROR_OUT_OF_MEMORY);
}

/* The length is not the caller's to know */
memory_file attach(const handle &h)
{
    memory_file file;

    require_room();
    require_opened(allocation_attach(h, 1, &file));
    return file;
}

CUdeviceptr open_new(context &c, const handle &h)
{
    memory_file file = attach(h);
    mapping m        = {};

    exclusive lock(memory_map::instance().mutex);

    if (!memory_map_file(file, true, &m)) {
        allocation_detach(file.index);
        throw status_error{CUDA_ERROR_OUT_OF_MEMORY};
    }

    m.kind       = memory_kind::imported;
    m.owner      = &c;
    m.shared_id  = h.id;
    m.references = 1;
    m.buffer_id  = memory_next_id();
    memory_map::instance().add(m);
    return CUdeviceptr(m.base);
}

CUresult open(CUdeviceptr *pointer_p, const CUipcMemHandle &ipc,
              unsigned flags)
{
    static std::mutex opening; /* two of the same make one mapping */
    std::lock_guard<std::mutex> guard(opening);
    context &c = context_current();
    handle h;

    require_value((pointer_p != nullptr) &&
                  (flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    memcpy(&h, &ipc, sizeof(h));
    require_value(handle_valid(handle_kind::allocation, h));
    require(h.owner_serial != node_self()->serial.load(),
            CUDA_ERROR_INVALID_CONTEXT);

    {
        exclusive lock(memory_map::instance().mutex);
        mapping *m = find_open(c, h.id);

        if (m != nullptr) {
            ++m->references;
            *pointer_p = CUdeviceptr(m->base);
            return CUDA_SUCCESS;
        }
    }
    *pointer_p = open_new(c, h);
    return CUDA_SUCCESS;
}

/* Map locked */
mapping &checked(CUdeviceptr pointer)
{
    mapping *m = memory_map::instance().find((void*)pointer);

    require_value((m != nullptr) && (CUdeviceptr(m->base) == pointer) &&
                  (m->kind == memory_kind::imported));
    return *m;
}

/* Work that may still use it is waited for, as by a free */
CUresult close_imported(CUdeviceptr pointer)
{
    memory_map &map = memory_map::instance();
    context *owner;
    mapping m;

    {
        std::shared_lock<std::shared_mutex> lock(map.mutex);

        owner = checked(pointer).owner;
    }

    context_drain(*owner);
    {
        exclusive lock(map.mutex);

        if (--checked(pointer).references > 0) {
            return CUDA_SUCCESS;
        }
        map.remove((void*)pointer, &m, [](const mapping&) { return true; });
    }
    memory_release(m);
    return CUDA_SUCCESS;
}

} // namespace

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    return call_in_context(fn_cuIpcGetMemHandle, [&](context &) {
        return export_memory(pHandle, dptr);
    });
}

#undef cuIpcOpenMemHandle

extern "C" __attribute__((visibility("default")))
CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle ipc,
                            unsigned int Flags)
{
    return call(fn_cuIpcOpenMemHandle,
                [&] { return emul::open(pdptr, ipc, Flags); });
}

extern "C" __attribute__((visibility("default")))
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle ipc,
                               unsigned int Flags)
{
    return call(fn_cuIpcOpenMemHandle,
                [&] { return emul::open(pdptr, ipc, Flags); });
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    return call_in_context(fn_cuIpcCloseMemHandle,
                           [&](context &) { return close_imported(dptr); });
}
