/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "memory.h"

/*
 * What the driver tells about a pointer.
 */

namespace emul {

namespace {

/* What has no value for a pointer: the plural answers it by zeros */
struct no_value {};

/* Writes an answer of the size that the attribute has */
template<typename type> void answer(void *data, type value)
{
    *(type*)data = value;
}

void answer(void *data, bool value)
{
    answer(data, uint32_t(value));
}

void *host_pointer(const mapping &m, CUdeviceptr pointer)
{
    if (m.is_on_device()) {
        throw no_value();
    }
    return (void*)pointer;
}

CUmemorytype memory_type(const mapping &m)
{
    /* managed memory is said to be on the device */
    return (m.is_on_device() || (m.kind == memory_kind::managed)) ?
           CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

void describe(const mapping &m, CUdeviceptr pointer,
              CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return answer(data, CUcontext(m.owner));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return answer(data, uint32_t(memory_type(m)));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return answer(data, host_pointer(m, pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return answer(data, m.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return answer(data, m.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return answer(data, m.kind == memory_kind::managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return answer(data, int(m.device));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return answer(data, m.kind == memory_kind::device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return answer(data, CUdeviceptr(m.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return answer(data, size_t(m.size));
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return answer(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return answer(data, uint64_t(0));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return answer(data, m.kind == memory_kind::device);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return answer(data, uint32_t(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return answer(data, CUmemoryPool(m.pool));
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return answer(data, m.buffer_id);
    default:
        throw status_error{CUDA_ERROR_INVALID_VALUE};
    }
}

/* For a pointer that the driver does not know */
void describe_unknown(CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return answer(data, uint32_t(0));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return answer(data, int(CU_DEVICE_INVALID));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return answer(data, false);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return answer(data, uint64_t(0));
    default:
        throw status_error{CUDA_ERROR_INVALID_VALUE};
    }
}

CUresult get_one(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    require_value((data != nullptr) && (m != nullptr));
    try {
        describe(*m, pointer, attribute, data);
    } catch (const no_value &) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult get_many(unsigned count, const CUpointer_attribute *attributes,
                  void **data, CUdeviceptr pointer)
{
    std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    require_value((count > 0) && (attributes != nullptr) && (data != nullptr));
    for (unsigned i = 0; i < count; ++i) {
        try {
            if (m == nullptr) {
                throw no_value();
            }
            describe(*m, pointer, attributes[i], data[i]);
        } catch (const no_value &) {
            describe_unknown(attributes[i], data[i]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult set_one(const void *value, CUpointer_attribute attribute,
                 CUdeviceptr pointer)
{
    std::unique_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    require_value((value != nullptr) && (m != nullptr));
    require_value((attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) &&
                  (m->is_on_device() || (m->kind == memory_kind::managed)));
    require(m->kind != memory_kind::pool, CUDA_ERROR_NOT_SUPPORTED);
    m->sync_memops = *(const unsigned*)value != 0;
    return CUDA_SUCCESS;
}

/* Managed memory has no preferred location until somebody tells it one, which
 * is not emulated */
CUresult get_range(void *data, size_t size, CUmem_range_attribute attribute,
                   CUdeviceptr pointer, size_t count)
{
    std::shared_lock<std::shared_mutex> lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    require_value((data != nullptr) && (count > 0) && (m != nullptr) &&
                  (m->kind == memory_kind::managed));
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        require_value(size == sizeof(int));
        answer(data, 0);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        require_value(size == sizeof(int));
        answer(data, int(CU_DEVICE_INVALID));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

} // namespace

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuPointerGetAttribute(void *data,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr ptr)
{
    return call(fn_cuPointerGetAttribute,
                [&] { return get_one(data, attribute, ptr); });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes,
                                        CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr ptr)
{
    return call(fn_cuPointerGetAttributes, [&] {
        return get_many(numAttributes, attributes, data, ptr);
    });
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr ptr)
{
    return call(fn_cuPointerSetAttribute,
                [&] { return set_one(value, attribute, ptr); });
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t dataSize,
                                        CUmem_range_attribute attribute,
                                        CUdeviceptr devPtr, size_t count)
{
    return call(fn_cuMemRangeGetAttribute, [&] {
        return get_range(data, dataSize, attribute, devPtr, count);
    });
}
