/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <common/test.h>

extern "C" {
#include <uct/base/ipc/ipc_stats.h>

#include <ucs/datastruct/string_buffer.h>
#include <ucs/vfs/base/vfs_obj.h>
}

#include <string>


class test_ipc_stats : public ucs::test {
protected:
    enum { FIRST, SECOND };

    virtual void init()
    {
        static const char *const names[] = {"first", "second"};

        ucs::test::init();
        memset(&stats, 0, sizeof(stats));
        stats.names        = names;
        stats.num_counters = 2;
        ASSERT_UCS_OK(ucs_vfs_obj_add_dir(nullptr, this, "test_ipc_stats"));
        uct_ipc_stats_vfs_init(this, &stats, "counters");
    }

    virtual void cleanup()
    {
        ucs_vfs_obj_remove(this);
        ucs::test::cleanup();
    }

    std::string read_file(const std::string &name)
    {
        ucs_string_buffer_t strb = UCS_STRING_BUFFER_INITIALIZER;
        std::string path         = "/test_ipc_stats/counters/" + name;
        std::string text;

        EXPECT_UCS_OK(ucs_vfs_path_read_file(path.c_str(), &strb));
        text = ucs_string_buffer_cstr(&strb);
        ucs_string_buffer_cleanup(&strb);
        return text;
    }

    static uint64_t
    get_a_hundred_more(const uct_ipc_stats_t *stats, unsigned counter)
    {
        return uct_ipc_stats_get(stats, counter) + 100;
    }

    uct_ipc_stats_t stats;
};

UCS_TEST_F(test_ipc_stats, counters_are_files) {
    EXPECT_EQ("0\n", read_file("first"));
    uct_ipc_stats_add(&stats, FIRST, 3);
    uct_ipc_stats_add(&stats, FIRST, -1);
    uct_ipc_stats_add(&stats, SECOND, 7);
    EXPECT_EQ("2\n", read_file("first"));
    EXPECT_EQ("7\n", read_file("second"));
}

UCS_TEST_F(test_ipc_stats, a_counter_may_be_more_than_its_value) {
    stats.get = get_a_hundred_more;
    uct_ipc_stats_add(&stats, SECOND, 5);
    EXPECT_EQ("105\n", read_file("second"));
}
