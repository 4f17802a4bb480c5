/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "copy.h"
#include "event.h"
#include "memory.h"

#include <core/counts.h>
#include <core/link.h>
#include <core/message.h>

/*
 * What the operations of streams do.
 */

namespace emul {

namespace {

/* @return What a rule says that this copy ends with */
CUresult pass_copy(const operation &op)
{
    int status;
    int64_t end;

    if (point_pass(function_point(fn_copy), &status)) {
        return CUresult(status);
    }

    end = link_use(op.size);
    if (end != 0) {
        sleep_until(end);
    }
    return CUDA_SUCCESS;
}

CUresult fault(const void *pointer, size_t size)
{
    message("memory access fault by GPU on address %p, length %zu: not mapped",
            pointer, size);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult perform_copy(const operation &op)
{
    CUresult status = CUDA_SUCCESS;
    const void *where;

    if (!op.synchronous) {
        status = pass_copy(op);
    }
    if ((status == CUDA_SUCCESS) && !copy_memory(op, &where)) {
        status = fault(where, op.size);
    }
    return status;
}

CUresult perform_fill(const operation &op)
{
    const void *where;

    return fill_memory(op, &where) ? CUDA_SUCCESS : fault(where, op.size);
}

/* Host functions are not allowed to call the driver */
template<typename function> void call_host(function body)
{
    int ignored;

    point_pass(function_point(fn_callback), &ignored);
    in_host_function = true;
    body();
    in_host_function = false;
}

/* What is counted as pending is so until it is over, performed or not */
void account(const operation &op, int change)
{
    switch (op.what) {
    case action::copy:
        count_add(EMUL_COUNT_COPIES, op.synchronous ? 0 : change);
        break;
    case action::callback:
    case action::host_function:
        count_add(EMUL_COUNT_CALLBACKS, change);
        break;
    default:
        break;
    }
}

CUresult perform_healthy(stream &s, const operation &op, int64_t count)
{
    switch (op.what) {
    case action::copy:
        return perform_copy(op);
    case action::fill:
        return perform_fill(op);
    case action::record:
        event_reached(*op.recorded, s, count);
        break;
    case action::wait:
    case action::order:
        op.awaited.wait();
        break;
    case action::callback:
        call_host([&op] { op.callback(op.handle, CUDA_SUCCESS, op.data); });
        break;
    case action::host_function:
        call_host([&op] { op.host_function(op.data); });
        break;
    case action::release:
        memory_release_pooled((void*)op.destination);
        break;
    }
    return CUDA_SUCCESS;
}

} // namespace

void operation_issued(const operation &op, const stream &s, int64_t count)
{
    if (op.what == action::record) {
        event_set_target(*op.recorded, s, count);
    }
    account(op, 1);
}

CUresult operation_perform(stream &s, const operation &op, int64_t count)
{
    CUresult status = context_error(*s.owner);

    if (status == CUDA_SUCCESS) {
        status = perform_healthy(s, op, count);
    } else if (op.what == action::callback) {
        /* these are told of the error, host functions are not called */
        call_host([&] { op.callback(op.handle, status, op.data); });
    }

    account(op, -1);
    return status;
}

} // namespace emul
