/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <string.h>

/* Keys that are late, old, of another version, or not keys at all. */
class test_rocm_ipc_keys : public test_rocm_ipc {
protected:
    enum {
        OFFSET_HANDLE  = 0,
        OFFSET_ADDRESS = 32,
        OFFSET_LENGTH  = 40,
        OFFSET_DEVICE  = 48,
        OFFSET_PID     = 52,
        OFFSET_PID_NS  = 56,
        OFFSET_SIGNAL  = 64,
        KEY_LENGTH     = 96
    };

    test_rocm_ipc_keys() : m_random_state(1)
    {
    }

    /** The same keys in each run: a failure must be there when it is looked
     *  for. */
    std::string random_bytes(size_t length)
    {
        std::string bytes(length, '\0');

        for (size_t i = 0; i < length; ++i) {
            bytes[i] = (char)rocm_ipc::pattern_byte(m_random_state, i);
        }
        ++m_random_state;
        return bytes;
    }

    template<typename T>
    static void set_field(std::string &key, size_t offset, T value)
    {
        memcpy(&key[offset], &value, sizeof(value));
    }

    /** What a peer with a stock module would have sent. */
    static std::string
    stock_key(const shared &remote, size_t length, char padding)
    {
        std::string key = remote.key.substr(0, OFFSET_PID);
        uint32_t device;

        memcpy(&device, &key[OFFSET_DEVICE], sizeof(device));
        set_field(key, OFFSET_DEVICE, device & (uint32_t)UCS_MASK(16));
        if (length == OFFSET_SIGNAL) {
            /* The newer layout: process and its namespace, and no bit that
             * says so */
            return remote.key.substr(0, OFFSET_DEVICE) +
                   key.substr(OFFSET_DEVICE) +
                   remote.key.substr(OFFSET_PID, OFFSET_SIGNAL - OFFSET_PID);
        }

        key.resize(length, padding);
        return key;
    }

    /** Use a key that may or may not be good: whatever happens, it is an error
     *  of this operation or right data. */
    void try_key(peer &importer, uint64_t ep, const std::string &key,
                 const shared &remote, bool check_data = true)
    {
        const size_t length = 256;
        buffer local        = importer.alloc(length);
        ucs_status_t status;
        uint64_t rkey;

        importer.fill(local);
        status = importer.unpack(key, rkey);
        if (status == UCS_OK) {
            status = importer.get(ep, rkey, remote.mem.address, local.address,
                                  length);
            EXPECT_UCS_OK(importer.release(rkey));
        }

        EXPECT_TRUE((status == UCS_OK) || UCS_STATUS_IS_ERR(status)) << status;
        if ((status == UCS_OK) && check_data) {
            EXPECT_TRUE(importer.holds(local.address, length, remote.mem.seed));
        }
        importer.free(local);
    }

    void expect_key_works(peer &importer, uint64_t ep, const shared &remote)
    {
        uint64_t rkey = import(importer, remote);

        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(importer.release(rkey));
    }

    void expect_out_of_range(peer &importer, uint64_t ep, uint64_t rkey,
                             const buffer &local, uint64_t remote_address,
                             size_t length)
    {
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                importer.get(ep, rkey, remote_address, local.address, length)));
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                importer.put(ep, rkey, remote_address, local.address, length)));
    }

    uint64_t m_random_state;
};

/* Report 6 */
UCS_TEST_P(test_rocm_ipc_keys, late_key_is_refused_without_attaching)
{
    /* Attaching what has vanished would hang for ever */
    set("EMUL_LATE_ATTACH", "block");

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey;

    owner.free(remote.mem);
    rkey = import(importer, remote);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, put(owner, importer, ep, rkey, remote));
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_HANDLERS));
    }
}

/* The owner has even destroyed the signal: so late, that a runtime in which a
 * late attach hangs would hang. In the others it is an error. */
UCS_TEST_P(test_rocm_ipc_keys, very_late_key_is_refused_without_attaching)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey;

    expect_log_messages();
    owner.close_transport();
    owner.free(remote.mem);
    owner.close_md();
    rkey = import(importer, remote);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(get(importer, ep, rkey, remote)));
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }
}

UCS_TEST_P(test_rocm_ipc_keys, key_of_a_dead_owner_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey;

    expect_log_messages();
    owner.kill();
    rkey = import(importer, remote);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(get(importer, ep, rkey, remote)));
}

