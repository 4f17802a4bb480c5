/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_H_
#define EMUL_H_

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @file emul.h
 * @brief What a test may ask of an emulated GPU runtime.
 *
 * All processes that run with the same EMUL_NODE (docs/source/emulator.rst) are
 * on one emulated node: they share its device memory, its IPC handles, its
 * counts and the switches below. A switch is addressed to one process by its
 * pid, or with @ref EMUL_ANY_PROCESS to every process of the node.
 *
 * The functions are found at run time, so that one test binary runs on the
 * emulator and on a real GPU, where @ref emul_get returns NULL.
 *
 * Every function may be called from any thread of any process of the node, and
 * returns 0 or a negative errno value unless it says otherwise.
 */

#define EMUL_ANY_PROCESS 0

/** Version of this header; a mismatch makes @ref emul_get return NULL. */
#define EMUL_VERSION 2

/**
 * What can be counted. For a single process a count says what that process
 * holds; for EMUL_ANY_PROCESS it is the sum over live processes, except where
 * the description says "node", which has no per-process value.
 */
typedef enum {
    EMUL_COUNT_ALLOCATIONS,      /**< Live device allocations owned */
    EMUL_COUNT_BYTES_ALLOCATED,  /**< Bytes of live device allocations owned */
    EMUL_COUNT_BYTES_CHARGED,    /**< Node: bytes of device memory not
                                      available, freed-but-attached included */
    EMUL_COUNT_ATTACHES,         /**< IPC memory mappings attached */
    EMUL_COUNT_SIGNALS,          /**< Live local (not IPC) signals */
    EMUL_COUNT_IPC_SIGNALS,      /**< Live IPC signals created */
    EMUL_COUNT_IPC_SIGNAL_ATTACHES, /**< References on attached IPC signals */
    EMUL_COUNT_HANDLERS,         /**< Armed async signal handlers */
    EMUL_COUNT_HANDLERS_DROPPED, /**< Handlers dropped because their signal was
                                      destroyed while armed (cumulative) */
    EMUL_COUNT_COPIES,           /**< Asynchronous copies accepted and not
                                      finished */
    EMUL_COUNT_COPIES_HELD,      /**< ... of them, held by a gate */
    EMUL_COUNT_FREES_BLOCKED,    /**< Threads inside a free that waits for peers
                                      to detach */
    EMUL_COUNT_STREAMS,          /**< Live streams created */
    EMUL_COUNT_EVENTS,           /**< Live events */
    EMUL_COUNT_CONTEXTS,         /**< Live contexts, primary ones included */
    EMUL_COUNT_CALLBACKS,        /**< Host functions queued on streams and not
                                      returned yet */
    EMUL_COUNT_LAST
} emul_count_t;

typedef struct emul_api {
    unsigned version; /**< @ref EMUL_VERSION of the library */

    /** Store a count into *value_p. */
    int (*count)(pid_t pid, emul_count_t what, int64_t *value_p);

    /** Store into *value_p how often the process(es) called @a function, for
     *  example "hsa_amd_ipc_memory_attach"; failed calls count too. For a
     *  stream, "stream-N", it is how many operations it has begun, the one that
     *  waits at a gate included. A process
     *  that has exited no longer contributes. */
    int (*calls)(pid_t pid, const char *function, int64_t *value_p);

    /** Make the @a nth call of @a function from now on (1 is the next one)
     *  return @a status without doing anything, and the @a count - 1 calls
     *  after it as well. One rule for each (pid, function); a new one replaces
     *  the old one; @a count 0 removes it. */
    int (*fail)(pid_t pid, const char *function, uint64_t nth, uint64_t count,
                int status);

    /** Close a gate: from now on whoever reaches @a point waits there until
     *  the gate is opened. @a point is one of
     *  - the name of an API function, on CUDA without the suffix of a version:
     *    the call waits at its entry;
     *  - "copy": an asynchronous copy waits after it was accepted, before its
     *    first byte moves;
     *  - "handler" (HSA): the thread of the runtime that calls async handlers
     *    waits before each call;
     *  - "callback" (CUDA): a stream waits before it calls a host function;
     *  - "stream-N" (CUDA): the stream waits before it begins an operation of
     *    any kind. N is 1 for the first stream that a process creates, 2 for
     *    the next one, and 0 stands for all its default streams. It is in the
     *    lower half of what cuStreamGetId tells. Only up to 1023.
     *
     *  Who issues work to a stream never waits at the last three. Closing a
     *  closed gate does nothing. A process that exits leaves its gates. */
    int (*gate_close)(pid_t pid, const char *point);

    /** Open a gate; opening an open gate does nothing. */
    int (*gate_open)(pid_t pid, const char *point);

    /** Store into *value_p how many threads (for "copy": copies) wait at
     *  @a point now. */
    int (*gate_waiters)(pid_t pid, const char *point, int64_t *value_p);

    /** Let @a count of those that wait at a closed gate pass, or that come
     *  later: exactly so many in all. Opening the gate forgets what is left.
     *  -ENOENT: this gate is not closed. */
    int (*gate_pass)(pid_t pid, const char *point, uint64_t count);

    /** Change a setting of the node, by the name of the environment variable
     *  that gives its initial value, for example ("EMUL_FREE", "deferred").
     *  -EINVAL: no such setting or value; -EPERM: fixed once a process of the
     *  node has started. */
    int (*set)(const char *name, const char *value);
} emul_api_t;

/** Exported by every emulated runtime library. */
#define EMUL_API_SYMBOL "emul_api"

/**
 * @return The emulator that this process runs on, or NULL on a real runtime.
 *         The runtime library must already be loaded into the process.
 */
static inline const emul_api_t *emul_get(void)
{
    const emul_api_t *api = (const emul_api_t *)dlsym(RTLD_DEFAULT,
                                                      EMUL_API_SYMBOL);

    return ((api != NULL) && (api->version == EMUL_VERSION)) ? api : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
