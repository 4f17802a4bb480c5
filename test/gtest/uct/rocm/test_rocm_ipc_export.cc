/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <string.h>

/* What registering, packing and freeing cost the owner. */
class test_rocm_ipc_export : public test_rocm_ipc {
protected:
    int64_t num_handles(const peer &owner)
    {
        return the_node().calls("hsa_amd_ipc_memory_create", &owner);
    }

    int64_t num_signals(const peer &owner)
    {
        return the_node().calls("hsa_amd_ipc_signal_create", &owner);
    }

    template<typename T> static T field(const std::string &key, size_t offset)
    {
        T value = 0;

        EXPECT_GE(key.size(), offset + sizeof(value));
        if (key.size() >= offset + sizeof(value)) {
            memcpy(&value, key.data() + offset, sizeof(value));
        }
        return value;
    }
};

/* UCP registers a buffer with its length rounded up to its alignment, while the
 * runtime tells the length that was asked for. */
UCS_TEST_P(test_rocm_ipc_export, registered_length_may_be_rounded_up)
{
    const size_t unit   = 4 * UCS_KBYTE;
    const size_t length = (3 * unit) + 501;
    peer &owner         = start("owner");
    buffer mem          = owner.alloc(length);
    uint64_t memh;

    expect_log_messages();
    ASSERT_UCS_OK(owner.reg(mem.address, length + 11, memh));
    ASSERT_UCS_OK(owner.dereg(memh));
    ASSERT_UCS_OK(owner.reg(mem.address + unit, 3 * unit, memh));
    ASSERT_UCS_OK(owner.dereg(memh));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR,
              owner.reg(mem.address, (4 * unit) + 1, memh));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR,
              owner.reg(mem.address + unit, (3 * unit) + 1, memh));
    owner.free(mem);
}

UCS_TEST_P(test_rocm_ipc_export, parts_of_allocation_share_handle_and_signal)
{
    const size_t num_parts = 64;
    const size_t part      = 4 * UCS_KBYTE;
    peer &owner            = start("owner");
    peer &importer         = start("importer");
    uint64_t ep            = importer.connect(owner);
    shared whole           = share(owner, num_parts * part);

    for (size_t i = 0; i < num_parts; ++i) {
        uint64_t memh, rkey;
        std::string key;

        ASSERT_UCS_OK(owner.reg(whole.mem.address + (i * part), part, memh));
        ASSERT_UCS_OK(owner.pack(memh, key));
        EXPECT_EQ(whole.key, key);
        ASSERT_UCS_OK(importer.unpack(key, rkey));
        ASSERT_UCS_OK(get_part(importer, ep, rkey, whole, i * part, part));
    }

    if (emulated()) {
        EXPECT_EQ(1, num_handles(owner));
        EXPECT_EQ(1, num_signals(owner));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner));
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    owner.free(whole.mem);
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
    }
}

UCS_TEST_P(test_rocm_ipc_export, each_allocation_has_its_own_handle_and_signal)
{
    peer &owner   = start("owner");
    shared first  = share(owner);
    shared second = share(owner);

    EXPECT_NE(first.key.substr(0, 32), second.key.substr(0, 32));
    EXPECT_NE(first.key.substr(64), second.key.substr(64));
    if (emulated()) {
        EXPECT_EQ(2, num_handles(owner));
        EXPECT_EQ(2, num_signals(owner));
    }
}

/* Report 5 */
UCS_TEST_P(test_rocm_ipc_export, registered_but_never_packed_creates_nothing)
{
    peer &owner = start("owner");
    buffer mem  = owner.alloc(UCS_MBYTE);
    uint64_t memh;

    ASSERT_UCS_OK(owner.reg(mem.address, mem.length, memh));
    if (emulated()) {
        EXPECT_EQ(0, num_handles(owner));
        EXPECT_EQ(0, num_signals(owner));
    }

    owner.free(mem);
    ASSERT_UCS_OK(owner.dereg(memh));
    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_BYTES_CHARGED));
        EXPECT_EQ(0, num_handles(owner));
        EXPECT_EQ(0, num_signals(owner));
    }
}

/* Report 9 */
UCS_TEST_P(test_rocm_ipc_export, register_in_a_loop_piles_up_nothing)
{
    peer &owner = start("owner");
    buffer mem  = owner.alloc(default_length);
    std::string key, first_key;
    int64_t num_local_signals = 0;
    uint64_t memh;

    for (int i = 0; i < 1000; ++i) {
        ASSERT_UCS_OK(owner.reg(mem.address, mem.length, memh));
        ASSERT_UCS_OK(owner.pack(memh, key));
        ASSERT_UCS_OK(owner.dereg(memh));
        if (i == 0) {
            first_key = key;
            if (emulated()) {
                num_local_signals = the_node().count(EMUL_COUNT_SIGNALS);
            }
        }
        ASSERT_EQ(first_key, key);
    }

    if (emulated()) {
        EXPECT_EQ(1, num_handles(owner));
        EXPECT_EQ(1, num_signals(owner));
        EXPECT_EQ(1, the_node().count(EMUL_COUNT_IPC_SIGNALS));
        EXPECT_EQ(num_local_signals, the_node().count(EMUL_COUNT_SIGNALS));
    }

    owner.free(mem);
}

/* Two keys of one allocation that were written over different backgrounds are
 * equal: no byte of a key is left to chance. */
