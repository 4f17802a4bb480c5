/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_LEAK_LIST_H_
#define EMUL_CORE_LEAK_LIST_H_

#include <cstdint>
#include <string>

namespace emul {

/** Collects what a process still holds, one thing a line, for where
 *  EMUL_LEAK_REPORT says: "stderr" or a file, to which it is appended. */
class leak_list {
public:
    /** Whether a report is wanted. */
    static bool wanted();

    void add(const char *what, uint64_t handle);

    /** The same for memory. */
    void add(const char *what, uint64_t size, const void *address);

    /** Nothing is written, and no file made, if there is nothing in it. */
    void write() const;

private:
    std::string m_text;
};

} // namespace emul

#endif
