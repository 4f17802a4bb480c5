/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ipc_watcher.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sock.h>
#include <ucs/sys/sys.h>

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>


/* State of the thread */
enum {
    UCT_IPC_WATCHER_IDLE,     /* Not started */
    UCT_IPC_WATCHER_RUNNING,
    UCT_IPC_WATCHER_STOPPING,
    UCT_IPC_WATCHER_FAILED    /* Could not be started */
};


/* What the thread knows of its work, seen by nobody else */
typedef struct uct_ipc_watcher_round {
    ucs_list_link_t regions;     /* Regions watched */
    int             unwatched;   /* Some region has no handler */
    int             happened;    /* Something did, since the last look */
    int             died;        /* Some owner did */
    long            nap;         /* Length of the next sleep, nanoseconds */
    long            since_proc;  /* Slept since owners were looked at */
} uct_ipc_watcher_round_t;


static void uct_ipc_owner_set_dead(uct_ipc_owner_t *owner)
{
    ucs_debug("process %d has died", owner->pid);
    __atomic_store_n(&owner->is_dead, 1, __ATOMIC_RELAXED);
}

/* Look at a region that was claimed. Returns nonzero if it needs no watching
 * any more. */
static int uct_ipc_watcher_look_at_dead(uct_ipc_watcher_t *watcher,
                                        uct_ipc_region_t *region)
{
    ucs_time_t now;

    if (!uct_ipc_region_is_pinned(region)) {
        return 1;
    }

    now = ucs_get_time();
    if (region->dead_since == 0) {
        region->dead_since = now;
    }

    if (now - region->dead_since <
        ucs_time_from_sec(UCT_IPC_WATCHER_PINNED_SEC)) {
        return 0;
    }

    watcher->ops->still_pinned(region);
    return 1;
}

/* Returns nonzero if the region needs no watching any more */
static int
uct_ipc_watcher_look(uct_ipc_watcher_t *watcher, uct_ipc_region_t *region)
{
    if (uct_ipc_region_is_dead(region)) {
        return uct_ipc_watcher_look_at_dead(watcher, region);
    }

    if ((region->owner != NULL) && uct_ipc_owner_is_dead(region->owner)) {
        watcher->ops->owner_died(region);
    } else {
        watcher->ops->check(region);
    }

    return uct_ipc_region_is_dead(region) && !uct_ipc_region_is_pinned(region);
}

static void uct_ipc_watcher_look_at_all(uct_ipc_watcher_t *watcher,
                                        uct_ipc_watcher_round_t *round)
{
    uct_ipc_region_t *region, *tmp;

    round->unwatched = 0;
    ucs_list_for_each_safe(region, tmp, &round->regions, watch_list) {
        if (uct_ipc_watcher_look(watcher, region)) {
            ucs_list_del(&region->watch_list);
            watcher->ops->put(region);
            round->happened = 1;
        } else if (!uct_ipc_region_has_handler(region)) {
            round->unwatched = 1;
        }
    }
}

/* Called under the lock */
static void uct_ipc_watcher_look_at_owners(uct_ipc_watcher_t *watcher,
                                           uct_ipc_watcher_round_t *round)
{
    struct epoll_event events[16];
    uct_ipc_owner_t *owner;
    uint64_t wakeups;
    int i, count;

    count = epoll_wait(watcher->epoll_fd, events, ucs_static_array_size(events),
                       0);
    for (i = 0; i < count; ++i) {
        owner = events[i].data.ptr;
        if (owner == NULL) {
            /* Whatever woke the thread is found by looking */
            (void)!read(watcher->event_fd, &wakeups, sizeof(wakeups));
        } else {
            uct_ipc_owner_set_dead(owner);
            epoll_ctl(watcher->epoll_fd, EPOLL_CTL_DEL, owner->pidfd, NULL);
            round->died = 1;
        }
    }
}

/* Called under the lock: owners without a pidfd */
static void uct_ipc_watcher_look_at_procs(uct_ipc_watcher_t *watcher,
                                          uct_ipc_watcher_round_t *round)
{
    uct_ipc_owner_t *owner;

    ucs_list_for_each(owner, &watcher->owners, list) {
        if ((owner->pidfd == -1) && !uct_ipc_owner_is_dead(owner) &&
            (ucs_sys_get_proc_create_time(owner->pid) != owner->start_time)) {
            uct_ipc_owner_set_dead(owner);
            round->died = 1;
        }
    }
}

