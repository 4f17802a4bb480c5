/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <common/test.h>

extern "C" {
#include <uct/base/ipc/ipc_export.h>
}

#include <atomic>
#include <functional>
#include <map>
#include <thread>
#include <vector>


/* Exports whose creation, marking and destruction are counted */
class test_ipc_export : public ucs::test {
protected:
    struct counted_export {
        uct_ipc_export_t super;
        unsigned         id;
    };

    virtual void init()
    {
        ucs::test::init();
        self    = this;
        created = 0;
        marked  = 0;
        gone    = 0;
        before_create_returns = nullptr;
        ASSERT_UCS_OK(uct_ipc_export_table_init(&table, &ops));
    }

    virtual void cleanup()
    {
        uct_ipc_export_table_purge(&table);
        uct_ipc_export_table_cleanup(&table);
        /* Whatever a test has done: nothing leaks, and no importer is left
         * believing that memory is alive */
        EXPECT_EQ(created, gone);
        EXPECT_EQ(created - discarded(), marked);
        ucs::test::cleanup();
    }

    /* Exports that were destroyed without ever having been live */
    virtual unsigned discarded() const
    {
        return num_discarded;
    }

    ucs_status_t pack(uintptr_t base, size_t length, unsigned *id_p = nullptr)
    {
        unsigned id         = 0;
        ucs_status_t status = uct_ipc_export_table_pack(&table, base, length,
                                                        nullptr, &id);
        if (id_p != nullptr) {
            *id_p = id;
        }
        return status;
    }

    unsigned pack_ok(uintptr_t base, size_t length)
    {
        unsigned id;
        EXPECT_UCS_OK(pack(base, length, &id));
        return id;
    }

    void make_all_due()
    {
        /* As if the time had passed */
        uct_ipc_export_t *ipc_export;
        ucs_queue_for_each(ipc_export, &table.retired, queue) {
            ipc_export->retired_at = 0;
        }
        table.reap_time = 0;
    }

    static const uct_ipc_export_ops_t ops;
    static test_ipc_export            *self;

    uct_ipc_export_table_t            table;
    std::atomic<unsigned>             created;
    std::atomic<unsigned>             marked;
    std::atomic<unsigned>             gone;
    unsigned num_discarded     = 0;
    ucs_status_t create_status = UCS_OK;
    std::function<void()>             before_create_returns;

private:
    static ucs_status_t create_cb(uintptr_t base, size_t length,
                                  const void *arg, uct_ipc_export_t **export_p)
    {
        if (self->create_status != UCS_OK) {
            return self->create_status;
        }

        counted_export *counted = new counted_export();
        counted->id             = ++self->created;
        *export_p               = &counted->super;
        if (self->before_create_returns) {
            std::function<void()> action = self->before_create_returns;
            self->before_create_returns  = nullptr;
            action();
        }
        return UCS_OK;
    }

    static void destroy_cb(uct_ipc_export_t *ipc_export)
    {
        ++self->gone;
        delete reinterpret_cast<counted_export*>(ipc_export);
    }

    static void mark_freed_cb(uct_ipc_export_t *ipc_export)
    {
        ++self->marked;
    }

    static void pack_cb(const uct_ipc_export_t *ipc_export, void *buffer)
    {
        *static_cast<unsigned*>(buffer) =
                reinterpret_cast<const counted_export*>(ipc_export)->id;
    }
};

test_ipc_export *test_ipc_export::self = nullptr;

const uct_ipc_export_ops_t test_ipc_export::ops = {create_cb, destroy_cb,
                                                   mark_freed_cb, pack_cb};


UCS_TEST_F(test_ipc_export, one_export_for_each_allocation) {
    unsigned first  = pack_ok(0x10000, 0x1000);
    unsigned second = pack_ok(0x20000, 0x1000);

    EXPECT_NE(first, second);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(first, pack_ok(0x10000, 0x1000));
        EXPECT_EQ(second, pack_ok(0x20000, 0x1000));
    }
    EXPECT_EQ(2u, created);
    EXPECT_EQ(0u, marked);
}

UCS_TEST_F(test_ipc_export, failed_creation_leaves_nothing) {
    create_status = UCS_ERR_NO_MEMORY;
    EXPECT_EQ(UCS_ERR_NO_MEMORY, pack(0x10000, 0x1000));
    create_status = UCS_OK;
    pack_ok(0x10000, 0x1000);
    EXPECT_EQ(1u, created);
}

