/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_REGION_H_
#define UCT_IPC_REGION_H_

#include <ucs/datastruct/list.h>
#include <ucs/datastruct/pgtable.h>
#include <ucs/debug/assert.h>
#include <ucs/sys/compiler_def.h>
#include <ucs/sys/math.h>
#include <ucs/time/time.h>

#include <stdint.h>


/**
 * @file ipc_region.h
 * @brief The life of a region, the importer's record of one mapping.
 *
 * One atomic word decides when the mapping goes and who does it:
 *
 *       31     30                                                    0
 *    +------+---------------------------------------------------------+
 *    | DEAD |                    number of pins                       |
 *    +------+---------------------------------------------------------+
 *
 *  1. A pin keeps the mapping. No pin is given once DEAD is set; therefore
 *     pinning compares and swaps. An increment that is taken back when DEAD
 *     turns out to be set could reach zero twice, and detach twice.
 *  2. A claim sets DEAD. Whoever changed the bit is the winner, takes the
 *     region out of the table, and lets go of the lifetime channel.
 *  3. The mapping is detached by the winner if nothing was pinned, else by
 *     whoever removes the last pin: exactly once, as early as is safe.
 *
 * A reference keeps the record, not the mapping. These hold one each: the
 * mapping (until it is detached), the table, the thread which imports the
 * memory, the lifetime channel that claims the region when a handler is called,
 * the watcher, and every remote key that remembers the region.
 */


enum {
    UCT_IPC_REGION_DEAD = UCS_BIT(31),
    UCT_IPC_REGION_PINS = UCS_MASK(31)
};


/** A process whose memory is imported, see ipc_watcher.h */
typedef struct uct_ipc_owner uct_ipc_owner_t;


/** Common part of the record of one mapping. */
typedef struct uct_ipc_region {
    ucs_pgt_region_t super;        /**< Remote address range */
    uint32_t         life;         /**< The atomic word */
    uint32_t         refcount;     /**< Atomic */
    uint64_t         num_hits;     /**< Atomic: how often it was found */
    void             *space;       /**< Where it is linked, or NULL; under the
                                        lock of the cache */
    int              has_channel;  /**< Atomic: somebody claims it when the
                                        memory is freed ... */
    int              has_handler;  /**< Atomic: ... and that is a handler */
    int              owner_freed;  /**< The owner is known to have freed the
                                        memory; set before DEAD */
    void             *mapped_addr; /**< Local address of the remote base */
    ucs_list_link_t  list;         /**< In the list of its space; after it was
                                        unlinked, of whoever did that */
    ucs_list_link_t  lru_list;     /**< In the order of use, see ipc_cache.h */
    ucs_time_t       last_used;    /**< Atomic: while the cache is bounded */
    ucs_time_t       lru_time;     /**< Value of last_used that has decided the
                                        place in lru_list */
    unsigned         todo;         /**< Set by whoever has unlinked it */
    uct_ipc_owner_t  *owner;       /**< Process that it belongs to, or NULL if
                                        that is not watched */
    ucs_list_link_t  watch_list;   /**< Used by the watcher ... */
    ucs_time_t       dead_since;   /**< ... when it has seen the region dead */
} uct_ipc_region_t;


/** What is left to do for whoever has claimed or unlinked a region. */
enum {
    UCT_IPC_REGION_TODO_UNLINK  = UCS_BIT(0), /**< Take it out of the table */
    UCT_IPC_REGION_TODO_CHANNEL = UCS_BIT(1), /**< Release the channel */
    UCT_IPC_REGION_TODO_DETACH  = UCS_BIT(2), /**< Detach the mapping */
    UCT_IPC_REGION_TODO_PUT     = UCS_BIT(3)  /**< Drop the table's reference */
};


/**
 * Keep the mapping in place. Lock-free.
 *
 * @return Nonzero if the region is pinned, 0 if it is dead.
 */
