/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"

#include "hooked.h"
#include "stream.h"

#include <core/layout.h>

#include <algorithm>
#include <memory>

/*
 * Stream-ordered memory. A pool here only says on which device memory is
 * allocated: what is freed goes back to the device at once. No memory of a pool
 * can be exported.
 */

namespace emul {

namespace {

struct pool {
    int device;
};

struct pools {
    std::mutex                         mutex;
    pool                               of_device[max_devices];
    std::vector<std::unique_ptr<pool>> created;
};

pools &the_pools()
{
    static pools *instance = [] {
        pools *all = new pools();

        for (unsigned device = 0; device < max_devices; ++device) {
            all->of_device[device].device = device;
        }
        return all;
    }();
    return *instance;
}

bool is_of_device(const pool *p)
{
    return (p >= the_pools().of_device) &&
           (p < the_pools().of_device + device_count());
}

pool &checked(CUmemoryPool handle)
{
    require(pool_is_known(handle), CUDA_ERROR_INVALID_VALUE);
    return *(pool*)handle;
}

CUresult create(CUmemoryPool *handle_p, const CUmemPoolProps *properties)
{
    pools &all = the_pools();
    std::lock_guard<std::mutex> guard(all.mutex);

    require_value((handle_p != nullptr) && (properties != nullptr));
    require_value((properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED) &&
                  (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE));
    require(properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE,
            CUDA_ERROR_NOT_SUPPORTED);

    all.created.emplace_back(
            new pool{device_checked(properties->location.id)});
    *handle_p = CUmemoryPool(all.created.back().get());
    return CUDA_SUCCESS;
}

CUresult destroy(CUmemoryPool handle)
{
    pool &p    = checked(handle);
    pools &all = the_pools();
    std::lock_guard<std::mutex> guard(all.mutex);

    require_value(!is_of_device(&p));
    all.created.erase(std::find_if(all.created.begin(), all.created.end(),
                                   [&p](const std::unique_ptr<pool> &other) {
                                       return other.get() == &p;
                                   }));
    return CUDA_SUCCESS;
}

/* Memory lies on the pool's device, whose context need not be the current one */
CUresult allocate(CUdeviceptr *pointer_p, size_t size, CUmemoryPool handle,
                  CUstream where)
{
    stream &s = stream_checked(where);
    mapping m = {};
    pool &p   = (handle == nullptr) ?
                the_pools().of_device[s.owner->device] : checked(handle);

    require_value((pointer_p != nullptr) && (size > 0));
    require(p.device == s.owner->device, CUDA_ERROR_NOT_SUPPORTED);
    m.kind     = memory_kind::pool;
    m.pool     = &p;
    *pointer_p = CUdeviceptr(memory_allocate(*s.owner, size, m));
    return CUDA_SUCCESS;
}

bool is_pooled(const mapping &m)
{
    return m.kind == memory_kind::pool;
}

/* Real drivers accept memory of cuMemAlloc, too */
CUresult free_async(CUdeviceptr pointer, CUstream where)
{
    stream &s    = stream_checked(where);
    operation op = {};

    if (pointer == 0) {
        return CUDA_SUCCESS;
    }

    {
        std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
        mapping *m = memory_map::instance().find((void*)pointer);

        require_value((m != nullptr) && (CUdeviceptr(m->base) == pointer) &&
                      (is_pooled(*m) || (m->kind == memory_kind::device)));
    }

    op.what        = action::release;
    op.destination = pointer;
    stream_issue(s, op);
    return CUDA_SUCCESS;
}

CUresult pool_of(CUmemoryPool *handle_p, CUdevice device)
{
    require_value(handle_p != nullptr);
    *handle_p = pool_of_device(device_checked(device));
    return CUDA_SUCCESS;
}

CUresult no_export(CUmemoryPool handle)
{
    checked(handle);
    return CUDA_ERROR_INVALID_VALUE; /* it was not made for that */
}

} // namespace

bool pool_is_known(CUmemoryPool handle)
{
    pools &all    = the_pools();
    const pool *p = (const pool*)handle;
    std::lock_guard<std::mutex> guard(all.mutex);

    return is_of_device(p) ||
           std::any_of(all.created.begin(), all.created.end(),
                       [p](const std::unique_ptr<pool> &other) {
                           return other.get() == p;
                       });
}

CUmemoryPool pool_of_device(int device)
{
    return CUmemoryPool(&the_pools().of_device[device]);
}

void memory_release_pooled(const void *base)
{
    memory_map &map = memory_map::instance();
    mapping m;

    {
        std::unique_lock<std::shared_mutex> lock(map.mutex);

        if (!map.remove(base, &m, [](const mapping &candidate) {
                return is_pooled(candidate) ||
                       (candidate.kind == memory_kind::device);
            })) {
            return; /* freed twice before the stream came here */
        }
    }
    memory_release(m);
}

} // namespace emul

using namespace emul;

EMUL_HOOKED(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize,
            CUstream hStream)
{
    return call(fn_cuMemAllocAsync,
                [&] { return allocate(dptr, bytesize, nullptr, hStream); });
}

EMUL_HOOKED(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize,
            CUmemoryPool pool, CUstream hStream)
{
    return call(fn_cuMemAllocFromPoolAsync, [&] {
        require_value(pool != nullptr);
        return allocate(dptr, bytesize, pool, hStream);
    });
}

EMUL_HOOKED(cuMemFreeAsync, CUdeviceptr dptr, CUstream hStream)
{
    return call(fn_cuMemFreeAsync, [&] { return free_async(dptr, hStream); });
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return call(fn_cuDeviceGetDefaultMemPool,
                [&] { return pool_of(pool_out, dev); });
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return call(fn_cuDeviceGetMemPool, [&] { return pool_of(pool, dev); });
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool,
                                 const CUmemPoolProps *poolProps)
{
    return call(fn_cuMemPoolCreate, [&] { return create(pool, poolProps); });
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
    return call(fn_cuMemPoolDestroy, [&] { return destroy(pool); });
}

/* Every GPU of the node reaches all memory; nothing is kept for later */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *,
                                    size_t)
{
    return call(fn_cuMemPoolSetAccess, [&] {
        checked(pool);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute,
                                       void *value)
{
    return call(fn_cuMemPoolSetAttribute, [&] {
        checked(pool);
        require_value(value != nullptr);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t)
{
    return call(fn_cuMemPoolTrimTo, [&] {
        checked(pool);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *, CUmemoryPool pool,
                                                  CUmemAllocationHandleType,
                                                  unsigned long long)
{
    return call(fn_cuMemPoolExportToShareableHandle,
                [&] { return no_export(pool); });
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *,
                                                    CUmemAllocationHandleType,
                                                    unsigned long long)
{
    return call(fn_cuMemPoolImportFromShareableHandle,
                [] { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr)
{
    return call(fn_cuMemPoolExportPointer,
                [] { return CUDA_ERROR_INVALID_VALUE; });
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool pool,
                                        CUmemPoolPtrExportData *)
{
    return call(fn_cuMemPoolImportPointer, [&] { return no_export(pool); });
}
