/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "demo_maps.h"
#include "demo_channel.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace demo {

namespace {

bool starts_with(const std::string &text, const std::string &start)
{
    return text.compare(0, start.size(), start) == 0;
}

/* Where an emulated node keeps its device memory: one file per allocation, in
 * the folder that EMUL_NODE names */
bool is_emulated_memory(const std::string &file)
{
    const char *node = getenv("EMUL_NODE");

    return (node != nullptr) && starts_with(file, std::string(node) + "/mem-");
}

bool is_gpu_memory(const std::string &file)
{
    static const char *const places[] = {
        "/dev/dri/",        /* Render nodes of the amdgpu driver */
        "/dev/kfd",         /* Its compute interface */
        "/dmabuf:",         /* Exported buffers, in recent kernels ... */
        "anon_inode:dmabuf" /* ... and in older ones */
    };

    return std::any_of(std::begin(places), std::end(places),
                       [&file](const char *place) {
                           return starts_with(file, place);
                       }) ||
           is_emulated_memory(file);
}

/* The kernel's remark on a file that has lost its name; the mapping stays */
void remove_suffix(std::string *file, const std::string &suffix)
{
    const size_t length = file->size();

    if ((length >= suffix.size()) &&
        (file->compare(length - suffix.size(), suffix.size(), suffix) == 0)) {
        file->resize(length - suffix.size());
    }
}

/* start-end permissions offset device inode   file */
mapping parse_line(const std::string &line)
{
    std::istringstream words(line);
    std::string permissions, offset, device, inode;
    mapping map = {};
    char dash;

    words >> std::hex >> map.start >> dash >> map.end >> permissions >>
            offset >> device >> inode >> std::ws;
    std::getline(words, map.file);
    remove_suffix(&map.file, " (deleted)");
    return map;
}

} // namespace

std::vector<mapping> read_maps(pid_t pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    std::vector<mapping> maps;
    std::string line;

    if (!file) {
        throw error("cannot read the memory map of process " +
                    std::to_string(pid));
    }

    while (std::getline(file, line)) {
        maps.push_back(parse_line(line));
    }

    return maps;
}

std::set<mapping> gpu_mappings(pid_t pid)
{
    std::set<mapping> found;

    for (const mapping &map : read_maps(pid)) {
        if (is_gpu_memory(map.file)) {
            found.insert(map);
        }
    }

    return found;
}

std::set<mapping> new_mappings(const std::set<mapping> &before,
                               const std::set<mapping> &after, size_t min_size)
{
    std::set<mapping> found;

    for (const mapping &map : after) {
        if ((map.size() >= min_size) && (before.count(map) == 0)) {
            found.insert(map);
        }
    }

    return found;
}

size_t count_present(pid_t pid, const std::set<mapping> &wanted)
{
    const std::set<mapping> now = gpu_mappings(pid);

    return std::count_if(wanted.begin(), wanted.end(),
                         [&now](const mapping &map) {
                             return now.count(map) != 0;
                         });
}

std::string loaded_library(const std::string &name)
{
    for (const mapping &map : read_maps(getpid())) {
        const size_t slash = map.file.rfind('/');

        if ((slash != std::string::npos) &&
            starts_with(map.file.substr(slash + 1), name)) {
            return map.file;
        }
    }

    return "";
}

} // namespace demo
