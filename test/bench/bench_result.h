/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_RESULT_H_
#define BENCH_RESULT_H_

#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>

namespace bench {

/** Print a figure for buildlib/run-bench to read. */
inline void print_result(const std::string &name, double value)
{
    printf("result\t%s\t%.9g\n", name.c_str(), value);
    fflush(stdout);
}

/**
 * A section whose instructions are counted, if the program runs in callgrind;
 * else nothing happens. Only what a thread does between its calls of begin and
 * end counts. callgrind is to be started with --collect-atstart=no.
 */
class counted_section {
public:
    /** What was counted before is thrown away. */
    counted_section(std::string name, long operations) :
        m_name(std::move(name)), m_operations(operations)
    {
        CALLGRIND_ZERO_STATS;
    }

    counted_section(const counted_section&)            = delete;
    counted_section &operator=(const counted_section&) = delete;

    /** Write out what was counted, with the number of operations that it is
     *  to be divided by. */
    ~counted_section()
    {
        const std::string text = m_name + "\t" + std::to_string(m_operations);

        CALLGRIND_DUMP_STATS_AT(text.c_str());
    }

    static void begin()
    {
        CALLGRIND_TOGGLE_COLLECT;
    }

    static void end()
    {
        CALLGRIND_TOGGLE_COLLECT;
    }

private:
    const std::string m_name;
    const long        m_operations;
};

} // namespace bench

#endif
