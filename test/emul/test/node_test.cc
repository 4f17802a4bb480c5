/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "node_test.h"

#include <cstdlib>

int64_t node_test::count(emul_count_t what, pid_t pid)
{
    int64_t value = -1;

    EXPECT_EQ(0, api().count(pid, what, &value));
    return value;
}

int64_t node_test::calls(const char *function, pid_t pid)
{
    int64_t value = -1;

    EXPECT_EQ(0, api().calls(pid, function, &value)) << function;
    return value;
}

int64_t node_test::waiters(const char *point, pid_t pid)
{
    int64_t value = -1;

    EXPECT_EQ(0, api().gate_waiters(pid, point, &value)) << point;
    return value;
}

void node_test::set(const char *name, const char *value)
{
    EXPECT_EQ(0, api().set(name, value)) << name << "=" << value;
}

void node_test::close_gate(const std::string &point, pid_t pid)
{
    EXPECT_EQ(0, api().gate_close(pid, point.c_str())) << point;
}

void node_test::open_gate(const std::string &point, pid_t pid)
{
    EXPECT_EQ(0, api().gate_open(pid, point.c_str())) << point;
}

void node_test::pass_gate(const std::string &point, uint64_t passes)
{
    EXPECT_EQ(0, api().gate_pass(getpid(), point.c_str(), passes)) << point;
}

void node_test::fail(const char *function, uint64_t nth, uint64_t count,
                     int status, pid_t pid)
{
    EXPECT_EQ(0, api().fail(pid, function, nth, count, status)) << function;
}

std::string node_test::new_node()
{
    static unsigned number = 0;

    return std::string(getenv("EMUL_NODE")) + "-" + std::to_string(++number);
}
