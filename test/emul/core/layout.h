/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_LAYOUT_H_
#define EMUL_CORE_LAYOUT_H_

#include "settings.h"

#include <emul.h>

#include <atomic>
#include <cstdint>

#include <pthread.h>

/*
 * The control block of a node: one sparse file that all its processes map.
 *
 * Any process may be killed between any two stores. So every record has one
 * word that says whether the rest counts, written last when it comes into being
 * and first when it goes; and what could be computed from the records and is
 * kept only for speed is computed again when a holder of the lock has died
 * (node.cc, repair).
 *
 * Everything is protected by node_shared_t::lock, except atomics whose comment
 * says "no lock".
 */

namespace emul {

constexpr unsigned max_processes   = 256;
constexpr unsigned max_devices     = 64;
constexpr unsigned max_points      = 2048;
constexpr unsigned max_allocations = 1 << 16;
constexpr unsigned max_attaches    = 1 << 18;
constexpr unsigned max_cells       = 1 << 16;
constexpr unsigned max_gates       = 512;
constexpr unsigned max_faults      = 2048;
constexpr unsigned nobody          = ~0u;

/** A set of processes, by slot. */
struct process_set {
    static constexpr unsigned word_bits = 64;

    std::atomic<uint64_t> words[max_processes / word_bits];

    void add(unsigned slot)
    {
        words[slot / word_bits].fetch_or(uint64_t(1) << (slot % word_bits));
    }

    void remove(unsigned slot)
    {
        words[slot / word_bits].fetch_and(~(uint64_t(1) << (slot % word_bits)));
    }

    bool has(unsigned slot) const
    {
        return (words[slot / word_bits].load() >> (slot % word_bits)) & 1;
    }

    bool empty() const
    {
        for (auto &word : words) {
            if (word.load() != 0) {
                return false;
            }
        }
        return true;
    }

    template<typename function> void each(function visit) const
    {
        for (unsigned i = 0; i < max_processes / word_bits; ++i) {
            uint64_t bits = words[i].load();

            for (; bits != 0; bits &= bits - 1) {
                visit(i * word_bits + __builtin_ctzll(bits));
            }
        }
    }
};

/** A 64-bit value that threads of any process change and wait for. No lock. */
struct cell {
    std::atomic<int64_t>  value;
    std::atomic<uint32_t> changes;  /* futex: differs after each change */
    std::atomic<uint32_t> waiters;  /* threads that may sleep on changes */
    process_set           watchers; /* whose bell a change rings */
};

/** A cell that several processes share by handle. */
struct shared_cell {
    cell                  content;
    std::atomic<uint64_t> id;       /* 0: record is free */
    uint32_t              creator;  /* slot, or nobody */
    uint32_t              open;     /* the creator has not destroyed it */
    process_set           attached;
};

enum allocation_state : uint32_t {
    allocation_live,
    allocation_freeing, /* its owner waits for the last detach */
    allocation_orphan   /* freed or owner gone, charged until the last detach */
};

/** One allocation of device memory. */
struct allocation_record {
    std::atomic<uint64_t> id;      /* 0: record is free; names the file too */
    uint64_t              size;    /* bytes asked for */
    uint64_t              charged; /* bytes taken: whole pages */
    uint32_t              device;
    uint32_t              owner;   /* slot, or nobody */
    uint32_t              state;
    uint32_t              attached; /* derived: attach records of it */
};

/** One mapping of an allocation by an importer. */
struct attach_record {
    std::atomic<uint32_t> used;
    uint32_t              allocation; /* index */
    uint32_t              process;    /* slot */
};

/** What a switch is addressed to. */
struct target {
    int32_t  pid;           /* EMUL_ANY_PROCESS: all */
    uint64_t pid_namespace;
    uint64_t serial;        /* 0: had not joined yet */
};

struct gate_record {
    std::atomic<uint32_t> closed;
    uint32_t              point;
    target                whom;
    uint64_t              passes; /* how many may still pass though closed */
};

struct fault_record {
    std::atomic<uint32_t> used;
    uint32_t              point;
    target                whom;
    uint64_t              skip;  /* calls that still pass */
    uint64_t              count; /* calls that still fail after these */
    int32_t               status;
};

/** What is known under a name: an API function or another gate point. */
struct point_record {
    char                  name[64];
    uint32_t              kind;  /* point_kind */
    std::atomic<uint32_t> armed; /* no lock; derived: gates and rules for it */
};

struct process_record {
    std::atomic<uint64_t> serial; /* 0: slot is free; never used twice */
    int32_t               pid;    /* in its own namespace */
    uint64_t              pid_namespace;
    uint64_t              start_time;

    /* no lock from here on */
    std::atomic<uint32_t> bell;        /* futex: its handler thread looks up */
    std::atomic<uint64_t> last_source; /* see handler_bell.cc */
    std::atomic<int64_t>  tallies[EMUL_COUNT_LAST];
    std::atomic<uint64_t> calls[max_points];
    std::atomic<uint32_t> waiting[max_points]; /* threads at gates */
};

struct node_shared_t {
    std::atomic<uint64_t> magic; /* written last */
    uint64_t              size;
    uint64_t              secret; /* makes handles of other nodes invalid */
    pthread_mutex_t       lock;   /* robust */

    std::atomic<int64_t>  settings[setting_count]; /* no lock */
    std::atomic<uint64_t> next_id;                 /* no lock */
    std::atomic<uint32_t> memory_events; /* futex: detach, death, setting */
    std::atomic<uint32_t> gate_events;   /* futex: a gate was opened */

    /* how much of each table was ever used */
    std::atomic<uint32_t> points_used;
    uint32_t              allocations_used;
    uint32_t              attaches_used;
    uint32_t              cells_used;

    uint64_t              charged[max_devices]; /* derived */

    process_record        processes[max_processes];
    point_record          points[max_points];
    gate_record           gates[max_gates];
    fault_record          faults[max_faults];
    allocation_record     allocations[max_allocations];
    attach_record         attaches[max_attaches];
    shared_cell           cells[max_cells];
};

static_assert(std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free,
              "shared memory needs atomics without hidden locks");

} // namespace emul

#endif
