/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "bench_export.h"
#include "bench_peer.h"
#include "bench_result.h"

#include "../apps/demo_gpu.h"
#include "../emul/emul.h"

#include <hip/hip_runtime_api.h>

#include <malloc.h>

namespace bench {

namespace {

/* Called once before it is counted, so that whatever is done once is done */
void count_free(bool counted)
{
    void *address;

    check_hip(hipMalloc(&address, BUFFER_SIZE), "hipMalloc");
    if (counted) {
        counted_section::begin();
    }

    const hipError_t status = hipFree(address);

    if (counted) {
        counted_section::end();
    }
    check_hip(status, "hipFree");
}

void count_frees_with(long exports, long operations)
{
    const counted_section section("free with " + std::to_string(exports) +
                                          " exports",
                                  operations);

    for (long i = 0; i < operations; ++i) {
        count_free(true);
    }
}

void register_once(const demo::rocm_ipc &transport, void *address)
{
    const uct_mem_h memory = transport.register_memory(address, BUFFER_SIZE);

    transport.pack_key(memory);
    transport.deregister(memory);
}

void count_some_registrations(const demo::rocm_ipc &transport, void *address,
                              const char *name, long operations)
{
    const counted_section section(name, operations);

    counted_section::begin();
    for (long i = 0; i < operations; ++i) {
        register_once(transport, address);
    }
    counted_section::end();
}

int64_t calls(const char *function)
{
    const emul_api_t *const emul = emul_get();
    int64_t value                = 0;

    if ((emul == nullptr) || (emul->calls(getpid(), function, &value) != 0)) {
        throw demo::error("counting calls needs the emulator");
    }

    return value;
}

} // namespace

void count_frees(long exports, long operations)
{
    const demo::rocm_ipc transport;
    std::vector<std::unique_ptr<shared_buffer>> buffers;

    for (const long wanted : {10L, exports}) {
        while (static_cast<long>(buffers.size()) < wanted) {
            buffers.push_back(std::make_unique<shared_buffer>(transport));
            buffers.back()->key();
        }

        count_free(false);
        count_frees_with(wanted, operations);
    }
}

void count_registrations(long operations)
{
    const demo::rocm_ipc transport;
    const demo::gpu_buffer buffer(BUFFER_SIZE);
    const long part       = operations / 10;
    const int64_t handles = calls("hsa_amd_ipc_memory_create");
    const int64_t signals = calls("hsa_amd_ipc_signal_create");

    /* By way of a section, whose text leaves a trace in the heap as well */
    count_some_registrations(transport, buffer.address(), "first registration",
                             1);

    const size_t heap = mallinfo2().uordblks;
    count_some_registrations(transport, buffer.address(),
                             "first registrations", part);
    for (long i = 0; i < operations - (2 * part) - 1; ++i) {
        register_once(transport, buffer.address());
    }
    count_some_registrations(transport, buffer.address(), "last registrations",
                             part);

    print_result("heap growth", static_cast<double>(mallinfo2().uordblks) -
                                        static_cast<double>(heap));
    print_result("handles", calls("hsa_amd_ipc_memory_create") - handles);
    print_result("signals", calls("hsa_amd_ipc_signal_create") - signals);
}

} // namespace bench
