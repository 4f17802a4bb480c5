/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef FUZZ_GUARDED_PAGE_H_
#define FUZZ_GUARDED_PAGE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace fuzz {

/** A page whose last byte is the last one that can be read: whoever reads
 *  behind what was put there faults. */
class guarded_page {
public:
    guarded_page() : m_size(sysconf(_SC_PAGESIZE))
    {
        void *const pages = mmap(nullptr, 2 * m_size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if ((pages == MAP_FAILED) ||
            (mprotect(static_cast<char*>(pages) + m_size, m_size, PROT_NONE) !=
             0)) {
            abort();
        }

        m_end = static_cast<char*>(pages) + m_size;
    }

    guarded_page(const guarded_page&)            = delete;
    guarded_page &operator=(const guarded_page&) = delete;

    ~guarded_page()
    {
        munmap(m_end - m_size, 2 * m_size);
    }

    /** Put bytes against the end. The rest of the page holds none of theirs.
     *  @return where they begin; valid until the next call. */
    const void *put(const void *bytes, size_t length)
    {
        memset(m_end - m_size, 0xa5, m_size);
        return memcpy(m_end - length, bytes, length);
    }

private:
    const size_t m_size;
    char         *m_end;
};

} // namespace fuzz

#endif
