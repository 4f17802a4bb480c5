/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <cstring>
#include <thread>

/*
 * Copies, mainly those in the background.
 */

class copies : public emul_test {
protected:
    static constexpr size_t size  = 3 * megabyte + 8;
    static constexpr size_t words = size / sizeof(uint64_t);

    void SetUp() override
    {
        emul_test::SetUp();
        m_source      = allocate(size);
        m_destination = allocate(size, 1);
        for (size_t i = 0; i < words; ++i) {
            m_source[i] = i * 7 + 1;
        }
    }

    void TearDown() override
    {
        EXPECT_OK(hsa_amd_memory_pool_free(m_source));
        EXPECT_OK(hsa_amd_memory_pool_free(m_destination));
        emul_test::TearDown();
    }

    static hsa_status_t copy(void *destination, const void *source,
                             size_t bytes, hsa_signal_t done,
                             const std::vector<hsa_signal_t> &after = {})
    {
        return hsa_amd_memory_async_copy(destination, gpu(1), source, gpu(0),
                                         bytes, after.size(),
                                         after.empty() ? nullptr : after.data(),
                                         done);
    }

    static hsa_signal_value_t wait_below(hsa_signal_t s,
                                         hsa_signal_value_t value)
    {
        return hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, value,
                                         UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    }

    bool same() const
    {
        return memcmp(m_source, m_destination, size) == 0;
    }

    uint64_t *m_source;
    uint64_t *m_destination;
};

TEST_F(copies, decrement_their_signal_when_all_is_there)
{
    hsa_signal_t done = signal(1);

    EXPECT_OK(copy(m_destination, m_source, size, done));
    EXPECT_EQ(0, wait_below(done, 1));
    EXPECT_TRUE(same());
    EXPECT_EQ(0, count(EMUL_COUNT_COPIES));
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, of_nothing_do_not_signal)
{
    hsa_signal_t done = signal(1);

    EXPECT_OK(copy(m_destination, m_source, 0, done));
    EXPECT_EQ(0, count(EMUL_COUNT_COPIES));
    EXPECT_EQ(1, hsa_signal_load_scacquire(done));
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, wrong_arguments_are_refused)
{
    hsa_signal_t done = signal(1);
    hsa_signal_t gone = signal(1);

    EXPECT_OK(hsa_signal_destroy(gone));
    EXPECT_INVALID(copy(nullptr, m_source, 8, done));
    EXPECT_INVALID(copy(m_destination, nullptr, 8, done));
    EXPECT_INVALID(hsa_amd_memory_async_copy(m_destination, gpu(1), m_source,
                                             gpu(0), 8, 1, nullptr, done));
    EXPECT_INVALID(hsa_amd_memory_async_copy(m_destination, gpu(1), m_source,
                                             gpu(0), 8, 0, &done, done));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_AGENT,
              hsa_amd_memory_async_copy(m_destination, hsa_agent_t{1},
                                        m_source, gpu(0), 8, 0, nullptr, done));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL,
              copy(m_destination, m_source, 8, gone));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SIGNAL,
              copy(m_destination, m_source, 8, done, {gone}));
    EXPECT_EQ(1, hsa_signal_load_scacquire(done));
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, wait_for_the_signals_they_depend_on)
{
    hsa_signal_t done  = signal(1);
    hsa_signal_t other = signal(1);
    hsa_signal_t first = signal(1);
    hsa_signal_t last  = signal(2);

    EXPECT_OK(copy(m_destination, m_source, size, done, {first, last}));
    hsa_signal_store_screlease(first, 0);

    /* another one is not held up meanwhile */
    EXPECT_OK(copy(m_destination, m_source, 8, other));
    EXPECT_EQ(0, wait_below(other, 1));
    EXPECT_EQ(1, hsa_signal_load_scacquire(done));
    EXPECT_EQ(1, count(EMUL_COUNT_COPIES));

    hsa_signal_store_screlease(last, 0);
    EXPECT_EQ(0, wait_below(done, 1));
    EXPECT_TRUE(same());
    for (hsa_signal_t s : {done, other, first, last}) {
        EXPECT_OK(hsa_signal_destroy(s));
    }
}

