/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"

#include "hooked.h"
#include "stream.h"

#include <core/address_space.h>
#include <core/message.h>
#include <core/settings.h>

#include <algorithm>

#include <unistd.h>

/*
 * Allocating and freeing. The other kinds of host memory are in
 * host_memory.cc, those of pools in pool.cc.
 */

namespace emul {

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

/* Rows of a pitched allocation start at multiples of this */
constexpr size_t pitch_alignment = 512;

/* Known from here on by its address to be device memory of this process */
void *make_known(mapping &m)
{
    exclusive lock(memory_map::instance().mutex);

    m.buffer_id = memory_next_id();
    memory_map::instance().add(m);
    return m.base;
}

void *allocate_managed(context &c, size_t size, unsigned flags)
{
    mapping m = {};

    m.length = page_align(size);
    m.base   = (char*)range_take(m.length, range_use::host);
    require((m.base != nullptr) && range_map_private(m.base, m.length),
            CUDA_ERROR_OUT_OF_MEMORY);

    m.kind   = memory_kind::managed;
    m.alias  = m.base;
    m.size   = size;
    m.owner  = &c;
    m.device = c.device;
    m.flags  = flags;
    return make_known(m);
}

CUresult allocate(CUdeviceptr *pointer_p, size_t size)
{
    context &c = context_current();
    mapping m  = {};

    require_value((pointer_p != nullptr) && (size > 0));
    m.kind     = memory_kind::device;
    *pointer_p = CUdeviceptr(memory_allocate(c, size, m));
    return CUDA_SUCCESS;
}

CUresult allocate_pitch(CUdeviceptr *pointer_p, size_t *pitch_p, size_t width,
                        size_t height, unsigned element)
{
    size_t pitch, size;

    require_value((pitch_p != nullptr) && (width > 0) && (height > 0));
    require_value((element == 4) || (element == 8) || (element == 16));
    require_value(!__builtin_add_overflow(width, pitch_alignment - 1, &pitch));
    pitch -= pitch % pitch_alignment;
    require(!__builtin_mul_overflow(pitch, height, &size),
            CUDA_ERROR_OUT_OF_MEMORY);

    allocate(pointer_p, size);
    *pitch_p = pitch;
    return CUDA_SUCCESS;
}

bool can_be_freed(const mapping &m)
{
    return (m.kind == memory_kind::device) || (m.kind == memory_kind::pool) ||
           (m.kind == memory_kind::managed);
}

/* Work that may still touch the memory is waited for, as on real hardware; what
 * importers do with it is not */
CUresult free_memory(CUdeviceptr pointer)
{
    memory_map &map = memory_map::instance();
    mapping m;

    if (pointer == 0) {
        return CUDA_SUCCESS;
    }

    process_require_healthy();
    {
        std::shared_lock<std::shared_mutex> lock(map.mutex);
        mapping *found = map.find((void*)pointer);

        require_value((found != nullptr) && (CUdeviceptr(found->base) ==
                                             pointer) && can_be_freed(*found));
        m = *found;
    }

    context_drain(*m.owner);
    context_require_healthy(*m.owner);
    {
        exclusive lock(map.mutex);

        require_value(map.remove((void*)pointer, &m, can_be_freed));
    }
    memory_release(m);
    return CUDA_SUCCESS;
}

CUresult get_info(size_t *free_p, size_t *total_p)
{
    context &c     = context_current();
    size_t total   = setting_value(setting_gpu_memory);
    size_t charged = allocations_charged(c.device);

    require_value((free_p != nullptr) && (total_p != nullptr));
    *free_p  = total - std::min(total, charged);
    *total_p = total;
    return CUDA_SUCCESS;
}

CUresult address_range(CUdeviceptr *base_p, size_t *size_p, CUdeviceptr pointer)
{
    std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    if ((base_p == nullptr) && (size_p == nullptr)) {
        return CUDA_SUCCESS; /* nobody wants to know */
    }

    require(m != nullptr, CUDA_ERROR_NOT_FOUND);
    if (base_p != nullptr) {
        *base_p = CUdeviceptr(m->base);
    }
    if (size_p != nullptr) {
        *size_p = m->size;
    }
    return CUDA_SUCCESS;
}

} // namespace

