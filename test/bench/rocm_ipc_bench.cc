/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * What buildlib/run-bench measures with: one measure for each run of the
 * program, since a process loads its UCX modules once. Figures are printed, one
 * a line; instructions are counted if callgrind runs the program.
 */

#include "bench_copy.h"
#include "bench_export.h"
#include "bench_free.h"
#include "bench_peer.h"

#include "../apps/demo_gpu.h"

#include <cstdlib>

namespace {

using bench::command;

/* What the process that is run measures */
const command MEASURES[] = {
    {"copies", "OPERATIONS", 1,
     [](char **args) { bench::count_copies(atol(args[0])); }},
    {"copy-times", "OPERATIONS", 1,
     [](char **args) { bench::time_copies(atol(args[0])); }},
    {"frees", "EXPORTS OPERATIONS", 2,
     [](char **args) { bench::count_frees(atol(args[0]), atol(args[1])); }},
    {"registrations", "OPERATIONS", 1,
     [](char **args) { bench::count_registrations(atol(args[0])); }},
    {"free-times", "PEERS MAPPINGS SAMPLES", 3,
     [](char **args) {
         bench::time_frees(atoi(args[0]), atol(args[1]), atol(args[2]));
     }},
    {"bare-free-times", "PEERS MAPPINGS SAMPLES", 3,
     [](char **args) {
         bench::time_bare_frees(atoi(args[0]), atol(args[1]), atol(args[2]));
     }},
    {"free-waits", "SECONDS", 1,
     [](char **args) { bench::see_if_free_waits(atof(args[0])); }},
    {"idle", "REGIONS SECONDS", 2,
     [](char **args) { bench::measure_idle(atol(args[0]), atof(args[1])); }},
};

/* Roles of peers: the number of a socket, a count */
const command ROLES[] = {
    {"owner", "FD COUNT", 2,
     [](char **args) {
         bench::run_owner_peer(demo::channel(atoi(args[0])), atol(args[1]));
     }},
    {"importer", "FD COUNT", 2,
     [](char **args) {
         bench::run_importer_peer(demo::channel(atoi(args[0])));
     }},
    {"bare", "FD COUNT", 2,
     [](char **args) { bench::run_bare_peer(demo::channel(atoi(args[0]))); }},
};

} // namespace

int main(int argc, char **argv)
{
    return bench::run_command(argc, argv, demo::open_gpu, MEASURES, ROLES);
}