/* Returns zero if the thread has to stop */
static int uct_ipc_watcher_collect(uct_ipc_watcher_t *watcher,
                                   uct_ipc_watcher_round_t *round)
{
    int is_running;

    pthread_mutex_lock(&watcher->lock);
    is_running      = (watcher->state == UCT_IPC_WATCHER_RUNNING);
    round->happened = !ucs_list_is_empty(&watcher->added);
    ucs_list_splice_tail(&round->regions, &watcher->added);
    ucs_list_head_init(&watcher->added);

    round->died = 0;
    uct_ipc_watcher_look_at_owners(watcher, round);
    if (round->since_proc >= UCT_IPC_WATCHER_PROC_PERIOD) {
        uct_ipc_watcher_look_at_procs(watcher, round);
        round->since_proc = 0;
    }
    pthread_mutex_unlock(&watcher->lock);

    if (round->died) {
        watcher->ops->owners_died();
    }

    return is_running;
}

static void
uct_ipc_watcher_nap(uct_ipc_watcher_t *watcher, uct_ipc_watcher_round_t *round)
{
    struct pollfd pollfd = {
        .fd     = watcher->epoll_fd,
        .events = POLLIN
    };
    struct timespec timeout;

    if (round->happened) {
        round->nap = UCT_IPC_WATCHER_NAP_MIN;
    } else if (round->unwatched) {
        round->nap = ucs_min(round->nap * 2, UCT_IPC_WATCHER_NAP_MAX);
    } else if (!ucs_list_is_empty(&round->regions)) {
        round->nap = UCT_IPC_WATCHER_NAP_BACKSTOP;
    } else {
        round->nap = UCT_IPC_WATCHER_PROC_PERIOD;
    }

    timeout.tv_sec     = 0;
    timeout.tv_nsec    = round->nap;
    round->since_proc += round->nap;
    ppoll(&pollfd, 1, &timeout, NULL);
}

static void *uct_ipc_watcher_thread(void *arg)
{
    uct_ipc_watcher_t *watcher    = arg;
    uct_ipc_watcher_round_t round = {
        .nap = UCT_IPC_WATCHER_NAP_MIN
    };
    uct_ipc_region_t *region, *tmp;

    ucs_list_head_init(&round.regions);

    while (uct_ipc_watcher_collect(watcher, &round)) {
        uct_ipc_watcher_look_at_all(watcher, &round);
        uct_ipc_watcher_nap(watcher, &round);
    }

    ucs_list_for_each_safe(region, tmp, &round.regions, watch_list) {
        watcher->ops->put(region);
    }

    return NULL;
}