bool memory_map_file(const memory_file &file, bool imported, mapping *m_p)
{
    size_t length = page_align(file.size);
    range_use use = imported ? range_use::attach : range_use::allocation;
    char *base    = (char*)range_take(length, use);
    char *alias   = nullptr;

    if (base != nullptr) {
        alias = (char*)range_take(length, range_use::alias);
    }
    if ((alias != nullptr) && !range_map(alias, length, file.fd)) {
        range_give_back(alias, length, range_use::alias);
        alias = nullptr;
    }
    close(file.fd);

    if (alias == nullptr) {
        if (base != nullptr) {
            range_give_back(base, length, use);
        }
        return false;
    }

    m_p->base   = base;
    m_p->alias  = alias;
    m_p->size   = file.size;
    m_p->length = length;
    m_p->device = file.device;
    m_p->index  = file.index;
    return true;
}

void *memory_allocate(context &c, size_t size, mapping m)
{
    memory_file file;

    require(allocation_create(c.device, size, &file), CUDA_ERROR_OUT_OF_MEMORY);
    if (!memory_map_file(file, false, &m)) {
        allocation_release(file.index);
        throw status_error{CUDA_ERROR_OUT_OF_MEMORY};
    }

    m.owner = &c;
    return make_known(m);
}

void memory_release(const mapping &m)
{
    /* not while a copy touches it */
    exclusive lock(memory_map::instance().mutex);

    switch (m.kind) {
    case memory_kind::device:
    case memory_kind::pool:
        range_give_back(m.alias, m.length, range_use::alias);
        range_give_back(m.base, m.length, range_use::allocation);
        allocation_release(m.index);
        break;
    case memory_kind::imported:
        range_give_back(m.alias, m.length, range_use::alias);
        range_give_back(m.base, m.length, range_use::attach);
        allocation_detach(m.index);
        break;
    case memory_kind::managed:
    case memory_kind::host:
        range_give_back(m.base, m.length, range_use::host);
        break;
    case memory_kind::registered:
        break;
    }
}

void memory_drop_context(const context &c)
{
    memory_map &map = memory_map::instance();
    mapping m;

    for (;;) {
        {
            exclusive lock(map.mutex);
            mapping *found = map.find_if([&c](const mapping &candidate) {
                return candidate.owner == &c;
            });

            if (found == nullptr) {
                return;
            }
            map.remove(found->base, &m, [](const mapping&) { return true; });
        }
        memory_release(m);
    }
}

unsigned long long memory_next_id()
{
    static std::atomic<unsigned long long> next{1};

    return next.fetch_add(1);
}

} // namespace emul

using namespace emul;

EMUL_HOOKED(cuMemAlloc_v2, CUdeviceptr *dptr, size_t bytesize)
{
    return call(fn_cuMemAlloc, [&] { return allocate(dptr, bytesize); });
}

EMUL_HOOKED(cuMemAllocPitch_v2, CUdeviceptr *dptr, size_t *pPitch,
            size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    return call(fn_cuMemAllocPitch, [&] {
        return allocate_pitch(dptr, pPitch, WidthInBytes, Height,
                              ElementSizeBytes);
    });
}

EMUL_HOOKED(cuMemAllocManaged, CUdeviceptr *dptr, size_t bytesize,
            unsigned int flags)
{
    return call_in_context(fn_cuMemAllocManaged, [&](context &c) {
        require_value((dptr != nullptr) && (bytesize > 0));
        require_value((flags == CU_MEM_ATTACH_GLOBAL) ||
                      (flags == CU_MEM_ATTACH_HOST));
        *dptr = CUdeviceptr(allocate_managed(c, bytesize, flags));
        return CUDA_SUCCESS;
    });
}

EMUL_HOOKED(cuMemFree_v2, CUdeviceptr dptr)
{
    return call(fn_cuMemFree, [&] { return free_memory(dptr); });
}

CUresult CUDAAPI cuMemGetInfo(size_t *free, size_t *total)
{
    return call(fn_cuMemGetInfo, [&] { return get_info(free, total); });
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize,
                                      CUdeviceptr dptr)
{
    return call(fn_cuMemGetAddressRange, [&] {
        if ((pbase != nullptr) || (psize != nullptr)) {
            context_current(); /* There has to be one, if there is an answer */
        }
        return address_range(pbase, psize, dptr);
    });
}

/* Before CUDA 3.2 these had addresses of 32 bits. They are here because programs
 * hook them, too. */
EMUL_HOOKED(cuMemAlloc, unsigned *, unsigned)
{
    fatal("cuMemAlloc of CUDA before 3.2 is not emulated");
}

EMUL_HOOKED(cuMemAllocPitch, unsigned *, unsigned *, unsigned, unsigned,
            unsigned)
{
    fatal("cuMemAllocPitch of CUDA before 3.2 is not emulated");
}

EMUL_HOOKED(cuMemFree, unsigned)
{
    fatal("cuMemFree of CUDA before 3.2 is not emulated");
}
