/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_FUTEX_H_
#define EMUL_CORE_FUTEX_H_

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The kernel's wait queue for a word of shared memory. All waits here are
 * loops around a condition: a wake-up means "look again", never more.
 */

namespace emul {

/** Wait while *word == seen, for at most timeout_ns (< 0: no limit). */
inline void futex_wait(std::atomic<uint32_t> &word, uint32_t seen,
                       int64_t timeout_ns = -1)
{
    timespec limit = {time_t(timeout_ns / 1000000000),
                      long(timeout_ns % 1000000000)};

    syscall(SYS_futex, &word, FUTEX_WAIT, seen,
            (timeout_ns < 0) ? nullptr : &limit, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t> &word)
{
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/** Change the word and wake whoever waits for a change of it. */
inline void futex_bump(std::atomic<uint32_t> &word)
{
    word.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(word);
}

/** Nanoseconds of the monotonic clock. */
inline int64_t now_ns()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

} // namespace emul

#endif
