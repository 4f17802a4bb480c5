/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_PROCESS_H_
#define BENCH_PROCESS_H_

#include "../apps/demo_channel.h"

#include <sys/types.h>

#include <memory>
#include <string>

namespace bench {

/** A peer: this program, started anew in another of its roles. */
class peer_process {
public:
    peer_process(const std::string &role, size_t count);

    peer_process(const peer_process&)            = delete;
    peer_process &operator=(const peer_process&) = delete;

    /** Closes the channel, at which the peer exits, and waits for that. */
    ~peer_process();

    const demo::channel &channel() const
    {
        return *m_channel;
    }

    void kill();

private:
    pid_t                          m_pid;
    std::unique_ptr<demo::channel> m_channel;
};

/** Something that a benchmark does if it is the first argument. */
struct command {
    const char *name;
    const char *arguments;
    int        num_arguments;
    void       (*run)(char **arguments);
};

/** Commands in an array. */
struct command_list {
    const command *first;
    size_t        count;

    template<size_t size>
    command_list(const command (&commands)[size]) :
        first(commands), count(size)
    {
    }
};

/**
 * What the main function of a benchmark does.
 *
 * @param open_gpu Called before a measure.
 * @param measures What it measures; errors are printed.
 * @param roles    Of its peers. They take the number of a socket and a count.
 *
 * @return The exit status.
 */
int run_command(int argc, char **argv, void (*open_gpu)(),
                const command_list &measures, const command_list &roles);

} // namespace bench

#endif
