/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"

#include "hooked.h"
#include "stream.h"

#include <core/address_space.h>

#include <sys/mman.h>

/*
 * Host memory that the driver allocates, and host memory that it is told of.
 * The GPUs see both at the address that the host uses.
 */

namespace emul {

namespace {

using exclusive = std::unique_lock<std::shared_mutex>;

bool is_mapped(const char *address, size_t length)
{
    char *begin = (char*)(uintptr_t(address) & ~(page_size - 1));

    return msync(begin, page_align(address + length - begin), MS_ASYNC) == 0;
}

mapping make_mapping(context &c, memory_kind kind, void *base, size_t size,
                     unsigned flags)
{
    mapping m = {};

    m.kind      = kind;
    m.base      = (char*)base;
    m.alias     = m.base;
    m.size      = size;
    m.length    = page_align(size);
    m.owner     = &c;
    m.device    = c.device;
    m.flags     = flags;
    m.buffer_id = memory_next_id();
    return m;
}

CUresult allocate(void **pointer_p, size_t size, unsigned flags)
{
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE |
                               CU_MEMHOSTALLOC_DEVICEMAP |
                               CU_MEMHOSTALLOC_WRITECOMBINED;
    context &c               = context_current();
    void *base;

    require_value((pointer_p != nullptr) && (size > 0));
    require_value((flags & ~known) == 0);

    base = range_take(page_align(size), range_use::host);
    require((base != nullptr) && range_map_private(base, page_align(size)),
            CUDA_ERROR_OUT_OF_MEMORY);

    exclusive lock(memory_map::instance().mutex);
    memory_map::instance().add(make_mapping(c, memory_kind::host, base, size,
                                            flags));
    *pointer_p = base;
    return CUDA_SUCCESS;
}

CUresult register_host(void *base, size_t size, unsigned flags)
{
    constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE |
                               CU_MEMHOSTREGISTER_DEVICEMAP |
                               CU_MEMHOSTREGISTER_IOMEMORY |
                               CU_MEMHOSTREGISTER_READ_ONLY;
    memory_map &map          = memory_map::instance();
    context &c               = context_current();

    require_value((base != nullptr) && (size > 0) && ((flags & ~known) == 0));
    require_value(is_mapped((char*)base, size));

    exclusive lock(map.mutex);
    require(!map.overlaps(base, size),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    map.add(make_mapping(c, memory_kind::registered, base, size, flags));
    return CUDA_SUCCESS;
}

/* Removes what is waited for before, and may be gone then */
CUresult remove(void *base, memory_kind kind, CUresult not_found)
{
    memory_map &map = memory_map::instance();
    auto accept     = [kind](const mapping &m) { return m.kind == kind; };
    context *owner;
    mapping m;

    context_current();
    {
        std::shared_lock<std::shared_mutex> lock(map.mutex);
        mapping *found = map.find(base);

        require((found != nullptr) && (found->base == base) && accept(*found),
                not_found);
        owner = found->owner;
    }

    context_drain(*owner);
    context_require_healthy(*owner);
    {
        exclusive lock(map.mutex);

        require(map.remove(base, &m, accept), not_found);
    }
    memory_release(m);
    return CUDA_SUCCESS;
}

CUresult free_host(void *base)
{
    return (base == nullptr) ? CUDA_SUCCESS :
                               remove(base, memory_kind::host,
                                      CUDA_ERROR_INVALID_VALUE);
}

/* The mapping of host memory that holds an address. Map locked. */
mapping &host_mapping(void *pointer)
{
    mapping *m = memory_map::instance().find(pointer);

    require_value((m != nullptr) && ((m->kind == memory_kind::host) ||
                                     (m->kind == memory_kind::registered)));
    return *m;
}

} // namespace

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuMemAllocHost(void **pp, size_t bytesize)
{
    return call(fn_cuMemAllocHost, [&] { return allocate(pp, bytesize, 0); });
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    return call(fn_cuMemHostAlloc,
                [&] { return allocate(pp, bytesize, Flags); });
}

EMUL_HOOKED(cuMemFreeHost, void *p)
{
    return call(fn_cuMemFreeHost, [&] { return free_host(p); });
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return call(fn_cuMemHostRegister,
                [&] { return register_host(p, bytesize, Flags); });
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    return call(fn_cuMemHostUnregister, [&] {
        require_value(p != nullptr);
        return remove(p, memory_kind::registered,
                      CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p,
                                           unsigned int Flags)
{
    return call_in_context(fn_cuMemHostGetDevicePointer, [&](context &) {
        std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);

        require_value((pdptr != nullptr) && (Flags == 0));
        host_mapping(p);
        *pdptr = CUdeviceptr(p);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    return call_in_context(fn_cuMemHostGetFlags, [&](context &) {
        std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);

        require_value(pFlags != nullptr);
        /* with unified addressing all of it is mapped */
        *pFlags = host_mapping(p).flags | CU_MEMHOSTALLOC_DEVICEMAP;
        return CUDA_SUCCESS;
    });
}

EMUL_ALSO(cuMemHostRegister, cuMemHostRegister_v2);
