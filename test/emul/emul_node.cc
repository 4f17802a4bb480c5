/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include <core/control.h>
#include <core/counts.h>
#include <core/node.h>
#include <core/process.h>

#include <cstdio>
#include <string>
#include <vector>

/*
 * Prints what the processes of an emulated node hold. The node is that of
 * EMUL_NODE, or the default one; looking at it does not join it.
 */

namespace emul {

/* This program has no points of its own */
bool runtime_attach()
{
    return true;
}

} // namespace emul

struct column {
    emul_count_t what;
    const char   *title;
};

static const column columns[] = {
    {EMUL_COUNT_ALLOCATIONS, "allocations"},
    {EMUL_COUNT_BYTES_ALLOCATED, "bytes"},
    {EMUL_COUNT_ATTACHES, "attaches"},
    {EMUL_COUNT_SIGNALS, "signals"},
    {EMUL_COUNT_IPC_SIGNALS, "ipc-signals"},
    {EMUL_COUNT_IPC_SIGNAL_ATTACHES, "sig-attaches"},
    {EMUL_COUNT_HANDLERS, "handlers"},
    {EMUL_COUNT_HANDLERS_DROPPED, "dropped"},
    {EMUL_COUNT_COPIES, "copies"},
    {EMUL_COUNT_COPIES_HELD, "held"},
    {EMUL_COUNT_FREES_BLOCKED, "blocked-frees"},
    {EMUL_COUNT_CONTEXTS, "contexts"},
    {EMUL_COUNT_STREAMS, "streams"},
    {EMUL_COUNT_EVENTS, "events"},
    {EMUL_COUNT_CALLBACKS, "callbacks"},
};

static void print_row(const char *name, pid_t pid)
{
    int64_t value;

    printf("%-10s", name);
    for (const column &c : columns) {
        value = 0;
        emul::count_read(pid, c.what, &value);
        printf(" %13lld", (long long)value);
    }
    printf("\n");
}

static std::vector<pid_t> live_pids()
{
    std::vector<pid_t> pids;
    emul::node_lock lock;

    emul::processes_reap();
    emul::processes_each(EMUL_ANY_PROCESS, [&pids](unsigned slot) {
        pids.push_back(emul::process_pid_here(slot));
    });
    return pids;
}

int main(int argc, char **)
{
    int64_t charged = 0;

    if (argc > 1) {
        printf("usage: emul-node\n"
               "prints the counts of the emulated node that EMUL_NODE names\n");
        return 2;
    }

    if (!emul::node_observe()) {
        printf("no process is on this node\n");
        return 1;
    }

    printf("%-10s", "pid");
    for (const column &c : columns) {
        printf(" %13s", c.title);
    }
    printf("\n");

    for (pid_t pid : live_pids()) {
        print_row(std::to_string(pid).c_str(), pid);
    }
    print_row("all", EMUL_ANY_PROCESS);

    emul::count_read(EMUL_ANY_PROCESS, EMUL_COUNT_BYTES_CHARGED, &charged);
    printf("\n%lld bytes of device memory charged\n", (long long)charged);
    return 0;
}
