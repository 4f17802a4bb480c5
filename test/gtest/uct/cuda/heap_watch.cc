/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "heap_watch.h"
#include "cuda_device.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <unordered_set>

namespace cuda_test {

/* Of the one watch that lives. Any thread may allocate. */
static std::mutex watch_lock;
static std::unordered_set<void*> watch_live;
static uint64_t watch_num_allocations;
static uint64_t watch_failing; /* How many until one fails, or 0 */

/** @return Whether this allocation has to fail. */
static bool allocation_begins()
{
    std::lock_guard<std::mutex> guard(watch_lock);

    ++watch_num_allocations;
    return (watch_failing > 0) && (--watch_failing == 0);
}

static void *allocated(void *ptr)
{
    std::lock_guard<std::mutex> guard(watch_lock);

    if (ptr != NULL) {
        watch_live.insert(ptr);
    }
    return ptr;
}

static void freed(void *ptr)
{
    std::lock_guard<std::mutex> guard(watch_lock);

    watch_live.erase(ptr);
}

static void *watched_malloc(size_t size)
{
    return allocation_begins() ? NULL : allocated(malloc(size));
}

static void *watched_calloc(size_t num, size_t size)
{
    return allocation_begins() ? NULL : allocated(calloc(num, size));
}

static void *watched_realloc(void *ptr, size_t size)
{
    void *result;

    if (allocation_begins()) {
        return NULL;
    }

    /* Before it is freed: then another thread may be given it */
    freed(ptr);
    result = realloc(ptr, size);
    return allocated((result == NULL) ? ptr : result);
}

static int watched_posix_memalign(void **ptr_p, size_t alignment, size_t size)
{
    int ret;

    if (allocation_begins()) {
        return ENOMEM;
    }

    ret = posix_memalign(ptr_p, alignment, size);
    if (ret == 0) {
        allocated(*ptr_p);
    }
    return ret;
}

static void *watched_memalign(size_t alignment, size_t size)
{
    return allocation_begins() ? NULL : allocated(memalign(alignment, size));
}

static void *watched_aligned_alloc(size_t alignment, size_t size)
{
    return allocation_begins() ? NULL :
                                 allocated(aligned_alloc(alignment, size));
}

static char *watched_strdup(const char *string)
{
    return allocation_begins() ? NULL : (char*)allocated(strdup(string));
}

static void watched_free(void *ptr)
{
    freed(ptr);
    free(ptr);
}

static const struct {
    const char *name;
    void       *function;
} watched[] = {{"malloc", (void *)watched_malloc},
               {"calloc", (void *)watched_calloc},
               {"realloc", (void *)watched_realloc},
               {"posix_memalign", (void *)watched_posix_memalign},
               {"memalign", (void *)watched_memalign},
               {"aligned_alloc", (void *)watched_aligned_alloc},
               {"strdup", (void *)watched_strdup},
               {"free", (void *)watched_free}};

static bool is_watched_object(const std::string &path)
{
    std::string name = path.substr(path.rfind('/') + 1);

    return (name.find("libucs.") == 0) || (name.find("libuct.") == 0) ||
           (name.find("libuct_cuda.") == 0);
}

heap_watch::heap_watch()
{
    watch_num_allocations = 0;
    watch_failing         = 0;
    watch_live.clear();
    dl_iterate_phdr(visit_object, this);
    if (m_entries.empty()) {
        throw failure("found no allocation to watch");
    }
}

heap_watch::~heap_watch()
{
    for (size_t i = 0; i < m_entries.size(); ++i) {
        *m_entries[i].address = m_entries[i].former;
    }
}

uint64_t heap_watch::num_allocations() const
{
    std::lock_guard<std::mutex> guard(watch_lock);

    return watch_num_allocations;
}

size_t heap_watch::num_live() const
{
    std::lock_guard<std::mutex> guard(watch_lock);

    return watch_live.size();
}

void heap_watch::fail(uint64_t nth)
{
    std::lock_guard<std::mutex> guard(watch_lock);

    watch_failing = nth;
}

int heap_watch::visit_object(struct dl_phdr_info *info, size_t, void *arg)
{
    heap_watch *self    = (heap_watch*)arg;
    const void *symbols = NULL, *tables[2] = {};
    size_t lengths[2]   = {};
    const char *names   = NULL;
    const ElfW(Dyn) * item;

    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        if ((info->dlpi_phdr[i].p_type != PT_DYNAMIC) ||
            !is_watched_object(info->dlpi_name)) {
            continue;
        }

        item = (const ElfW(Dyn) *)(info->dlpi_addr +
                                   info->dlpi_phdr[i].p_vaddr);
        for (; item->d_tag != DT_NULL; ++item) {
            switch (item->d_tag) {
            case DT_SYMTAB:
                symbols = (void *)item->d_un.d_ptr;
                break;
            case DT_STRTAB:
                names = (char *)item->d_un.d_ptr;
                break;
            case DT_JMPREL:
                tables[0] = (void *)item->d_un.d_ptr;
                break;
            case DT_PLTRELSZ:
                lengths[0] = item->d_un.d_val;
                break;
            case DT_RELA:
                tables[1] = (void *)item->d_un.d_ptr;
                break;
            case DT_RELASZ:
                lengths[1] = item->d_un.d_val;
                break;
            }
        }

        self->visit_table(tables[0], lengths[0], symbols, names,
                          info->dlpi_addr);
        self->visit_table(tables[1], lengths[1], symbols, names,
                          info->dlpi_addr);
    }

    return 0;
}

void heap_watch::visit_table(const void *table, size_t length,
                             const void *symbols, const char *names,
                             uintptr_t base)
{
    const ElfW(Rela) *entry = (const ElfW(Rela) *)table;
    const ElfW(Sym) * symbol;

    for (size_t i = 0; i < length / sizeof(*entry); ++i) {
        symbol = (const ElfW(Sym)*)symbols + ELF64_R_SYM(entry[i].r_info);
        for (size_t j = 0; j < sizeof(watched) / sizeof(watched[0]); ++j) {
            if ((ELF64_R_SYM(entry[i].r_info) != 0) &&
                (strcmp(names + symbol->st_name, watched[j].name) == 0)) {
                replace((void**)(base + entry[i].r_offset),
                        watched[j].function);
            }
        }
    }
}

/* The table may have been made read-only, and stays writable */
void heap_watch::replace(void **address, void *function)
{
    uintptr_t page = (uintptr_t)address & ~(sysconf(_SC_PAGESIZE) - 1ul);
    entry replaced = {address, *address};

    if (mprotect((void *)page, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) !=
        0) {
        throw failure("cannot watch allocations");
    }

    m_entries.push_back(replaced);
    *address = function;
}

} /* namespace cuda_test */