UCS_TEST_P(test_rocm_ipc_keys, out_of_range_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    uint64_t rkey  = import(importer, remote);
    buffer local   = importer.alloc(2 * default_length);
    uint64_t begin = remote.mem.address;

    expect_log_messages();
    expect_out_of_range(importer, ep, rkey, local, begin - 1, 1);
    expect_out_of_range(importer, ep, rkey, local, begin - 1, 16);
    expect_out_of_range(importer, ep, rkey, local, remote.mem.end(), 1);
    expect_out_of_range(importer, ep, rkey, local, remote.mem.end() - 1, 2);
    expect_out_of_range(importer, ep, rkey, local, begin,
                        remote.mem.length + 1);
    expect_out_of_range(importer, ep, rkey, local, 0, 16);
    /* Sums that wrap around */
    expect_out_of_range(importer, ep, rkey, local, begin, SIZE_MAX);
    expect_out_of_range(importer, ep, rkey, local, begin, SIZE_MAX - begin + 2);
    expect_out_of_range(importer, ep, rkey, local, begin + 1, SIZE_MAX);
    expect_out_of_range(importer, ep, rkey, local, begin + 16, SIZE_MAX - 7);
    expect_out_of_range(importer, ep, rkey, local, UINT64_MAX, 1);
    expect_out_of_range(importer, ep, rkey, local, UINT64_MAX - 15, 16);
    expect_out_of_range(importer, ep, rkey, local, UINT64_MAX - 15,
                        default_length);
    if (emulated()) {
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    EXPECT_UCS_OK(get_part(importer, ep, rkey, remote, 0, 1));
    EXPECT_UCS_OK(get_part(importer, ep, rkey, remote, default_length - 1, 1));
}

UCS_TEST_P(test_rocm_ipc_keys, garbage_is_refused)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);

    expect_log_messages();
    for (int i = 0; i < 3; ++i) {
        const uint64_t addresses[] = {remote.mem.address, 0, UINT64_MAX - 63};

        expect_useless(importer, ep, std::string(KEY_LENGTH, 0), addresses[i]);
        expect_useless(importer, ep, std::string(KEY_LENGTH, (char)0xff),
                       addresses[i]);
    }

    for (int i = 0; i < 200; ++i) {
        expect_useless(importer, ep, random_bytes(KEY_LENGTH),
                       remote.mem.address);
    }

    expect_key_works(importer, ep, remote);
}

/* Address and length are plausible, so that the handles get used. */
UCS_TEST_P(test_rocm_ipc_keys, garbage_in_handles_is_refused)
{
    const size_t length_handle = OFFSET_ADDRESS - OFFSET_HANDLE;
    const size_t length_signal = KEY_LENGTH - OFFSET_SIGNAL;
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);

    expect_log_messages();
    for (int i = 0; i < 50; ++i) {
        std::string bad_handle = remote.key, bad_signal = remote.key;
        std::string bad_both;

        bad_handle.replace(OFFSET_HANDLE, length_handle,
                           random_bytes(length_handle));
        bad_signal.replace(OFFSET_SIGNAL, length_signal,
                           random_bytes(length_signal));
        bad_both = bad_handle;
        bad_both.replace(OFFSET_SIGNAL, length_signal,
                         random_bytes(length_signal));

        expect_useless(importer, ep, bad_handle, remote.mem.address);
        expect_useless(importer, ep, bad_signal, remote.mem.address);
        expect_useless(importer, ep, bad_both, remote.mem.address);
        shared stock = remote;
        stock.key    = bad_handle;
        expect_useless(importer, ep, stock_key(stock, OFFSET_PID_NS, 0),
                       remote.mem.address);
    }

    if (emulated()) {
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_ATTACHES));
        EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
    }
    expect_key_works(importer, ep, remote);
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_keys, truncated_key_is_harmless)
{
    static const size_t lengths[] = {0, 8, 31, 32, 40, 47, 48, 50, 52, 56, 63,
                                     64, 80, 95};
    static const char poisons[]   = {0, (char)0xaa, (char)0xff};
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);

    expect_log_messages();
    for (size_t i = 0; i < ucs_static_array_size(lengths); ++i) {
        for (size_t j = 0; j < ucs_static_array_size(poisons); ++j) {
            std::string key = remote.key.substr(0, lengths[i]);

            key.resize(KEY_LENGTH, poisons[j]);
            try_key(importer, ep, key, remote,
                    (lengths[i] >= OFFSET_DEVICE) || (lengths[i] == 0));
        }
    }

    expect_key_works(importer, ep, remote);

    /* Some of these are what a stock peer might send, some seem to come from
     * another process: such mappings stay */
    importer.close_transport();
    importer.close_md();
    owner.free(remote.mem);
}

