/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_EMULATOR_H
#define CUDA_EMULATOR_H

#include <common/test.h>

#include <cuda.h>
#include <emul/emul.h>

#include <set>
#include <string>

namespace cuda_test {

/**
 * The emulator as far as it concerns this process, see emul.h. Whatever was
 * switched is switched back in the end. To be used only where @ref present is
 * true.
 */
class emulator {
public:
    emulator();
    ~emulator();

    bool present() const
    {
        return m_api != NULL;
    }

    int64_t count(emul_count_t what) const;

    /** How often this process has called a function. */
    int64_t calls(const std::string &function) const;

    /** How much a stream has begun, by its ordinal; -1: there is no such. */
    int64_t stream_operations(unsigned ordinal) const;

    /** Fail the @a nth call from now on, and those behind it. */
    void fail(const std::string &function, CUresult result, uint64_t nth = 1,
              uint64_t num = 1);

    /** Fail no more. */
    void fail_none();

    void close_gate(const std::string &point);
    void open_gate(const std::string &point);
    void open_gates();
    void pass_gate(const std::string &point, uint64_t num);

    /** Change a setting of the node, for good. */
    void set(const std::string &name, const std::string &value);

    /** Wait until a count has a value. */
    ::testing::AssertionResult reaches(emul_count_t what, int64_t value) const;

private:
    emulator(const emulator &);
    emulator &operator=(const emulator &);

    const emul_api_t      *m_api;
    std::set<std::string> m_closed;
    std::set<std::string> m_failing;
};

} /* namespace cuda_test */

#endif
