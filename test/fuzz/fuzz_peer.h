/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef FUZZ_PEER_H_
#define FUZZ_PEER_H_

#include "../apps/demo_channel.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fuzz {

/** What became of the memory that a key is for, before it is used. */
enum class fate { alive, freed, owner_killed };

/** A key that a peer has packed. */
struct live_key {
    std::string bytes;
    fate        end;
    uint8_t     content; /**< What every byte of the memory is */
};

/**
 * A process that owns device memory, and exports it by the same transport. It
 * is this program, started anew, and lives until this object is destroyed.
 */
class peer {
public:
    /** Start the peer. @a invalidate says whether its keys have a signal. */
    explicit peer(bool invalidate);

    peer(const peer&)            = delete;
    peer &operator=(const peer&) = delete;

    ~peer();

    /** Its keys: two of memory that lives and one of memory that it has freed
     *  already. */
    const std::vector<live_key> &keys() const
    {
        return m_keys;
    }

    pid_t pid() const
    {
        return m_pid;
    }

    /** Addresses to connect to it. */
    const std::string &device_address() const
    {
        return m_device_address;
    }

    const std::string &iface_address() const
    {
        return m_iface_address;
    }

    /** Have it killed; returns when it is gone. */
    void kill();

private:
    void receive_keys(const demo::channel &channel);

    pid_t                          m_pid = -1;
    std::unique_ptr<demo::channel> m_channel;
    std::vector<live_key>          m_keys;
    std::string                    m_device_address;
    std::string                    m_iface_address;
};

/** Whether this process was started as a peer; if so, @ref peer_main is all
 *  that it has to do. */
bool is_peer();

[[noreturn]] void peer_main();

} // namespace fuzz

#endif
