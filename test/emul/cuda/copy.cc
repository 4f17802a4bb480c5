/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "copy.h"

#include "memory_map.h"

#include <algorithm>
#include <cstring>

namespace emul {

namespace {

using shared = std::shared_lock<std::shared_mutex>;

/* A mapping cannot go while a piece of this size is copied */
constexpr size_t copy_piece = 1 << 20;

/* What can be known when a copy is issued */
void require_mapped(CUdeviceptr pointer, size_t size)
{
    shared lock(memory_map::instance().mutex);

    require_value(memory_map::instance().reach((void*)pointer, size) !=
                  nullptr);
}

bool is_on_device(CUdeviceptr pointer)
{
    shared lock(memory_map::instance().mutex);
    mapping *m = memory_map::instance().find((void*)pointer);

    return (m != nullptr) && m->is_on_device();
}

operation make_copy(CUdeviceptr destination, CUdeviceptr source, size_t size)
{
    operation op = {};

    require_value((destination != 0) && (source != 0));
    require_mapped(destination, size);
    require_mapped(source, size);

    op.what        = action::copy;
    op.destination = destination;
    op.source      = source;
    op.size        = size;
    return op;
}

CUresult copy_async(CUdeviceptr destination, CUdeviceptr source, size_t size,
                    CUstream handle)
{
    stream &s = stream_checked(handle);

    if (size == 0) {
        return CUDA_SUCCESS;
    }

    stream_issue(s, make_copy(destination, source, size));
    return CUDA_SUCCESS;
}

/* In the order of the default stream. The host only waits where it is a side of
 * the copy. */
CUresult copy(CUdeviceptr destination, CUdeviceptr source, size_t size)
{
    context &c = context_current();
    stream_position last;

    if (size == 0) {
        return CUDA_SUCCESS;
    }

    operation op   = make_copy(destination, source, size);
    op.synchronous = true;
    last           = stream_issue(stream_default(c), op);
    if (!is_on_device(destination) || !is_on_device(source)) {
        last.wait();
        context_require_healthy(c);
    }
    return CUDA_SUCCESS;
}

operation make_fill(CUdeviceptr destination, uint32_t value, unsigned width,
                    size_t count)
{
    operation op = {};
    size_t size;

    require_value((destination != 0) && (destination % width == 0) &&
                  !__builtin_mul_overflow(count, size_t(width), &size));
    require_mapped(destination, size);

    op.what        = action::fill;
    op.destination = destination;
    op.value       = value;
    op.width       = width;
    op.size        = size;
    return op;
}

CUresult fill_async(CUdeviceptr destination, uint32_t value, unsigned width,
                    size_t count, CUstream handle)
{
    stream &s = stream_checked(handle);

    if (count > 0) {
        stream_issue(s, make_fill(destination, value, width, count));
    }
    return CUDA_SUCCESS;
}

/* The same, but of the default stream, and the host waits for what it can see
 * itself */
CUresult fill(CUdeviceptr destination, uint32_t value, unsigned width,
              size_t count)
{
    context &c = context_current();
    stream_position last;

    if (count == 0) {
        return CUDA_SUCCESS;
    }

    operation op   = make_fill(destination, value, width, count);
    op.synchronous = true;
    last           = stream_issue(stream_default(c), op);
    if (!is_on_device(destination)) {
        last.wait();
        context_require_healthy(c);
    }
    return CUDA_SUCCESS;
}

} // namespace

bool copy_memory(const operation &op, const void **where_p)
{
    memory_map &map = memory_map::instance();
    size_t piece;

    for (size_t done = 0; done < op.size; done += piece) {
        shared lock(map.mutex);
        const char *destination = (char*)op.destination + done;
        const char *source      = (char*)op.source + done;

        piece    = std::min(op.size - done, copy_piece);
        char *to = map.reach(destination, piece);
        if (to == nullptr) {
            *where_p = destination;
            return false;
        }

        char *from = map.reach(source, piece);
        if (from == nullptr) {
            *where_p = source;
            return false;
        }
        memmove(to, from, piece);
    }
    return true;
}

bool fill_memory(const operation &op, const void **where_p)
{
    memory_map &map = memory_map::instance();
    shared lock(map.mutex);
    char *to        = map.reach((void*)op.destination, op.size);

    *where_p = (void*)op.destination;
    if (to == nullptr) {
        return false;
    }

    for (size_t done = 0; done < op.size; done += op.width) {
        memcpy(to + done, &op.value, op.width);
    }
    return true;
}

} // namespace emul

using namespace emul;

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return call(fn_cuMemcpy, [&] { return copy(dst, src, ByteCount); });
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src,
                               size_t ByteCount, CUstream hStream)
{
    return call(fn_cuMemcpyAsync,
                [&] { return copy_async(dst, src, ByteCount, hStream); });
}

/* One address space: an address tells where it is */
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext,
                              CUdeviceptr srcDevice, CUcontext srcContext,
                              size_t ByteCount)
{
    return call(fn_cuMemcpyPeer, [&] {
        context_checked(dstContext);
        context_checked(srcContext);
        return copy(dstDevice, srcDevice, ByteCount);
    });
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext,
                                   size_t ByteCount, CUstream hStream)
{
    return call(fn_cuMemcpyPeerAsync, [&] {
        context_checked(dstContext);
        context_checked(srcContext);
        return copy_async(dstDevice, srcDevice, ByteCount, hStream);
    });
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost,
                              size_t ByteCount)
{
    return call(fn_cuMemcpyHtoD, [&] {
        return copy(dstDevice, CUdeviceptr(srcHost), ByteCount);
    });
}

CUresult CUDAAPI cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice,
                              size_t ByteCount)
{
    return call(fn_cuMemcpyDtoH, [&] {
        return copy(CUdeviceptr(dstHost), srcDevice, ByteCount);
    });
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                              size_t ByteCount)
{
    return call(fn_cuMemcpyDtoD,
                [&] { return copy(dstDevice, srcDevice, ByteCount); });
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost,
                                   size_t ByteCount, CUstream hStream)
{
    return call(fn_cuMemcpyHtoDAsync, [&] {
        return copy_async(dstDevice, CUdeviceptr(srcHost), ByteCount, hStream);
    });
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice,
                                   size_t ByteCount, CUstream hStream)
{
    return call(fn_cuMemcpyDtoHAsync, [&] {
        return copy_async(CUdeviceptr(dstHost), srcDevice, ByteCount, hStream);
    });
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                   size_t ByteCount, CUstream hStream)
{
    return call(fn_cuMemcpyDtoDAsync, [&] {
        return copy_async(dstDevice, srcDevice, ByteCount, hStream);
    });
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return call(fn_cuMemsetD8, [&] { return fill(dstDevice, uc, 1, N); });
}

CUresult CUDAAPI cuMemsetD16(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return call(fn_cuMemsetD16, [&] { return fill(dstDevice, us, 2, N); });
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return call(fn_cuMemsetD32, [&] { return fill(dstDevice, ui, 4, N); });
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc,
                                 size_t N, CUstream hStream)
{
    return call(fn_cuMemsetD8Async,
                [&] { return fill_async(dstDevice, uc, 1, N, hStream); });
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us,
                                  size_t N, CUstream hStream)
{
    return call(fn_cuMemsetD16Async,
                [&] { return fill_async(dstDevice, us, 2, N, hStream); });
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui,
                                  size_t N, CUstream hStream)
{
    return call(fn_cuMemsetD32Async,
                [&] { return fill_async(dstDevice, ui, 4, N, hStream); });
}
