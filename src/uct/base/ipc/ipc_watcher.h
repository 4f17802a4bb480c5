/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_IPC_WATCHER_H_
#define UCT_IPC_WATCHER_H_

#include "ipc_region.h"

#include <ucs/datastruct/list.h>

#include <pthread.h>
#include <sys/types.h>


/**
 * @file ipc_watcher.h
 * @brief A thread which notices what nobody tells: a free on a runtime that
 *        calls no handler, or calls it late, and the death of an owner.
 *
 * The rules:
 *  1. The thread is started with the first region, and ends in
 *     @ref uct_ipc_watcher_stop. It calls the operations without a lock.
 *  2. It sleeps between looks: @ref UCT_IPC_WATCHER_NAP_MIN after something has
 *     happened, twice as long after each look that found nothing, up to
 *     @ref UCT_IPC_WATCHER_NAP_MAX. If every region has a handler, the thread
 *     is only there for the case that the runtime misses a free, and sleeps
 *     @ref UCT_IPC_WATCHER_NAP_BACKSTOP; without a region it sleeps
 *     @ref UCT_IPC_WATCHER_PROC_PERIOD. A new region wakes it.
 *  3. It holds a reference of each region, and drops it at the first look after
 *     the region was claimed and is not pinned, or pinned for too long.
 *  4. An owner is watched through a pidfd, or through the start time of its
 *     process where there is none. The pidfd is opened before memory of the
 *     owner is attached: attaching succeeds only while the owner lives, so the
 *     pidfd cannot be that of a later process with the same pid.
 */


/** Shortest sleep, in nanoseconds: what a free waits for at best */
#define UCT_IPC_WATCHER_NAP_MIN 20000l

/** Longest sleep while regions without a handler are watched */
#define UCT_IPC_WATCHER_NAP_MAX 2000000l

/** Sleep while every region has a handler */
#define UCT_IPC_WATCHER_NAP_BACKSTOP 5000000l

/** How often the start time of an owner without a pidfd is looked at */
#define UCT_IPC_WATCHER_PROC_PERIOD 250000000l


/** How long a claimed region may be pinned before somebody should know: much
 *  longer than a copy takes */
#define UCT_IPC_WATCHER_PINNED_SEC 1.0


/** A process whose memory is imported. */
struct uct_ipc_owner {
    ucs_list_link_t list;       /**< Of all owners */
    pid_t           pid;        /**< In the namespace of this process */
    int             pidfd;      /**< Or -1 */
    unsigned long   start_time; /**< Identifies the process without a pidfd */
    unsigned        refcount;   /**< Under the lock of the watcher */
    int             is_dead;    /**< Atomic */
};


/** What a GPU module does for the thread. */
typedef struct uct_ipc_watcher_ops {
    /** Look at the lifetime channel, and claim the region if the memory was
     *  freed. */
    void (*check)(uct_ipc_region_t *region);

    /** The owner has died without freeing its memory: claim the region. */
    void (*owner_died)(uct_ipc_region_t *region);

    /** Some owners have died, see @ref uct_ipc_owner_is_dead: let go of what
     *  waits for them, other than regions. */
    void (*owners_died)(void);

    /** A claimed region has been pinned for
     *  @ref UCT_IPC_WATCHER_PINNED_SEC since: say so, it is not asked again. */
    void (*still_pinned)(uct_ipc_region_t *region);

    /** Drop a reference of a region. */
    void (*put)(uct_ipc_region_t *region);
} uct_ipc_watcher_ops_t;


/** The thread and what it watches. */
typedef struct uct_ipc_watcher {
    const uct_ipc_watcher_ops_t *ops;
    pthread_mutex_t             lock;     /**< Protects all below */
    int                         state;    /**< Of the thread */
    pthread_t                   thread;
    int                         event_fd; /**< Wakes the thread */
    int                         epoll_fd; /**< event_fd and the pidfds */
    ucs_list_link_t             owners;
    ucs_list_link_t             added;    /**< Regions that the thread has not
                                               seen yet */
} uct_ipc_watcher_t;


/** Initializer of a watcher in static memory */
#define UCT_IPC_WATCHER_INITIALIZER(_watcher, _ops) \
    { \
        .ops      = (_ops), \
        .lock     = PTHREAD_MUTEX_INITIALIZER, \
        .event_fd = -1, \
        .epoll_fd = -1, \
        .owners   = UCS_LIST_INITIALIZER(&(_watcher)->owners, \
                                         &(_watcher)->owners), \
        .added    = UCS_LIST_INITIALIZER(&(_watcher)->added, \
                                         &(_watcher)->added) \
    }


/**
 * Find or create the record of an owner, and start the thread if need be.
 *
 * @param [in] watcher  The watcher.
 * @param [in] pid      Process id, valid in the namespace of this process.
 *
 * @return Owner, for @ref uct_ipc_watcher_owner_put, or NULL if it cannot be
 *         watched, since it is dead or this process is out of resources.
 */
uct_ipc_owner_t *
uct_ipc_watcher_owner_get(uct_ipc_watcher_t *watcher, pid_t pid);


/** Add a reference of an owner, unless it is NULL. @return The owner. */
uct_ipc_owner_t *
uct_ipc_watcher_owner_ref(uct_ipc_watcher_t *watcher, uct_ipc_owner_t *owner);


/** @return Nonzero if the process has died. */
static UCS_F_ALWAYS_INLINE int
uct_ipc_owner_is_dead(const uct_ipc_owner_t *owner)
{
    return __atomic_load_n(&owner->is_dead, __ATOMIC_RELAXED);
}


/** Drop a reference of an owner, or do nothing if it is NULL. */
void uct_ipc_watcher_owner_put(uct_ipc_watcher_t *watcher,
                               uct_ipc_owner_t *owner);


/**
 * Watch a region. The caller holds a reference.
 *
 * @return Nonzero if it is watched, 0 if there is no thread to do so.
 */
int uct_ipc_watcher_add(uct_ipc_watcher_t *watcher, uct_ipc_region_t *region);


/**
 * Stop the thread, after the regions have been claimed. Regions which could not
 * be claimed are no longer watched. Not to be called from the thread itself.
 */
void uct_ipc_watcher_stop(uct_ipc_watcher_t *watcher);

#endif
