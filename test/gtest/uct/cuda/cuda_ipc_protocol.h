/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_IPC_PROTOCOL_H
#define CUDA_IPC_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

/**
 * @file cuda_ipc_protocol.h
 * @brief What a test and the process that owns device memory say to each other.
 *
 * One request or reply is one message on a socket pair of type SOCK_SEQPACKET:
 * the structure below, followed by the bytes of data that a verb has. Requests
 * are carried out one after the other, and each is replied to. Both ends run on
 * one machine and come from one build, so fields are native.
 */
namespace cuda_test {

/** The socket of the owner, as a file descriptor number of that process. */
const int owner_socket_fd = 3;

/** Most bytes of data in one message. */
const size_t max_data = 1024;

/** What the owner can be told to do: "arguments -> results". */
enum verb_t {
    /** -> ; opens the transport; data: the device address of its interface */
    VERB_OPEN,
    /** -> ; data: the address of the interface */
    VERB_ADDRESS,
    /** device, slots, bytes in each -> memory, its address; data: its key */
    VERB_ALLOC,
    /** memory -> */
    VERB_FREE,
    /** memory, slot, seed -> */
    VERB_FILL,
    /** memory, slot, seed -> 1 if the slot is the pattern of the seed */
    VERB_CHECK,
    /** -> ; the process frees and closes everything and exits */
    VERB_EXIT
};

struct request {
    uint32_t verb;      /**< @ref verb_t */
    uint32_t reserved;
    uint64_t number[3]; /**< Arguments */
};

struct reply {
    uint32_t is_ok;     /**< Otherwise the data is the reason */
    uint32_t reserved;
    uint64_t number[2]; /**< Results */
};

} /* namespace cuda_test */

#endif
