/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_peer.h"
#include "cuda_test.h"

#include <cstring>

/*
 * Sharing device memory between processes, and freeing what is shared.
 */

class cuda_ipc : public cuda_test {
protected:
    static constexpr size_t size = 64 * megabyte;

    /* The peer exports, this process opens */
    struct shared {
        CUdeviceptr    at_peer;
        CUipcMemHandle handle;
    };

    static shared share(cuda_peer &owner)
    {
        shared s = {};
        cuda_reply answer;

        s.at_peer = owner.ask(cuda_verb::allocate, size).value;
        EXPECT_OK(owner.ask(cuda_verb::write, s.at_peer, 42).status);
        answer = owner.ask(cuda_verb::export_ipc, s.at_peer);
        EXPECT_OK(answer.status);
        s.handle = answer.handle;
        return s;
    }

    static CUresult open_status(const CUipcMemHandle &handle)
    {
        CUdeviceptr opened;

        return cuIpcOpenMemHandle(&opened, handle,
                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    }

    static CUdeviceptr open(const CUipcMemHandle &handle)
    {
        CUdeviceptr opened = 0;

        EXPECT_OK(cuIpcOpenMemHandle(&opened, handle,
                                     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        return opened;
    }
};

using cuda_ipc_death = cuda_ipc;

TEST_F(cuda_ipc, memory_is_shared_both_ways)
{
    cuda_peer owner;
    shared s           = share(owner);
    CUdeviceptr opened = open(s.handle);

    EXPECT_EQ(42u, read(opened));
    write(opened + 8, 43);
    EXPECT_EQ(43u, owner.ask(cuda_verb::read, s.at_peer + 8).value);

    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
}

TEST_F(cuda_ipc_death, opened_memory_faults_on_the_host)
{
    EXPECT_EXIT({
        ::signal(SIGSEGV, SIG_DFL);
        cuda_peer owner;
        shared s = share(owner);
        *(volatile char*)open(s.handle);
    }, ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(cuda_ipc, opening_again_gives_the_same_address_and_counts)
{
    cuda_peer owner;
    shared s           = share(owner);
    CUdeviceptr opened = open(s.handle);

    EXPECT_EQ(opened, open(s.handle));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_EQ(42u, read(opened));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_INVALID(cuIpcCloseMemHandle(opened));
}

TEST_F(cuda_ipc, free_returns_while_it_is_open_and_memory_stays_charged)
{
    cuda_peer owner;
    shared s           = share(owner);
    CUdeviceptr opened = open(s.handle);
    size_t before      = free_memory();

    EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
    EXPECT_LT(free_memory() + memory_slack(), before + size);
    EXPECT_EQ(42u, read(opened));

    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_GE(free_memory() + memory_slack(), before + size);
}

TEST_F(cuda_ipc, what_was_freed_and_closed_cannot_be_opened)
{
    cuda_peer owner;
    shared s           = share(owner);
    CUdeviceptr opened = open(s.handle);

    EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_INVALID(open_status(s.handle));
}

TEST_F(cuda_ipc, the_maker_of_a_handle_cannot_open_it)
{
    CUdeviceptr pointer   = allocate(size);
    CUipcMemHandle handle = {};

    EXPECT_OK(cuIpcGetMemHandle(&handle, pointer));
    EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, open_status(handle));
    release(pointer);
}

TEST_F(cuda_ipc, handle_is_the_same_each_time_and_new_for_new_memory)
{
    CUdeviceptr pointer = allocate(size);
    CUipcMemHandle once = {}, more = {};

    EXPECT_OK(cuIpcGetMemHandle(&once, pointer));
    EXPECT_OK(cuIpcGetMemHandle(&more, pointer));
    EXPECT_EQ(0, memcmp(&once, &more, sizeof(once)));
    release(pointer);

    pointer = allocate(size);
    EXPECT_OK(cuIpcGetMemHandle(&more, pointer));
    EXPECT_NE(0, memcmp(&once, &more, sizeof(once)));
    release(pointer);
}

TEST_F(cuda_ipc, only_device_memory_can_be_exported)
{
    CUipcMemHandle handle;
    CUdeviceptr managed;
    void *host;
    int variable;

    EXPECT_OK(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
    EXPECT_OK(cuMemAllocHost(&host, size));
    EXPECT_INVALID(cuIpcGetMemHandle(&handle, managed));
    EXPECT_INVALID(cuIpcGetMemHandle(&handle, CUdeviceptr(host)));
    EXPECT_INVALID(cuIpcGetMemHandle(&handle, CUdeviceptr(&variable)));
    EXPECT_OK(cuMemFreeHost(host));
    release(managed);
}

TEST_F(cuda_ipc, garbage_is_no_handle)
{
    CUipcMemHandle handle;

    memset(&handle, 0x5a, sizeof(handle));
    EXPECT_INVALID(open_status(handle));
}

TEST_F(cuda_ipc, handle_of_an_owner_that_is_gone)
{
    shared s;

    {
        cuda_peer owner;

        s = share(owner);
        owner.kill();
    }
    EXPECT_NE(CUDA_SUCCESS, open_status(s.handle));
}

TEST_F(cuda_ipc, opened_memory_outlives_its_owner)
{
    CUdeviceptr opened;

    {
        cuda_peer owner;

        opened = open(share(owner).handle);
        owner.exit();
    }
    EXPECT_EQ(42u, read(opened));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
}

TEST_F(cuda_ipc, opened_memory_cannot_be_freed)
{
    cuda_peer owner;
    CUdeviceptr opened = open(share(owner).handle);

    EXPECT_INVALID(cuMemFree(opened));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
}

TEST_F(cuda_ipc, what_is_not_open_cannot_be_closed)
{
    CUdeviceptr pointer = allocate(size);

    EXPECT_INVALID(cuIpcCloseMemHandle(pointer));
    release(pointer);
}

TEST_F(cuda_ipc, a_killed_importer_closes_all)
{
    cuda_peer owner;
    shared s = share(owner);

    {
        cuda_peer importer;

        EXPECT_OK(importer.ask(cuda_verb::open, 0, 0, &s.handle).status);
        EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
        importer.kill();
    }
    EXPECT_TRUE(eventually([&owner] {
        return owner.ask(cuda_verb::free_memory).value >= size;
    }));
}

TEST_F(cuda_ipc, counts)
{
    REQUIRE_EMULATOR();
    cuda_peer owner;
    shared s           = share(owner);
    CUdeviceptr opened = open(s.handle);

    open(s.handle);
    EXPECT_EQ(1, count(EMUL_COUNT_ATTACHES));
    EXPECT_EQ(1, count(EMUL_COUNT_ALLOCATIONS, owner.pid()));
    EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
    EXPECT_EQ(0, count(EMUL_COUNT_ALLOCATIONS, owner.pid()));
    EXPECT_EQ(int64_t(size),
              count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_OK(cuIpcCloseMemHandle(opened));
    EXPECT_EQ(0, count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
}

TEST_F(cuda_ipc, mapping_that_is_left_is_reported)
{
    REQUIRE_EMULATOR();
    cuda_peer owner;
    shared s = share(owner);
    cuda_peer importer({"EMUL_LEAK_REPORT=stderr"});

    EXPECT_OK(importer.ask(cuda_verb::open, 0, 0, &s.handle).status);
    importer.exit();
    EXPECT_NE(std::string::npos,
              importer.errors().find("leak: IPC mapping of "))
            << importer.errors();
}

TEST_F(cuda_ipc, late_open_can_be_made_to_hang)
{
    REQUIRE_EMULATOR();
    cuda_peer owner, importer;
    shared s = share(owner);

    set("EMUL_LATE_ATTACH", "block");
    EXPECT_OK(owner.ask(cuda_verb::free, s.at_peer).status);
    importer.start(cuda_verb::open, 0, 0, &s.handle);
    EXPECT_TRUE(eventually([&importer] {
        return calls("cuIpcOpenMemHandle", importer.pid()) == 1;
    }));
    EXPECT_FALSE(importer.finished());
    set("EMUL_LATE_ATTACH", "error");
    EXPECT_INVALID(importer.finish().status);
}

TEST_F(cuda_ipc, limit_of_mappings)
{
    REQUIRE_EMULATOR();
    cuda_peer owner;
    shared s = share(owner);

    set("EMUL_MAX_ATTACHES", "0");
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, open_status(s.handle));
}

TEST_F(cuda_ipc, address_of_what_was_freed_can_be_forced_upon_the_next)
{
    REQUIRE_EMULATOR();
    CUdeviceptr first = allocate(size);

    release(first);
    set("EMUL_ADDRESS_REUSE", "force");
    CUdeviceptr second = allocate(size);
    EXPECT_EQ(first, second);
    release(second);
}

TEST_F(cuda_ipc, what_was_closed_cannot_be_copied)
{
    cuda_peer owner;
    CUdeviceptr opened = open(share(owner).handle);
    CUstream stream    = make_stream();
    CUdeviceptr here   = allocate(kilobyte);

    EXPECT_OK(cuIpcCloseMemHandle(opened));
    REQUIRE_EMULATOR(); /* a real driver refuses or crashes */
    EXPECT_INVALID(cuMemcpyAsync(here, opened, 8, stream));
    EXPECT_OK(cuStreamDestroy(stream));
    release(here);
}