TEST_F(copies, wait_at_their_gate_before_the_first_byte)
{
    constexpr int held = 20;
    hsa_signal_t done  = signal(held);

    close_gate("copy");
    for (int i = 0; i < held; ++i) {
        EXPECT_OK(copy(m_destination + i, m_source + i, 8, done));
    }
    ASSERT_TRUE(eventually([] {
        return count(EMUL_COUNT_COPIES_HELD) == held;
    }));
    EXPECT_EQ(held, count(EMUL_COUNT_COPIES));
    EXPECT_EQ(held, hsa_signal_load_scacquire(done));
    EXPECT_EQ(0u, m_destination[0]);

    /* what the source holds when the gate opens is what arrives */
    m_source[3] = 12345;
    open_gate("copy");
    EXPECT_EQ(0, wait_below(done, 1));
    EXPECT_EQ(12345u, m_destination[3]);
    EXPECT_EQ(0, count(EMUL_COUNT_COPIES_HELD));
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, can_fail_with_a_negative_signal)
{
    hsa_signal_t done = signal(1);

    fail("copy", 2, 1, HSA_STATUS_ERROR);
    EXPECT_OK(copy(m_destination, m_source, 8, done));
    EXPECT_EQ(0, wait_below(done, 1));

    hsa_signal_store_relaxed(done, 1);
    m_source[0] = 77;
    EXPECT_OK(copy(m_destination, m_source, 8, done));
    EXPECT_LT(wait_below(done, 1), 0);
    EXPECT_NE(77u, m_destination[0]);
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, take_the_time_that_bandwidth_and_latency_say)
{
    hsa_signal_t done = signal(2);
    uint64_t before, after;

    /* 2 x 1.5 MB over one link of 50 MB/s: 62.9 ms, and 20 ms on the way */
    set("EMUL_COPY_BANDWIDTH", "50000000");
    set("EMUL_COPY_LATENCY", "20000");
    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before);
    EXPECT_OK(copy(m_destination, m_source, size / 2, done));
    EXPECT_OK(copy((char*)m_destination + size / 2, (char*)m_source + size / 2,
                   size / 2, done));
    wait_below(done, 1);
    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after);
    EXPECT_GE(after - before, 82900000u);
    EXPECT_TRUE(same());
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, reach_locked_memory_by_both_addresses)
{
    hsa_signal_t done = signal(2);
    std::vector<uint64_t> host(words);
    void *agent_pointer;

    ASSERT_OK(hsa_amd_memory_lock(host.data(), size, nullptr, 0,
                                  &agent_pointer));
    EXPECT_NE((void*)host.data(), agent_pointer);
    EXPECT_OK(copy(agent_pointer, m_source, size, done));
    EXPECT_EQ(1, wait_below(done, 2));
    EXPECT_EQ(0, memcmp(m_source, host.data(), size));

    EXPECT_OK(copy(m_destination, host.data() + 1, size - 8, done));
    EXPECT_EQ(0, wait_below(done, 1));
    EXPECT_EQ(0, memcmp(m_destination, m_source + 1, size - 8));
    EXPECT_OK(hsa_amd_memory_unlock(host.data()));
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, between_host_addresses_need_no_lock)
{
    hsa_signal_t done = signal(1);
    uint64_t from = 5, to = 0;

    EXPECT_OK(hsa_amd_memory_async_copy(&to, cpu(), &from, cpu(), sizeof(to), 0,
                                        nullptr, done));
    EXPECT_EQ(0, wait_below(done, 1));
    EXPECT_EQ(5u, to);
    EXPECT_OK(hsa_signal_destroy(done));
}

TEST_F(copies, to_memory_that_is_not_mapped_are_a_memory_access_fault)
{
    EXPECT_DEATH({
        hsa_signal_t done = signal(1);
        uint64_t on_stack = 0;

        copy(&on_stack, m_source, 8, done);
        wait_below(done, 1);
    }, "memory access fault");

    EXPECT_DEATH({
        hsa_signal_t done = signal(1);

        copy(m_destination, m_source, size + 4096, done);
        wait_below(done, 1);
    }, "memory access fault");
}

TEST_F(copies, whose_mapping_goes_while_they_are_held_fault)
{
    EXPECT_DEATH({
        hsa_signal_t done           = signal(1);
        uint64_t *pointer           = allocate(size);
        hsa_amd_ipc_memory_t handle = export_memory(pointer, size);
        void *mapped;

        EXPECT_OK(hsa_amd_ipc_memory_attach(&handle, size, 0, nullptr,
                                            &mapped));
        close_gate("copy");
        EXPECT_OK(copy(mapped, m_source, size, done));
        EXPECT_TRUE(eventually([] {
            return count(EMUL_COUNT_COPIES_HELD) == 1;
        }));
        EXPECT_OK(hsa_amd_ipc_memory_detach(mapped));
        open_gate("copy");
        wait_below(done, 1);
    }, "memory access fault");
}

TEST_F(copies, that_end_on_a_destroyed_signal_abort)
{
    EXPECT_DEATH({
        hsa_signal_t done = signal(1);

        close_gate("copy");
        EXPECT_OK(copy(m_destination, m_source, 8, done));
        EXPECT_OK(hsa_signal_destroy(done));
        open_gate("copy");
        eventually([] { return false; });
    }, "completion signal .* destroyed");
}

TEST_F(copies, many_at_once_all_arrive)
{
    constexpr int threads = 4, each = 200;
    std::vector<std::thread> all;

    for (int t = 0; t < threads; ++t) {
        all.emplace_back([this, t] {
            hsa_signal_t done = signal(each);

            for (int i = 0; i < each; ++i) {
                size_t at = t * each + i;

                EXPECT_OK(copy(m_destination + at, m_source + at, 8, done));
            }
            EXPECT_EQ(0, wait_below(done, 1));
            EXPECT_OK(hsa_signal_destroy(done));
        });
    }
    for (auto &thread : all) {
        thread.join();
    }
    EXPECT_EQ(0, memcmp(m_source, m_destination, threads * each * 8));
}

TEST_F(copies, synchronous_ones_take_any_address)
{
    std::vector<uint64_t> host(words);

    EXPECT_OK(hsa_memory_copy(host.data(), m_source, size));
    EXPECT_OK(hsa_memory_copy(m_destination, host.data(), size));
    EXPECT_TRUE(same());
    EXPECT_INVALID(hsa_memory_copy(nullptr, m_source, 8));
    EXPECT_OK(hsa_memory_copy(host.data(), m_source, 0));
}

TEST_F(copies, fill_sets_words)
{
    EXPECT_OK(hsa_amd_memory_fill(m_destination, 0xabcd1234, 6));
    EXPECT_EQ(0xabcd1234abcd1234u, m_destination[2]);
    EXPECT_EQ(0u, m_destination[3]);
    EXPECT_INVALID(hsa_amd_memory_fill((char*)m_destination + 1, 0, 1));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              hsa_amd_memory_fill(m_destination, 0, size));
    EXPECT_OK(hsa_amd_memory_fill(m_destination, 0, 0));
}
