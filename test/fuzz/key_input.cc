/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "key_input.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace fuzz {

namespace {

constexpr size_t HEADER_LENGTH = offsetof(key_input, key);

constexpr uint8_t ALL_OPERATIONS = OPERATION_POINTER | OPERATION_GET |
                                   OPERATION_SECOND_KEY | OPERATION_DISCONNECT;

void put_field(std::string &key, const std::string &from, field which)
{
    key.replace(which.offset, which.length, from, which.offset, which.length);
}

void put_flags(std::string &key, uint32_t flags)
{
    memcpy(key.data() + DEVICE.offset, &flags, sizeof(flags));
}

/* An input with this key and no live fields */
key_input plain_input(const std::string &key)
{
    key_input input(nullptr, 0);

    input.operations = ALL_OPERATIONS;
    input.length     = 16;
    memcpy(input.key, key.data(), std::min(key.size(), sizeof(input.key)));
    return input;
}

/* Seeds whose handles come from the live key @a which */
void add_live_seeds(std::vector<std::pair<std::string, std::string>> &result,
                    const live_key &live, uint8_t which)
{
    const std::string name = "key" + std::to_string(which);
    key_input input        = plain_input(live.bytes);
    const uint64_t length  = read_field(live.bytes, LENGTH);

    input.which = which;
    input.live  = LIVE_ALL;
    result.push_back({name, input.bytes()});

    for (uint64_t offset : {length - 16, length - 1, length, UINT64_MAX}) {
        input.offset = offset;
        result.push_back({name + "-at-" + std::to_string(offset),
                          input.bytes()});
    }

    /* One field at a time comes from the input, where the fuzzer changes it */
    input.offset = 0;
    for (uint8_t bit = 1; bit < LIVE_ALL; bit <<= 1) {
        input.live = LIVE_ALL & ~bit;
        result.push_back({name + "-without-" + std::to_string(bit),
                          input.bytes()});
    }

    /* A length that is not the memory's, before and after the right one */
    for (uint64_t lie : {uint64_t{1}, length / 2, length - 1, length + 1,
                         2 * length}) {
        input.live   = LIVE_ALL & ~LIVE_LENGTH;
        input.offset = std::max(lie, length) - input.length;
        memcpy(input.key + LENGTH.offset, &lie, sizeof(lie));
        result.push_back({name + "-length-" + std::to_string(lie),
                          input.bytes()});
        input.live   = LIVE_ALL;
        input.offset = length - input.length;
        result.push_back({name + "-after-length-" + std::to_string(lie),
                          input.bytes()});
    }

    /* As peers of other versions pack it, and with flags that lie */
    input.offset = 0;
    input.live   = LIVE_ALL & ~LIVE_DEVICE;
    for (uint32_t flags :
         {UINT32_C(0), UINT32_C(1), FLAG_OWNER, FLAG_SIGNAL,
          FLAG_OWNER | FLAG_SIGNAL, UINT32_C(0xffffffff), UINT32_C(1) << 31}) {
        std::string key(KEY_LENGTH, '\0');

        put_flags(key, flags);
        memcpy(input.key, key.data(), sizeof(input.key));
        result.push_back({name + "-flags-" + std::to_string(flags),
                          input.bytes()});
    }
}

} // namespace

static_assert(std::is_trivially_copyable_v<key_input>);

key_input::key_input(const uint8_t *data, size_t size)
{
    memset(static_cast<void*>(this), 0, sizeof(*this));
    if (size > 0) {
        memcpy(static_cast<void*>(this), data, std::min(size, sizeof(*this)));
    }
}

std::string key_input::bytes() const
{
    return std::string(reinterpret_cast<const char*>(this),
                       HEADER_LENGTH + sizeof(key));
}

std::string key_input::make_key(const std::vector<live_key> &keys) const
{
    constexpr std::pair<int, field> FIELDS[] = {
        {LIVE_HANDLE, HANDLE}, {LIVE_ADDRESS, ADDRESS}, {LIVE_LENGTH, LENGTH},
        {LIVE_DEVICE, DEVICE}, {LIVE_OWNER, OWNER},     {LIVE_SIGNAL, SIGNAL},
    };
    std::string from = source(keys).bytes;
    std::string result(reinterpret_cast<const char*>(key), sizeof(key));

    from.resize(KEY_LENGTH); /* A key without a signal ends earlier */
    for (const auto &[bit, which] : FIELDS) {
        if (live & bit) {
            put_field(result, from, which);
        }
    }

    return result;
}

uint64_t read_field(const std::string &key, field which)
{
    uint64_t value = 0;

    memcpy(&value, key.data() + which.offset, which.length);
    return value;
}

size_t promised_length(const std::string &key)
{
    const uint32_t device = read_field(key, DEVICE);

    /* Any further bit means that an older peer has written a device number of
     * its own kind, and that there are no flags at all */
    if (!(device & FLAG_OWNER) ||
        (device & ~(DEVICE_MASK | FLAG_OWNER | FLAG_SIGNAL))) {
        return DEVICE.offset + DEVICE.length;
    }

    return (device & FLAG_SIGNAL) ? KEY_LENGTH : OWNER.offset + OWNER.length;
}

std::vector<std::pair<std::string, std::string>>
seeds(const std::vector<live_key> &keys)
{
    std::vector<std::pair<std::string, std::string>> result;

    for (size_t i = 0; i < keys.size(); ++i) {
        add_live_seeds(result, keys[i], i);
    }

    /* Cut short, as if less had arrived: what is missing is zero */
    for (size_t length : {size_t{0}, HANDLE.length, ADDRESS.offset + 4,
                          DEVICE.offset, STOCK_KEY_LENGTH, SIGNAL.offset,
                          SIGNAL.offset + 1, KEY_LENGTH - 1}) {
        std::string key = keys[0].bytes;

        key.resize(std::min(length, key.size()));
        result.push_back({"cut-" + std::to_string(length),
                          plain_input(key).bytes()});
    }

    result.push_back({"ones", plain_input(std::string(KEY_LENGTH, '\xff'))
                                      .bytes()});
    return result;
}

} // namespace fuzz