UCS_TEST_P(test_rocm_ipc_export, key_layout)
{
    const uint32_t valid_pid = UCS_BIT(29), has_signal = UCS_BIT(30);
    peer &owner   = start("owner");
    shared remote = share(owner);
    std::string again;

    ASSERT_UCS_OK(owner.pack(remote.memh, again));
    EXPECT_EQ(remote.key, again);

    EXPECT_EQ(96u, remote.key.size());
    EXPECT_EQ(96u, owner.query_md().rkey_packed_size);
    EXPECT_EQ(remote.mem.address, field<uint64_t>(remote.key, 32));
    EXPECT_LE(remote.mem.length, field<uint64_t>(remote.key, 40));
    EXPECT_EQ(valid_pid | has_signal,
              field<uint32_t>(remote.key, 48) & ~(uint32_t)UCS_MASK(16));
    EXPECT_EQ(owner.pid(), field<int32_t>(remote.key, 52));
    EXPECT_NE(0u, field<uint64_t>(remote.key, 56));
}

UCS_TEST_P(test_rocm_ipc_export, key_layout_without_invalidation)
{
    const uint32_t valid_pid = UCS_BIT(29);
    peer &owner   = start("owner", {{"UCX_ROCM_IPC_SIGNAL_INVALIDATE", "n"}});
    shared remote = share(owner);

    EXPECT_EQ(64u, remote.key.size());
    EXPECT_EQ(valid_pid,
              field<uint32_t>(remote.key, 48) & ~(uint32_t)UCS_MASK(16));
    EXPECT_EQ(owner.pid(), field<int32_t>(remote.key, 52));
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_export, what_is_not_device_memory_is_refused)
{
    peer &owner = start("owner");
    buffer host = owner.alloc(default_length, UCS_MEMORY_TYPE_HOST);
    buffer mem  = owner.alloc(default_length);
    uint64_t memh;

    expect_log_messages();
    EXPECT_TRUE(UCS_STATUS_IS_ERR(owner.reg(host.address, host.length, memh)));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            owner.reg(mem.address, mem.length + UCS_MBYTE, memh)));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(owner.reg(mem.address, SIZE_MAX, memh)));
    EXPECT_TRUE(
            UCS_STATUS_IS_ERR(owner.reg(mem.address + 4096, mem.length, memh)));
    EXPECT_UCS_OK(owner.reg(mem.address + 4096, mem.length - 4096, memh));
    owner.free(mem);
}

/* The free event is a mere look-up while nothing that overlaps is exported. */
UCS_TEST_P(test_rocm_ipc_export, free_of_what_is_not_exported_calls_nothing)
{
    static const char *functions[] = {
        "hsa_signal_store_relaxed",    "hsa_signal_store_screlease",
        "hsa_signal_load_relaxed",     "hsa_signal_load_scacquire",
        "hsa_signal_silent_store_relaxed",
        "hsa_signal_silent_store_screlease",
        "hsa_signal_create",           "hsa_signal_destroy",
        "hsa_amd_signal_create",       "hsa_amd_ipc_signal_create",
        "hsa_amd_ipc_signal_attach",   "hsa_amd_ipc_memory_create",
        "hsa_amd_ipc_memory_attach",   "hsa_amd_ipc_memory_detach",
        "hsa_amd_signal_async_handler"
    };
    std::map<std::string, int64_t> before;
    std::vector<buffer> blocks;
    uint64_t memh;

    need_emulator();

    peer &owner  = start("owner");
    shared other = share(owner);

    for (int i = 0; i < 10; ++i) {
        blocks.push_back(owner.alloc(default_length));
    }
    ASSERT_UCS_OK(owner.reg(blocks[0].address, blocks[0].length, memh));

    for (size_t i = 0; i < ucs_static_array_size(functions); ++i) {
        before[functions[i]] = the_node().calls(functions[i], &owner);
    }

    for (size_t i = 0; i < blocks.size(); ++i) {
        owner.free(blocks[i]);
    }

    for (size_t i = 0; i < ucs_static_array_size(functions); ++i) {
        EXPECT_EQ(before[functions[i]], the_node().calls(functions[i], &owner))
                << functions[i];
    }
}

UCS_TEST_P(test_rocm_ipc_export, progress_destroys_what_was_freed)
{
    double deadline;

    need_emulator();

    peer &owner   = start("owner");
    shared remote = share(owner);

    EXPECT_EQ(1, the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner));
    owner.free(remote.mem);

    deadline = ucs_time_to_sec(ucs_get_time()) + rocm_ipc::time_limit();
    while (the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner) != 0) {
        owner.progress();
        ASSERT_LT(ucs_time_to_sec(ucs_get_time()), deadline);
    }
}

/* Nobody progresses, and still what was freed does not pile up. */
UCS_TEST_P(test_rocm_ipc_export, exporting_destroys_what_was_freed)
{
    const int max_retired = 1024;
    std::string key;
    uint64_t memh;

    need_emulator();

    peer &owner = start("owner");

    for (int i = 0; i < max_retired + 100; ++i) {
        buffer mem = owner.alloc(4 * UCS_KBYTE);

        ASSERT_UCS_OK(owner.reg(mem.address, mem.length, memh));
        ASSERT_UCS_OK(owner.pack(memh, key));
        ASSERT_UCS_OK(owner.dereg(memh));
        owner.free(mem);
    }

    EXPECT_LE(the_node().count(EMUL_COUNT_IPC_SIGNALS, &owner),
              max_retired + 1);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_export)