static UCS_F_ALWAYS_INLINE int uct_ipc_region_pin(uct_ipc_region_t *region)
{
    uint32_t life = __atomic_load_n(&region->life, __ATOMIC_RELAXED);

    do {
        if (ucs_unlikely(life & UCT_IPC_REGION_DEAD)) {
            /* What was written before the claim must be seen by the caller */
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            return 0;
        }
        /* Acquire: the mapping is used after the pin */
    } while (!__atomic_compare_exchange_n(&region->life, &life, life + 1, 1,
                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));

    ucs_assert((life & UCT_IPC_REGION_PINS) < UCT_IPC_REGION_PINS);
    return 1;
}


/**
 * Take back a pin. Lock-free.
 *
 * @return Nonzero if the caller must detach the mapping.
 */
static UCS_F_ALWAYS_INLINE int uct_ipc_region_unpin(uct_ipc_region_t *region)
{
    /* Release: the uses of the mapping come before the unpin.
     * Acquire: and before the detach, also those by other threads. */
    uint32_t life = __atomic_fetch_sub(&region->life, 1, __ATOMIC_ACQ_REL);

    ucs_assert((life & UCT_IPC_REGION_PINS) > 0);
    return ucs_unlikely(life == (UCT_IPC_REGION_DEAD | 1));
}


/**
 * Decide that the region goes. Lock-free.
 *
 * @return What the caller has to do now, a mask of UCT_IPC_REGION_TODO_xxx; 0
 *         if somebody else has claimed it.
 */
static UCS_F_ALWAYS_INLINE unsigned
uct_ipc_region_claim(uct_ipc_region_t *region)
{
    /* Acquire and release: like unpin, for the case that nothing is pinned */
    uint32_t life = __atomic_fetch_or(&region->life, UCT_IPC_REGION_DEAD,
                                      __ATOMIC_ACQ_REL);

    if (life & UCT_IPC_REGION_DEAD) {
        return 0;
    }

    return UCT_IPC_REGION_TODO_UNLINK | UCT_IPC_REGION_TODO_CHANNEL |
           ((life & UCT_IPC_REGION_PINS) ? 0 : UCT_IPC_REGION_TODO_DETACH);
}


/** @return Nonzero if the region was claimed. */
static UCS_F_ALWAYS_INLINE int
uct_ipc_region_is_dead(const uct_ipc_region_t *region)
{
    return !!(__atomic_load_n(&region->life, __ATOMIC_RELAXED) &
              UCT_IPC_REGION_DEAD);
}


/** @return Nonzero if the region is pinned. */
static UCS_F_ALWAYS_INLINE int
uct_ipc_region_is_pinned(const uct_ipc_region_t *region)
{
    return !!(__atomic_load_n(&region->life, __ATOMIC_RELAXED) &
              UCT_IPC_REGION_PINS);
}


/** @return Nonzero if an async handler watches the region. */
static UCS_F_ALWAYS_INLINE int
uct_ipc_region_has_handler(const uct_ipc_region_t *region)
{
    return __atomic_load_n(&region->has_handler, __ATOMIC_RELAXED);
}


/** Add a reference. The caller holds one, or the lock of the table. */
static UCS_F_ALWAYS_INLINE void uct_ipc_region_ref(uct_ipc_region_t *region)
{
    /* Relaxed: whoever adds a reference already sees the region */
    __atomic_add_fetch(&region->refcount, 1, __ATOMIC_RELAXED);
}


/**
 * Drop a reference.
 *
 * @return Nonzero if it was the last one: the caller frees the record.
 */
static UCS_F_ALWAYS_INLINE int uct_ipc_region_unref(uct_ipc_region_t *region)
{
    /* Release: my uses come before the free. Acquire: so do all others'. */
    return __atomic_sub_fetch(&region->refcount, 1, __ATOMIC_ACQ_REL) == 0;
}

#endif