static int uct_ipc_watcher_add_fd(uct_ipc_watcher_t *watcher, int fd, void *ptr)
{
    struct epoll_event event = {
        .events = EPOLLIN,
        .data   = { .ptr = ptr }
    };

    return epoll_ctl(watcher->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void uct_ipc_watcher_close_fds(uct_ipc_watcher_t *watcher)
{
    ucs_close_fd(&watcher->epoll_fd);
    ucs_close_fd(&watcher->event_fd);
}

/* Start the thread with all signals blocked: they are for the application */
static ucs_status_t uct_ipc_watcher_create_thread(uct_ipc_watcher_t *watcher)
{
    sigset_t all, old;
    ucs_status_t status;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    status = ucs_pthread_create(&watcher->thread, uct_ipc_watcher_thread,
                                watcher, "ucx_ipc_watcher");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

/* Called under the lock. Returns nonzero if the thread runs. */
static int uct_ipc_watcher_start(uct_ipc_watcher_t *watcher)
{
    uct_ipc_owner_t *owner;

    if (watcher->state != UCT_IPC_WATCHER_IDLE) {
        return watcher->state == UCT_IPC_WATCHER_RUNNING;
    }

    watcher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watcher->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if ((watcher->epoll_fd == -1) || (watcher->event_fd == -1) ||
        (uct_ipc_watcher_add_fd(watcher, watcher->event_fd, NULL) != 0)) {
        ucs_warn("failed to create the event channel of the thread which"
                 " watches peers' memory (%m): a peer's free may wait for this"
                 " process. Raise the limit of open files (ulimit -n).");
        goto err;
    }

    /* Those known from before the thread was stopped */
    ucs_list_for_each(owner, &watcher->owners, list) {
        if ((owner->pidfd != -1) && !uct_ipc_owner_is_dead(owner)) {
            uct_ipc_watcher_add_fd(watcher, owner->pidfd, owner);
        }
    }

    /* Set before the thread looks at it */
    watcher->state = UCT_IPC_WATCHER_RUNNING;
    if (uct_ipc_watcher_create_thread(watcher) != UCS_OK) {
        ucs_warn("failed to start the thread which watches peers' memory: a"
                 " peer's free may wait for this process");
        goto err;
    }

    return 1;

err:
    uct_ipc_watcher_close_fds(watcher);
    watcher->state = UCT_IPC_WATCHER_FAILED; /* Say it once */
    return 0;
}

/* Called under the lock */
static uct_ipc_owner_t *
uct_ipc_watcher_owner_find(uct_ipc_watcher_t *watcher, pid_t pid)
{
    uct_ipc_owner_t *owner;

    ucs_list_for_each(owner, &watcher->owners, list) {
        /* A dead one is not a later process with the same pid */
        if ((owner->pid == pid) && !uct_ipc_owner_is_dead(owner)) {
            return owner;
        }
    }

    return NULL;
}

/* Called under the lock */
static uct_ipc_owner_t *
uct_ipc_watcher_owner_create(uct_ipc_watcher_t *watcher, pid_t pid)
{
    uct_ipc_owner_t *owner;

    owner = ucs_malloc(sizeof(*owner), "ipc_owner");
    if (owner == NULL) {
        goto err;
    }

    owner->pid        = pid;
    owner->refcount   = 0;
    owner->is_dead    = 0;
    owner->start_time = ucs_sys_get_proc_create_time(pid);
    owner->pidfd      = syscall(SYS_pidfd_open, pid, 0);
    if ((owner->pidfd != -1) &&
        (uct_ipc_watcher_add_fd(watcher, owner->pidfd, owner) != 0)) {
        ucs_close_fd(&owner->pidfd);
    }

    if ((owner->pidfd == -1) && (owner->start_time == 0)) {
        goto err_free; /* There is no such process */
    }

    ucs_list_add_tail(&watcher->owners, &owner->list);
    return owner;

err_free:
    ucs_free(owner);
err:
    ucs_debug("process %d cannot be watched", pid);
    return NULL;
}

uct_ipc_owner_t *
uct_ipc_watcher_owner_get(uct_ipc_watcher_t *watcher, pid_t pid)
{
    uct_ipc_owner_t *owner = NULL;

    pthread_mutex_lock(&watcher->lock);
    if (uct_ipc_watcher_start(watcher)) {
        owner = uct_ipc_watcher_owner_find(watcher, pid);
        if (owner == NULL) {
            owner = uct_ipc_watcher_owner_create(watcher, pid);
        }
        if (owner != NULL) {
            ++owner->refcount;
        }
    }
    pthread_mutex_unlock(&watcher->lock);
    return owner;
}

uct_ipc_owner_t *
uct_ipc_watcher_owner_ref(uct_ipc_watcher_t *watcher, uct_ipc_owner_t *owner)
{
    if (owner != NULL) {
        pthread_mutex_lock(&watcher->lock);
        ++owner->refcount;
        pthread_mutex_unlock(&watcher->lock);
    }

    return owner;
}

void uct_ipc_watcher_owner_put(uct_ipc_watcher_t *watcher,
                               uct_ipc_owner_t *owner)
{
    if (owner == NULL) {
        return;
    }

    pthread_mutex_lock(&watcher->lock);
    if (--owner->refcount == 0) {
        ucs_list_del(&owner->list);
        ucs_close_fd(&owner->pidfd); /* Leaves the epoll set as well */
        ucs_free(owner);
    }
    pthread_mutex_unlock(&watcher->lock);
}

/* Called under the lock */
static void uct_ipc_watcher_wake(uct_ipc_watcher_t *watcher)
{
    uint64_t one = 1;

    (void)!write(watcher->event_fd, &one, sizeof(one));
}

int uct_ipc_watcher_add(uct_ipc_watcher_t *watcher, uct_ipc_region_t *region)
{
    int is_running;

    pthread_mutex_lock(&watcher->lock);
    is_running = uct_ipc_watcher_start(watcher);
    if (is_running) {
        if (ucs_list_is_empty(&watcher->added)) {
            uct_ipc_watcher_wake(watcher);
        }
        uct_ipc_region_ref(region);
        ucs_list_add_tail(&watcher->added, &region->watch_list);
    }
    pthread_mutex_unlock(&watcher->lock);
    return is_running;
}

void uct_ipc_watcher_stop(uct_ipc_watcher_t *watcher)
{
    uct_ipc_region_t *region, *tmp;
    ucs_list_link_t added;
    pthread_t thread;

    ucs_list_head_init(&added);

    pthread_mutex_lock(&watcher->lock);
    if (watcher->state != UCT_IPC_WATCHER_RUNNING) {
        /* May be tried again after a failure */
        if (watcher->state == UCT_IPC_WATCHER_FAILED) {
            watcher->state = UCT_IPC_WATCHER_IDLE;
        }
        pthread_mutex_unlock(&watcher->lock);
        return;
    }

    watcher->state = UCT_IPC_WATCHER_STOPPING;
    thread         = watcher->thread;
    uct_ipc_watcher_wake(watcher);
    pthread_mutex_unlock(&watcher->lock);

    pthread_join(thread, NULL);

    /* Closed race: a region was added after the thread has looked last */
    pthread_mutex_lock(&watcher->lock);
    ucs_list_splice_tail(&added, &watcher->added);
    ucs_list_head_init(&watcher->added);
    uct_ipc_watcher_close_fds(watcher);
    watcher->state = UCT_IPC_WATCHER_IDLE;
    pthread_mutex_unlock(&watcher->lock);

    ucs_list_for_each_safe(region, tmp, &added, watch_list) {
        watcher->ops->put(region);
    }
}
