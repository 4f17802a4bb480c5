/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_TEST_CUDA_PEER_H_
#define EMUL_TEST_CUDA_PEER_H_

#include "child.h"

#include <cuda.h>

#include <cstdint>

/*
 * Another process, in the primary context of device 0, which does what a test
 * asks: one call of the driver for each request.
 */

enum class cuda_verb : uint32_t {
    ready,       /* is in its context */
    allocate,    /* size -> pointer */
    free,        /* pointer */
    free_memory, /* -> bytes */
    export_ipc,  /* pointer -> handle */
    open,        /* handle -> pointer */
    close,       /* pointer */
    read,        /* pointer -> value */
    write,       /* pointer, value */
    exit         /* exit status; no reply */
};

struct cuda_request {
    cuda_verb      what;
    uint64_t       first;
    uint64_t       second;
    CUipcMemHandle handle;
};

struct cuda_reply {
    int32_t        status; /* CUresult */
    uint64_t       value;
    CUipcMemHandle handle;
};

class cuda_peer {
public:
    explicit cuda_peer(environment_list environment = {});

    /** Ends it by exit, if it has not ended. */
    ~cuda_peer();

    pid_t pid() const
    {
        return m_child.pid();
    }

    cuda_reply ask(cuda_verb what, uint64_t first = 0, uint64_t second = 0,
                   const CUipcMemHandle *handle = nullptr);

    void start(cuda_verb what, uint64_t first = 0, uint64_t second = 0,
               const CUipcMemHandle *handle = nullptr);
    cuda_reply finish();

    bool finished() const
    {
        return m_child.has_sent();
    }

    void kill()
    {
        m_child.kill();
    }

    /** Let it exit, by exit() with its handlers. @return As of waitpid. */
    int exit(int status = 0);

    /** What it wrote to stderr; only after its end. */
    std::string errors() const
    {
        return m_child.errors();
    }

private:
    child m_child;
};

#endif
