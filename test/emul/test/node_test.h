/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_NODE_TEST_H_
#define EMUL_TEST_NODE_TEST_H_

#include <emul.h>

#include <gtest/gtest.h>

#include <string>

#include <unistd.h>

constexpr size_t kilobyte = 1024;
constexpr size_t megabyte = 1024 * kilobyte;

/** A test that asks and controls the emulated node, whatever the runtime. Each of
 *  these fails the test if it is refused. */
class node_test : public ::testing::Test {
protected:
    static const emul_api_t &api()
    {
        return *emul_get();
    }

    static int64_t count(emul_count_t what, pid_t pid = getpid());
    static int64_t calls(const char *function, pid_t pid = getpid());
    static int64_t waiters(const char *point, pid_t pid = getpid());
    static void set(const char *name, const char *value);
    static void close_gate(const std::string &point, pid_t pid = getpid());
    static void open_gate(const std::string &point, pid_t pid = getpid());
    static void pass_gate(const std::string &point, uint64_t passes);
    static void fail(const char *function, uint64_t nth, uint64_t count,
                     int status, pid_t pid = getpid());

    /** A directory for a node of its own, and the variable for it. */
    static std::string new_node();
};

#endif
