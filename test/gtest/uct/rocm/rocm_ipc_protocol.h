/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef ROCM_IPC_PROTOCOL_H
#define ROCM_IPC_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

/**
 * @file rocm_ipc_protocol.h
 * @brief What a test (the director) and the processes that it drives (the
 *        peers) say to each other.
 *
 * One request or reply is one message on a socket pair of type SOCK_SEQPACKET:
 * the structure below, followed by @a length bytes of data. Both ends run on
 * one machine and come from one build, so fields are native.
 *
 * A request names the lane (a thread of the peer) that carries it out. A lane
 * works in order and lanes do not wait for each other, so whatever may block
 * gets a lane of its own and the director sees by the missing reply that it is
 * still blocked. UCT objects of one interface belong on one lane, since UCT
 * leaves locking to its user.
 */
namespace rocm_ipc {

/** The socket of a peer, as a file descriptor number of that process. */
const int peer_socket_fd = 3;

/** Most bytes of data in one message. */
const size_t max_data = 4096;

/** Numbers in one message. */
const unsigned max_numbers = 8;

/** Lanes by convention; any other number is just one more thread. */
enum lane_t {
    LANE_MAIN    = 0, /**< UCT calls */
    LANE_FREE    = 1, /**< Frees that may block */
    LANE_CONTROL = 2, /**< Questions to the emulator */
    LANE_LAST
};

/** What a peer can be told to do: "arguments -> results". An identifier is a
 *  number that an earlier reply gave. Zero is never an identifier. */
enum verb_t {
    /** -> pid, GPU devices, 1 if the runtime is emulated */
    VERB_HELLO,
    /** -> ; the process exits, closing nothing */
    VERB_EXIT,

    /** size, ucs_memory_type_t, device -> address */
    VERB_ALLOC,
    /** address -> */
    VERB_FREE,
    /** address, length, seed, position, access_t -> */
    VERB_FILL,
    /** address, length, seed, position, access_t -> offset of the first byte
     *  that is not the pattern's, or the length */
    VERB_CHECK,

    /** -> ; finds the component and opens its memory domain */
    VERB_MD_OPEN,
    /** -> flags, reg_mem_types, access_mem_types, max_reg, rkey_packed_size */
    VERB_MD_QUERY,
    /** address, length -> memh */
    VERB_REG,
    /** memh -> */
    VERB_DEREG,
    /** memh -> ; data: the key */
    VERB_PACK,

    /** -> iface */
    VERB_IFACE_OPEN,
    /** iface -> flags, put.max_zcopy, put.max_iov, get.max_zcopy, get.max_iov,
     *  put.min_zcopy, get.min_zcopy, latency in picoseconds */
    VERB_IFACE_QUERY,
    /** iface -> length of the device address; data: it and the interface
     *  address behind it */
    VERB_IFACE_ADDRESS,
    /** iface, length of the device address; data: as VERB_IFACE_ADDRESS gives
     *  -> 1 if reachable */
    VERB_IFACE_REACHABLE,
    /** iface, with completion -> completion */
    VERB_IFACE_FLUSH,

    /** iface, length of the device address; data: as VERB_IFACE_ADDRESS gives
     *  -> ep */
    VERB_EP_CREATE,
    /** ep -> */
    VERB_EP_DESTROY,
    /** ep, rkey, remote address, local address, length -> completion */
    VERB_EP_PUT,
    /** as VERB_EP_PUT */
    VERB_EP_GET,
    /** ep, with completion -> completion */
    VERB_EP_FLUSH,

    /** data: the key -> rkey */
    VERB_UNPACK,
    /** rkey, remote address -> local address */
    VERB_RKEY_PTR,
    /** rkey -> */
    VERB_RKEY_RELEASE,

#if UCX_HAS_ROCM_DEVICE_EP
    /** ep -> address of what device code sees of it, its first byte */
    VERB_DEVICE_EP,
    /** rkey, or 0 for local memory -> element, distance from the owner's
     *  addresses to those of the mapping */
    VERB_ELEM_PACK,
    /** element -> */
    VERB_ELEM_RELEASE,
#endif

