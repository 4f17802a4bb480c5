/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef DEMO_MAPS_H_
#define DEMO_MAPS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace demo {

/** One line of /proc/PID/maps. */
struct mapping {
    uintptr_t   start;
    uintptr_t   end;
    std::string file; /**< Path, or what stands in its place; may be empty */

    size_t size() const
    {
        return end - start;
    }

    bool operator<(const mapping &other) const
    {
        return std::tie(start, end, file) <
               std::tie(other.start, other.end, other.file);
    }
};

/** All mappings of a process of the same user, read from /proc. */
std::vector<mapping> read_maps(pid_t pid);

/**
 * Mappings of that process that lead to GPU memory: through the devices of the
 * amdgpu driver, through a dma-buf, or to the files in which an emulated node
 * keeps its device memory.
 */
std::set<mapping> gpu_mappings(pid_t pid);

/** Members of @a after, at least @a min_size bytes long, not in @a before. */
std::set<mapping> new_mappings(const std::set<mapping> &before,
                               const std::set<mapping> &after, size_t min_size);

/** How many of @a wanted the process still has. */
size_t count_present(pid_t pid, const std::set<mapping> &wanted);

/** Path of the file whose name starts with @a name that this process has
 *  mapped, for example "libuct_rocm.so"; empty if there is none. */
std::string loaded_library(const std::string &name);

} // namespace demo

#endif
