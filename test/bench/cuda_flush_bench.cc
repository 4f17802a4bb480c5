/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * What buildlib/run-bench measures the CUDA transports with, one measure for
 * each run of the program. Figures are printed, one a line; instructions are
 * counted if callgrind runs the program. TRANSPORT is cuda_copy or cuda_ipc,
 * FLUSHES is 1 where flushes are measured too, which stock UCX does not have.
 */

#include "bench_process.h"
#include "cuda_count.h"
#include "cuda_streams.h"
#include "cuda_time.h"

#include <cstdlib>

namespace {

using bench::command;

const command MEASURES[] = {
    {"device", "", 0, [](char **) { bench::print_cuda_device(); }},
    {"copies", "TRANSPORT OPERATIONS", 2,
     [](char **args) { bench::count_cuda_copies(args[0], atol(args[1])); }},
    {"flushes", "TRANSPORT OPERATIONS", 2,
     [](char **args) { bench::count_cuda_flushes(args[0], atol(args[1])); }},
    {"calls", "TRANSPORT OPERATIONS", 2,
     [](char **args) { bench::count_cuda_calls(args[0], atol(args[1])); }},
    {"copy-times", "TRANSPORT BYTES COPIES ROUNDS FLUSHES", 5,
     [](char **args) {
         bench::time_cuda_copies(args[0], atol(args[1]), atol(args[2]),
                                 atol(args[3]), atoi(args[4]));
     }},
    {"flush-times", "TRANSPORT ROUNDS", 2,
     [](char **args) { bench::time_cuda_flushes(args[0], atol(args[1])); }},
    {"completion-times", "TRANSPORT BYTES COPIES ROUNDS FLUSHES", 5,
     [](char **args) {
         bench::time_cuda_completions(args[0], atol(args[1]), atol(args[2]),
                                      atol(args[3]), atoi(args[4]));
     }},
};

const command ROLES[] = {
    {"owner", "FD BYTES", 2,
     [](char **args) {
         bench::run_cuda_owner_peer(demo::channel(atoi(args[0])),
                                    atol(args[1]));
     }},
};

void open_gpu()
{
    bench::check_cuda(cudaSetDevice(0), "cudaSetDevice");
    bench::check_cuda(cudaFree(nullptr), "cudaFree"); /* Makes the context */
}

} // namespace

int main(int argc, char **argv)
{
    return bench::run_command(argc, argv, open_gpu, MEASURES, ROLES);
}
