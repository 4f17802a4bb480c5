/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef BENCH_MESSAGE_H_
#define BENCH_MESSAGE_H_

#include "../apps/demo_channel.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace bench {

/** A string of bytes in a message. */
struct blob {
    size_t length;
    char   bytes[256];

    void set(const std::string &text)
    {
        if (text.size() > sizeof(bytes)) {
            throw demo::error("an address or key of UCX is longer than"
                              " expected");
        }

        length = text.size();
        memcpy(bytes, text.data(), length);
    }

    std::string get() const
    {
        return std::string(bytes, length);
    }
};

/** How to reach an owner, and how many keys follow. */
struct address_message {
    blob   device_address;
    blob   iface_address;
    size_t num_keys;
};

/** A key, and the address that it begins at. */
struct key_message {
    uint64_t address;
    blob     key;
};

/** "I am ready", "go on". */
struct done_message {
    bool unused;
};

} // namespace bench

#endif
