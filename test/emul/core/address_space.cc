/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "address_space.h"

#include "allocation.h"
#include "settings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace emul {

namespace {

/* How many ranges are idle before the default reuses one */
constexpr size_t idle_before_reuse = 256;

/* Room reserved for each allocation that needs less, so that with
 * EMUL_ADDRESS_REUSE=force a larger one can be put where a smaller one was. */
constexpr size_t common_room = 64 << 20;

struct idle_range {
    void   *base;
    size_t room;
};

struct idle_ranges {
    std::mutex                                   mutex;
    std::map<range_use, std::vector<idle_range>> idle;  /* oldest first */
    std::map<void*, size_t>                      rooms; /* idle or not */
    uintptr_t                                    next_wanted;
};

uintptr_t first_wanted()
{
    const char *text = getenv("EMUL_ADDRESS_START");

    return (text == nullptr) ? 0 : strtoull(text, nullptr, 0);
}

idle_ranges &idle()
{
    static idle_ranges *instance = new idle_ranges{{}, {}, {}, first_wanted()};
    return *instance;
}

void *map(void *where, size_t length, int protection, int flags, int fd)
{
    long result = syscall(SYS_mmap, where, length, protection, flags, fd, 0);

    return (result == -1) ? nullptr : (void*)result;
}

void *reserve(void *where, size_t length, int flags)
{
    return map(where, length, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1);
}

/* With EMUL_ADDRESS_START, allocations lie one after the other from there on,
 * so that processes can be made to use the same addresses. */
void *reserve_wanted(idle_ranges &all, size_t length, range_use use)
{
    void *base = nullptr;

    if ((all.next_wanted != 0) && (use == range_use::allocation)) {
        base = reserve((void*)all.next_wanted, length, MAP_FIXED_NOREPLACE);
        if (base != nullptr) {
            all.next_wanted += length;
        }
    }
    return (base != nullptr) ? base : reserve(nullptr, length, 0);
}

/* @return The first that fits, then removed from the idle ones, or nullptr */
template<typename iterator, typename predicate>
void *take_first(std::vector<idle_range> &ranges, iterator first, iterator last,
                 predicate fits)
{
    iterator found = std::find_if(first, last, fits);
    void *base     = nullptr;

    if (found != last) {
        base = found->base;
        ranges.erase(ranges.begin() + (&*found - &ranges.front()));
    }
    return base;
}

void *take_idle(std::vector<idle_range> &ranges, size_t length)
{
    auto fits = [length](const idle_range &range) {
        return (range.room >= length) &&
               (range.room <= std::max(length, common_room));
    };

    switch (setting_value(setting_address_reuse)) {
    case address_reuse_force:
        return take_first(ranges, ranges.rbegin(), ranges.rend(), fits);
    case address_reuse_default:
        if (ranges.size() > idle_before_reuse) {
            return take_first(ranges, ranges.begin(), ranges.end(), fits);
        }
        break;
    default:
        break;
    }
    return nullptr;
}

} // namespace

void *range_take(size_t length, range_use use)
{
    idle_ranges &all = idle();
    std::lock_guard<std::mutex> guard(all.mutex);
    void *base       = take_idle(all.idle[use], length);
    size_t room      = length;

    if (base != nullptr) {
        return base;
    }

    /* what is never used again needs no more than itself */
    if ((use == range_use::allocation) &&
        (setting_value(setting_address_reuse) != address_reuse_forbid)) {
        room = std::max(length, common_room);
    }

    base = reserve_wanted(all, room + page_size, use);
    if (base != nullptr) {
        all.rooms[base] = room;
    }
    return base;
}

bool range_map(void *base, size_t length, int fd)
{
    if (map(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
            fd) == nullptr) {
        return false;
    }

    /* A forked child does not get device memory on real hardware either */
    syscall(SYS_madvise, base, length, MADV_DONTFORK);
    return true;
}

bool range_map_private(void *base, size_t length)
{
    return map(base, length, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1) != nullptr;
}

bool range_holds(const void *address)
{
    idle_ranges &all = idle();
    std::lock_guard<std::mutex> guard(all.mutex);
    auto next        = all.rooms.upper_bound((void*)address);

    if (next == all.rooms.begin()) {
        return false;
    }

    --next;
    return (char*)address < (char*)next->first + next->second;
}

void range_give_back(void *base, size_t length, range_use use)
{
    idle_ranges &all = idle();

    reserve(base, length, MAP_FIXED);

    std::lock_guard<std::mutex> guard(all.mutex);
    all.idle[use].push_back({base, all.rooms[base]});
}

} // namespace emul
