/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef HEAP_WATCH_H
#define HEAP_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

struct dl_phdr_info;

namespace cuda_test {

/**
 * While this lives, it sees each allocation that UCX's libraries make, and can
 * make one of them fail.
 *
 * Their calls of malloc() and its kin go through tables of addresses, in which
 * the watch puts itself; so none can pass it by, however it comes about. What
 * others allocate, the test itself and the GPU runtime, is not seen. There may
 * be one watch at a time.
 */
class heap_watch {
public:
    heap_watch();
    ~heap_watch();

    /** How often something was allocated, since the watch began. */
    uint64_t num_allocations() const;

    /** How much of that is not freed. */
    size_t num_live() const;

    /** From now on, the @a nth allocation fails, once. */
    void fail(uint64_t nth);

private:
    heap_watch(const heap_watch &);
    heap_watch &operator=(const heap_watch &);

    struct entry {
        void **address;
        void *former;
    };

    static int visit_object(struct dl_phdr_info *info, size_t size, void *arg);
    void visit_table(const void *table, size_t length, const void *symbols,
                     const char *names, uintptr_t base);
    void replace(void **address, void *function);

    std::vector<entry> m_entries;
};

} /* namespace cuda_test */

#endif
