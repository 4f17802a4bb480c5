/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef FUZZ_KEY_INPUT_H_
#define FUZZ_KEY_INPUT_H_

#include "fuzz_peer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fuzz {

/*
 * The layout of a key on the wire, by the document rocm_ipc_design.rst and not
 * by the code that is tested here.
 */
struct field {
    size_t offset;
    size_t length;
};

constexpr field  HANDLE{0, 32}, ADDRESS{32, 8}, LENGTH{40, 8}, DEVICE{48, 4};
constexpr field  OWNER{52, 12}, SIGNAL{64, 32};
constexpr size_t KEY_LENGTH       = 96;
constexpr size_t STOCK_KEY_LENGTH = 56; /* Its last four bytes are padding */

constexpr uint32_t FLAG_OWNER  = UINT32_C(1) << 29;
constexpr uint32_t FLAG_SIGNAL = UINT32_C(1) << 30;
constexpr uint32_t DEVICE_MASK = 0xffff;

/** Bits of @ref key_input::live: what comes from a key of a peer. The runtime's
 *  handles are other ones in each run, so that no file can hold them. */
enum {
    LIVE_HANDLE  = 1 << 0,
    LIVE_ADDRESS = 1 << 1,
    LIVE_LENGTH  = 1 << 2,
    LIVE_DEVICE  = 1 << 3,
    LIVE_OWNER   = 1 << 4,
    LIVE_SIGNAL  = 1 << 5,
    LIVE_ALL     = (1 << 6) - 1
};

/** Bits of @ref key_input::operations. */
enum {
    OPERATION_POINTER    = 1 << 0, /**< Ask for a local pointer, and read */
    OPERATION_GET        = 1 << 1, /**< Copy */
    OPERATION_SECOND_KEY = 1 << 2, /**< Do it all with a second remote key */
    OPERATION_DISCONNECT = 1 << 3  /**< Close the endpoint in between */
};

/** What the fuzzer's bytes say. They are shorter than this or longer; what is
 *  missing is zero. */
struct key_input {
    uint64_t offset;     /**< Remote address, counted from the key's */
    uint8_t  live;       /**< What is put over the key, LIVE_... */
    uint8_t  which;      /**< Number of the key that it comes from */
    uint8_t  operations; /**< What is done with it, OPERATION_... */
    uint8_t  length;     /**< Of a copy */
    uint8_t  key[KEY_LENGTH];

    key_input(const uint8_t *data, size_t size);

    std::string bytes() const;

    /** The key, with its live fields put in. */
    std::string make_key(const std::vector<live_key> &keys) const;

    const live_key &source(const std::vector<live_key> &keys) const
    {
        return keys[which % keys.size()];
    }

    /** Whether the whole key is as a peer has packed it. */
    bool is_live() const
    {
        return (live & LIVE_ALL) == LIVE_ALL;
    }
};

/** How many bytes of it an importer may read: what the flags promise. */
size_t promised_length(const std::string &key);

/** The number in a field of at most eight bytes. */
uint64_t read_field(const std::string &key, field which);

/** What a run begins with: {name, bytes}. */
std::vector<std::pair<std::string, std::string>>
seeds(const std::vector<live_key> &keys);

} // namespace fuzz

#endif
