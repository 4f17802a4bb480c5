/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_CHILD_H_
#define EMUL_TEST_CHILD_H_

#include <cstddef>
#include <initializer_list>
#include <string>

#include <sys/types.h>

/*
 * Other processes of a test: this program again, started by exec, since nothing
 * of a runtime survives a fork.
 */

using environment_list = std::initializer_list<std::string>;

/** A process that is started with "--peer <socket>" and asked things by it. */
class child {
public:
    /** @param environment  "NAME=value" each, added to this process's. */
    explicit child(environment_list environment);
    ~child();

    child(const child&)            = delete;
    child &operator=(const child&) = delete;

    pid_t pid() const
    {
        return m_pid;
    }

    bool ended() const
    {
        return m_pid < 0;
    }

    void send(const void *message, size_t size);

    /** @return false if it has died. */
    bool receive(void *message, size_t size);

    /** Whether there is something to receive. */
    bool has_sent() const;

    /** Kill it and wait for its end. */
    void kill();

    /** Wait for its end. @return As of waitpid. */
    int wait_for_end();

    /** What it wrote to stderr; only after its end. */
    std::string errors() const
    {
        return m_errors;
    }

private:
    pid_t       m_pid;
    int         m_socket;
    int         m_stderr;
    std::string m_errors;
};

/** In the child: the other end of its socket.
 *  @return false if the parent is gone. */
bool child_receive(int socket, void *message, size_t size);
bool child_send(int socket, const void *message, size_t size);

/** Starts a program with arguments, adds to the environment, and waits.
 *  @param output_p  Filled with what it wrote to stdout and stderr.
 *  @return As of waitpid. */
int run_program(std::initializer_list<std::string> arguments,
                environment_list environment, std::string *output_p);

void test_nap();

/** Wait until the condition holds; false after a time that is only reached if
 *  something hangs. */
template<typename predicate> bool eventually(predicate condition)
{
    constexpr int patience_ms = 30000;

    for (int i = 0; i < patience_ms; ++i) {
        if (condition()) {
            return true;
        }
        test_nap();
    }
    return false;
}

#endif