UCS_TEST_P(test_rocm_ipc_keys, altered_key_is_harmless)
{
    const int step = ucs::test_time_multiplier();
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);

    expect_log_messages();
    for (size_t bit = 0; bit < KEY_LENGTH * 8; bit += step) {
        std::string key = remote.key;
        size_t offset   = bit / 8;

        key[offset] ^= 1 << (bit % 8);
        /* A wrong base address that contains the right one is a lie that no
         * importer can see through */
        try_key(importer, ep, key, remote,
                (offset < OFFSET_ADDRESS) || (offset >= OFFSET_DEVICE));
    }

    expect_key_works(importer, ep, remote);
    importer.close_transport();
    importer.close_md();
    owner.free(remote.mem);
}

/* A stock exporter and this importer: as stock does, for both layouts. */
UCS_TEST_P(test_rocm_ipc_keys, stock_keys_are_imported_as_stock_does)
{
    static const char paddings[] = {0, (char)0xa5, (char)0xff};
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    shared stock   = remote;
    uint64_t freed, rkey;

    for (size_t i = 0; i < ucs_static_array_size(paddings); ++i) {
        stock.key = stock_key(remote, OFFSET_PID_NS, paddings[i]);
        rkey      = import(importer, stock);
        EXPECT_UCS_OK(get(importer, ep, rkey, stock));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, stock));
        EXPECT_UCS_OK(get(importer, ep, rkey, stock));
    }

    stock.key = stock_key(remote, OFFSET_SIGNAL, 0);
    rkey      = import(importer, stock);
    EXPECT_UCS_OK(get(importer, ep, rkey, stock));

    if (emulated()) {
        EXPECT_EQ(1, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
        EXPECT_EQ(0, the_node().calls("hsa_amd_ipc_signal_attach", &importer));
    }

    /* Nothing tells the importer, so the free has to wait until it goes */
    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
        EXPECT_UCS_OK(get(importer, ep, rkey, stock));
    }

    importer.close_transport();
    importer.quit();
    EXPECT_UCS_OK(owner.wait(freed).status);
}

UCS_TEST_P(test_rocm_ipc_keys, stock_key_with_another_handle_replaces_mapping)
{
    set("EMUL_FREE", "deferred");
    set("EMUL_ADDRESS_REUSE", "force");

    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    int64_t first_charged = 0;

    for (int i = 0; i < 5; ++i) {
        shared remote = share(owner);
        uint64_t rkey;

        remote.key = stock_key(remote, OFFSET_PID_NS, (char)i);
        rkey       = import(importer, remote);
        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        if (emulated()) {
            EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES));
            if (i == 0) {
                first_charged = the_node().count(EMUL_COUNT_BYTES_CHARGED);
            }
            EXPECT_EQ(first_charged,
                      the_node().count(EMUL_COUNT_BYTES_CHARGED));
        }
        owner.free(remote.mem);
    }

    importer.close_transport();
    importer.quit();
    if (emulated()) {
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
    }
}

/* One allocation under a stock key and under ours, as two peers of one owner
 * may pass it on. */
UCS_TEST_P(test_rocm_ipc_keys, stock_key_beside_ours)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");
    uint64_t ep    = importer.connect(owner);
    shared ours    = share(owner);
    shared stock   = ours;
    uint64_t rkey1, rkey2, freed;

    stock.key = stock_key(ours, OFFSET_PID_NS, 0);
    rkey1     = import(importer, stock);
    rkey2     = import(importer, ours);
    for (int i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get(importer, ep, rkey1, stock));
        EXPECT_UCS_OK(get(importer, ep, rkey2, ours));
    }

    freed = owner.post_free(ours.mem);
    importer.close_transport();
    importer.quit();
    EXPECT_UCS_OK(owner.wait(freed).status);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_keys)