UCS_TEST_F(test_ipc_export, free_tells_importers_at_once_and_destroys_later) {
    unsigned first = pack_ok(0x10000, 0x1000);

    uct_ipc_export_table_retire(&table, 0x10000, 0x1000);
    EXPECT_EQ(1u, marked);
    EXPECT_EQ(0u, gone);
    EXPECT_EQ(0u, uct_ipc_export_table_progress(&table));

    EXPECT_NE(first, pack_ok(0x10000, 0x1000));
    EXPECT_EQ(1u, uct_ipc_stats_get(&table.stats, UCT_IPC_EXPORT_STAT_LIVE));
    EXPECT_EQ(1u, uct_ipc_stats_get(&table.stats, UCT_IPC_EXPORT_STAT_RETIRED));

    make_all_due();
    EXPECT_EQ(1u, uct_ipc_export_table_progress(&table));
    EXPECT_EQ(0u, uct_ipc_stats_get(&table.stats, UCT_IPC_EXPORT_STAT_RETIRED));
    EXPECT_EQ(1u, uct_ipc_stats_get(&table.stats, UCT_IPC_EXPORT_STAT_REAPED));
    EXPECT_EQ(1u, gone);
    EXPECT_EQ(UCS_TIME_INFINITY, table.reap_time);
}

UCS_TEST_F(test_ipc_export, free_reaches_every_overlap_and_nothing_else) {
    for (uintptr_t base = 0x10000; base < 0x20000; base += 0x1000) {
        pack_ok(base, 0x1000);
    }

    uct_ipc_export_table_retire(&table, 0xf000, 0x1000); /* ends before */
    uct_ipc_export_table_retire(&table, 0x20000, 0x1000); /* starts after */
    EXPECT_EQ(0u, marked);

    uct_ipc_export_table_retire(&table, 0x12fff, 0x1002); /* one byte into */
    EXPECT_EQ(3u, marked);

    uct_ipc_export_table_retire(&table, 0x15800, 0); /* size unknown */
    EXPECT_EQ(4u, marked);

    uct_ipc_export_table_retire(&table, 0x1f000, UINTPTR_MAX); /* wraps */
    EXPECT_EQ(5u, marked);
}

UCS_TEST_F(test_ipc_export, last_page_of_the_address_space) {
    const uintptr_t base = UINTPTR_MAX - 0xfff;

    pack_ok(base, 0x1000);
    uct_ipc_export_table_retire(&table, 0x1000, 0x1000);
    EXPECT_EQ(0u, marked);
    uct_ipc_export_table_retire(&table, base, 0x1000);
    EXPECT_EQ(1u, marked);
}

UCS_TEST_F(test_ipc_export, unnoticed_free_is_found_at_the_next_export) {
    unsigned small = pack_ok(0x11000, 0x1000);

    /* The same address with another size can only be new memory */
    EXPECT_NE(small, pack_ok(0x10000, 0x8000));
    EXPECT_EQ(1u, marked);
    EXPECT_NE(small, pack_ok(0x11000, 0x1000));
    EXPECT_EQ(2u, marked);
}

UCS_TEST_F(test_ipc_export, free_while_exporting_fails_the_export) {
    before_create_returns = [this]() {
        uct_ipc_export_table_retire(&table, 0x10800, 0x100);
    };
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, pack(0x10000, 0x1000));
    EXPECT_EQ(1u, gone);
    num_discarded = 1;

    before_create_returns = [this]() {
        uct_ipc_export_table_retire(&table, 0x11000, 0x1000);
        uct_ipc_export_table_retire(&table, 0xf000, 0x1000);
    };
    EXPECT_UCS_OK(pack(0x10000, 0x1000)); /* only neighbours were freed */
}

UCS_TEST_F(test_ipc_export, loser_of_a_race_gets_the_winners_export) {
    unsigned winner = 0;

    before_create_returns = [&]() { winner = pack_ok(0x10000, 0x1000); };
    EXPECT_EQ(winner, pack_ok(0x10000, 0x1000) * 1u);
    EXPECT_EQ(2u, created);
    EXPECT_EQ(1u, gone);
    num_discarded = 1;
}

UCS_TEST_F(test_ipc_export, retired_exports_are_bounded_without_progress) {
    const unsigned count = 3 * UCT_IPC_EXPORT_MAX_RETIRED;

    for (unsigned i = 0; i < count; ++i) {
        pack_ok(0x10000, 0x1000);
        uct_ipc_export_table_retire(&table, 0x10000, 0x1000);
        EXPECT_LE(table.num_retired, UCT_IPC_EXPORT_MAX_RETIRED + 1u);
    }
    EXPECT_EQ(count, created);
    EXPECT_EQ(count, marked);
}

UCS_TEST_F(test_ipc_export, threads_export_and_free) {
    const int num_threads = 4;
    std::atomic<bool> failed(false);
    std::vector<std::thread> threads;

    for (int t = 0; t < num_threads; ++t) {
        threads.emplace_back([&, t]() {
            const uintptr_t base = 0x100000 * (t + 1);

            for (int i = 0; i < 2000; ++i) {
                uintptr_t address = base + ((i % 7) * 0x1000);
                unsigned id1, id2;

                failed = failed || (pack(address, 0x1000, &id1) != UCS_OK) ||
                         (pack(address, 0x1000, &id2) != UCS_OK) ||
                         (id1 != id2);
                uct_ipc_export_table_retire(&table, address, 0x1000);
                uct_ipc_export_table_reap(&table);
            }
        });
    }

    for (auto &thread : threads) {
        thread.join();
    }

    EXPECT_FALSE(failed);
    EXPECT_EQ(2000u * num_threads, created);
}
