/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_PEER_H_
#define EMUL_TEST_PEER_H_

#include "child.h"

#include <hsa.h>
#include <hsa_ext_amd.h>

#include <cstdint>
#include <optional>
#include <string>

/*
 * Another process of the node, which does what a test asks.
 *
 * A request is one call of the runtime or a touch of memory. It can be started
 * and finished separately, so that a test can look at what happens meanwhile.
 */

enum class verb : uint32_t {
    ready,          /* has joined the node */
    own_pid,        /* -> value: as it sees it itself */
    allocate,       /* size -> pointer */
    free,           /* pointer */
    free_in_thread, /* pointer; does not wait for it */
    export_memory,  /* pointer, size -> bytes */
    attach,         /* bytes, size -> pointer */
    detach,         /* pointer */
    read,           /* pointer -> value */
    write,          /* pointer, value */
    signal_create,  /* value -> signal; local */
    ipc_create,     /* value -> signal and bytes */
    ipc_attach,     /* bytes -> signal */
    signal_load,    /* signal -> value */
    signal_store,   /* signal, value */
    signal_wait,    /* signal, value: until it has the value */
    signal_destroy, /* signal */
    arm,            /* signal, value: a handler that counts, for == value */
    handler_calls,  /* -> value */
    churn,          /* makes and drops things for ever */
    shut_down,
    exit            /* value: exit status; no reply */
};

struct request {
    verb     what;
    uint64_t first;
    uint64_t second;
    uint32_t bytes[8];
};

struct reply {
    int32_t  status; /* hsa_status_t */
    uint64_t value;
    uint32_t bytes[8];

    bool ok() const
    {
        return status == HSA_STATUS_SUCCESS;
    }
};

class peer {
public:
    /** Start it and wait until it has joined its node.
     *  @param environment  "NAME=value" each, added to this process's. */
    explicit peer(environment_list environment = {});

    /** The same in a PID namespace of its own. Only root. */
    enum namespace_tag { in_pid_namespace };
    peer(namespace_tag, environment_list environment);

    /** Ends it by exit, if it has not ended. */
    ~peer();

    peer(const peer&)            = delete;
    peer &operator=(const peer&) = delete;

    pid_t pid() const
    {
        return m_child->pid();
    }

    reply ask(verb what, uint64_t first = 0, uint64_t second = 0,
              const uint32_t *bytes = nullptr);

    void start(verb what, uint64_t first = 0, uint64_t second = 0,
               const uint32_t *bytes = nullptr);
    reply finish();

    /** Whether the reply to what was started has come. */
    bool finished() const
    {
        return m_child->has_sent();
    }

    /** Kill it and wait for its end. */
    void kill()
    {
        m_child->kill();
    }

    /** Let it exit, by exit() with its handlers. @return As of waitpid. */
    int exit(int status = 0);

    /** What it wrote to stderr; only after its end. */
    std::string errors() const
    {
        return m_child->errors();
    }

private:
    void begin(environment_list environment);

    std::optional<child> m_child;
};

/** main() of a peer. */
int peer_main(int socket);

#endif