    /** iface, completion, time limit in ms -> as VERB_COMPLETION; progresses
     *  until the completion was called: UCS_OK, or UCS_ERR_TIMED_OUT. Without
     *  a completion: progresses once. */
    VERB_PROGRESS,
    /** completion -> times called, what is left of its count, its status */
    VERB_COMPLETION,
    /** bit mask of object_t -> ; closes all objects of these kinds, in the
     *  order in which object_t lists them */
    VERB_CLOSE,

    /** rounds, length -> rounds in which something failed; each time new
     *  memory is registered, packed, and freed */
    VERB_WORK_SHARE,
    /** iface, ep, remote address, length, seed, position, rounds, mask of
     *  work_t; data: the key -> rounds that were well, rounds that were
     *  refused, rounds with wrong data, the last status that was an error;
     *  each time the key is unpacked, used as told and released. Data that is
     *  got must be a part of the pattern, or all of the local buffer as it was
     *  if the operation was refused. */
    VERB_WORK_IMPORT,
    /** iface, rounds -> ; progresses */
    VERB_WORK_PROGRESS,

    /** 1 to run the functions that are registered for the exit -> status of the
     *  child; forks a child which exits */
    VERB_FORK,
    /** number of files -> ; no more than these can be opened from now on, or
     *  as many as ever if the number is UINT64_MAX */
    VERB_LIMIT_FILES,
    /** -> ; the kernel seems to have no pidfd from now on */
    VERB_REFUSE_PIDFD,

    /** pid, emul_count_t -> value */
    VERB_EMUL_COUNT,
    /** pid; data: function -> value */
    VERB_EMUL_CALLS,
    /** pid, nth, count, status; data: function -> */
    VERB_EMUL_FAIL,
    /** pid; data: point -> */
    VERB_EMUL_GATE_CLOSE,
    /** pid; data: point -> */
    VERB_EMUL_GATE_OPEN,
    /** pid; data: point -> value */
    VERB_EMUL_GATE_WAITERS,
    /** ; data: name, NUL, value -> */
    VERB_EMUL_SET,

    VERB_LAST
};

/** How a peer touches memory. */
enum access_t {
    ACCESS_RUNTIME, /**< Copy it with the GPU runtime */
    ACCESS_CPU      /**< Load and store, as a user of rkey_ptr does */
};

/** Kinds of objects that a peer holds, in the order of a tidy end. */
enum object_t {
    OBJECT_RKEYS       = 1 << 0,
    OBJECT_EPS         = 1 << 1,
    OBJECT_IFACES      = 1 << 2,
    OBJECT_COMPLETIONS = 1 << 3,
    OBJECT_MEMHS       = 1 << 4,
    OBJECT_MEMORY      = 1 << 5,
    OBJECT_MD          = 1 << 6
};

/** What is done with a key. Without any: get. */
enum work_t {
    WORK_PUT     = 1 << 0, /**< Put the pattern before it is got */
    WORK_POINTER = 1 << 1  /**< Read through a pointer in place of a get */
};

struct request {
    uint64_t id;                  /**< Repeated in the reply */
    uint32_t verb;                /**< @ref verb_t */
    uint32_t lane;                /**< @ref lane_t */
    uint32_t length;              /**< Bytes of data behind this structure */
    uint32_t reserved;
    uint64_t number[max_numbers]; /**< Arguments */
};

struct reply {
    uint64_t id;                  /**< Of the request */
    int32_t  status;              /**< ucs_status_t of what was done */
    uint32_t length;              /**< Bytes of data behind this structure */
    uint64_t elapsed_ns;          /**< Time that it took, waiting for the lane
                                       not included */
    uint64_t number[max_numbers]; /**< Results */
};

/**
 * The test pattern: byte @a position of the endless sequence that @a seed
 * starts. Two sequences differ everywhere but by chance, so that data from a
 * wrong buffer, and data that moved, are noticed.
 */
inline uint8_t pattern_byte(uint64_t seed, uint64_t position)
{
    /* The finalizer of the splitmix64 generator, on a counter */
    uint64_t word = (seed * 0x9e3779b97f4a7c15ull) + (position / 8) + 1;

    word *= 0x9e3779b97f4a7c15ull;
    word  = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word  = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    word ^= word >> 31;
    return (uint8_t)(word >> ((position % 8) * 8));
}

} /* namespace rocm_ipc */

#endif
