#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
ROCm IPC on the emulated runtime: copies, frees, registrations, what an owner's
free takes, and an idle importer.
"""

import collections
import statistics

from bench_plot import plot_bars, pyplot, rows_of, save
from bench_report import print_table
from bench_run import PATCHED, STOCK, VARIANTS, program

# The targets
PROGRESS_MORE, FREE_MOST = 4, 200

# How much two counts may differ that are to be the same, and the cost of a free
# that is to be flat, in instructions
SAME = 0.01
FLAT = 20

Scale = collections.namedtuple(
    "Scale", "operations rounds registrations exports peers mappings samples "
    "regions idle")
FULL = Scale(operations=1000, rounds=9, registrations=10000, exports=10000,
             peers=(1, 2, 4, 8), mappings=(1, 100, 1000), samples=200,
             regions=1000, idle=5)
QUICK = Scale(operations=100, rounds=1, registrations=1000, exports=1000,
              peers=(1, 2), mappings=(1, 100), samples=50, regions=100, idle=1)

OwnerFree = collections.namedtuple("OwnerFree", "peers mappings who median p99")
FREES = ("who", "peers", "mappings", "seconds")


def rocm_program(where):
    """The program that measures all this."""
    return program(where, "rocm_ipc_bench", "rocm")


#
# The measures
#

def measure_copies(bench, scale, table):
    """Cached copies, and progress"""
    counts = {}
    for variant in VARIANTS:
        counts[variant], _ = bench.count(variant, ("copies", scale.operations))
        table.add_functions(variant, counts[variant])
    stock, patched = counts[STOCK], counts[PATCHED]
    unit = "instructions"
    for name in ("put", "get"):
        table.add("cached copy", name, unit, stock[name].ucx(),
                  patched[name].ucx(), "<= stock",
                  patched[name].ucx() <= stock[name].ucx())
    for name in ("put", "get"):
        both = name + " of two threads"
        one = patched[name].ucx()
        table.add("cached copy", both, unit + "/thread", stock[both].ucx(),
                  patched[both].ucx(), "<= one thread",
                  patched[both].ucx() <= one * (1 + SAME))
    table.add("progress", "nothing to do", unit, stock["progress"].ucx(),
              patched["progress"].ucx(), f"<= stock + {PROGRESS_MORE}",
              patched["progress"].ucx() <=
              stock["progress"].ucx() + PROGRESS_MORE)

    # In turn, so that what else the machine does hits both
    times = {variant: collections.defaultdict(list) for variant in VARIANTS}
    for _ in range(scale.rounds):
        for variant in VARIANTS:
            results = bench.run(variant, ("copy-times", 5 * scale.operations))
            for name, (seconds,) in results.items():
                times[variant][name].append(seconds * 1e6)
    for threads in ("one thread", "two threads"):
        table.add("cached get", threads, "us (noisy)",
                  *(statistics.median(times[variant]["copy of " + threads])
                    for variant in VARIANTS))


def measure_frees(bench, scale, table):
    """Frees of what was never exported"""
    counts = {}
    for variant in VARIANTS:
        # Where addresses may be used again, the emulator keeps room around each
        # allocation, and the address space of a program in valgrind is small
        counts[variant], _ = bench.count(
            variant, ("frees", scale.exports, scale.operations),
            EMUL_ADDRESS_REUSE="forbid")
        table.add_functions(variant, counts[variant])
    names = [f"free with {exports} exports" for exports in (10, scale.exports)]
    own = {name: counts[PATCHED][name].of(bench.module) for name in names}
    for name in names:
        is_met = own[name] <= FREE_MOST
        target = f"<= {FREE_MOST}"
        if name != names[0]:
            target += ", flat"
            is_met = is_met and own[name] <= own[names[0]] + FLAT
        table.add("free event", name + ", the module", "instructions",
                  counts[STOCK][name].of(bench.module), own[name], target,
                  is_met)
        table.add("free event", name + ", all of UCX", "instructions",
                  counts[STOCK][name].ucx(), counts[PATCHED][name].ucx())


def measure_registrations(bench, scale, table):
    """One allocation registered again and again"""
    counts, results = {}, {}
    for variant in VARIANTS:
        counts[variant], results[variant] = bench.count(
            variant, ("registrations", scale.registrations))
        table.add_functions(variant, counts[variant])
    measure = f"{scale.registrations} registrations"
    for name in ("handles", "signals"):
        table.add(measure, name, "made",
                  *(results[variant][name][0] for variant in VARIANTS), "1",
                  results[PATCHED][name][0] == 1)
    first, last = (counts[PATCHED][name].ucx() for name in
                   ("first registrations", "last registrations"))
    table.add(measure, "first tenth", "instructions",
              counts[STOCK]["first registrations"].ucx(), first)
    table.add(measure, "last tenth", "instructions",
              counts[STOCK]["last registrations"].ucx(), last, "= first tenth",
              last <= first * (1 + SAME))
    table.add(measure, "heap growth after the first", "bytes",
              *(results[variant]["heap growth"][0] for variant in VARIANTS),
              "0", results[PATCHED]["heap growth"][0] <= 0)


# Who is measured: {name: (measure of the program, handler mode)}
FREE_RUNS = {
    "bare": ("bare-free-times", "accept"),
    "patched": ("free-times", "accept"),
    "handler refused": ("free-times", "refuse"),
}


def measure_owner_frees(bench, scale, table):
    """The owner's free, with idle peers that have mapped the buffer"""
    waits = {variant: bench.run(variant, ("free-waits", 1))["free waits"][0]
             for variant in VARIANTS}
    table.add("owner's free", "waits for an idle peer", "0 or 1", waits[STOCK],
              waits[PATCHED], "0", waits[PATCHED] == 0)
    frees = table.file("frees.csv", FREES)
    owner_frees = table.file("owner_frees.csv", OwnerFree._fields)
    table.more.append(lambda: print_owner_frees(owner_frees[1:]))
    for peers in scale.peers:
        for mappings in scale.mappings:
            for who, (measure, mode) in FREE_RUNS.items():
                samples = max(scale.samples, mappings)
                times = bench.run(PATCHED, (measure, peers, mappings, samples),
                                  EMUL_IPC_HANDLER=mode)["free"]
                frees += [(who, peers, mappings, seconds) for seconds in times]
    for peers in scale.peers:
        for mappings in scale.mappings:
            for who in FREE_RUNS:
                seconds = frees_of(table, who, peers, mappings)
                owner_frees.append(OwnerFree(
                    peers, mappings, who, statistics.median(seconds),
                    p99(seconds)))


def frees_of(table, who, peers, mappings):
    """The seconds of these frees."""
    return [row[3] for row in table.file("frees.csv", FREES)[1:]
            if row[:3] == (who, peers, mappings)]


def print_owner_frees(rows):
    """A table of their own."""
    by_case = collections.defaultdict(list)
    for row in rows:
        by_case[row.peers, row.mappings] += [row.median * 1e6, row.p99 * 1e6]
    print("\nOwner's free until it has finished, in us: median and p99\n")
    print_table(("peers", "mappings each") +
                tuple(name for who in FREE_RUNS for name in (who, "p99")),
                [case + tuple(values) for case, values in by_case.items()],
                numbers=range(2 + 2 * len(FREE_RUNS)))


def p99(values):
    """What one in a hundred exceeds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


# Name of UCX's thread that watches what is mapped
WATCHER = "ucx_ipc_watcher"

# EMUL_IPC_HANDLER, and what is said of it
MODES = {"accept": "accepted", "refuse": "refused"}


def measure_idle(bench, scale, table):
    """An importer that has mapped much and does nothing"""
    for mode in ("accept", "refuse"):
        used = {variant: bench.run(variant, ("idle", scale.regions, scale.idle),
                                   EMUL_IPC_HANDLER=mode)
                for variant in VARIANTS}
        case = f"{scale.regions} regions, handler {MODES[mode]}"
        table.add("idle importer", case, "CPU ms/s",
                  *(used[variant]["process"][0] * 1e3 for variant in VARIANTS))
        table.add("idle importer", case + ", the watcher", "CPU ms/s",
                  *(sum(used[variant]["thread " + WATCHER]) * 1e3
                    for variant in VARIANTS))


MEASURES = (measure_copies, measure_frees, measure_registrations,
            measure_owner_frees, measure_idle)


#
# Plots
#

def plot_frees(table, scale):
    """Median as a line, p99 above it as a dotted one."""
    figure, all_axes = pyplot().subplots(1, len(scale.mappings), sharey=True,
                                       figsize=(4 * len(scale.mappings), 4))
    for axes, mappings in zip(all_axes, scale.mappings):
        for who in FREE_RUNS:
            values = [frees_of(table, who, peers, mappings)
                      for peers in scale.peers]
            line, = axes.plot(scale.peers,
                              [statistics.median(v) * 1e6 for v in values],
                              marker="o", label=who)
            axes.plot(scale.peers, [p99(v) * 1e6 for v in values], marker="^",
                      linestyle=":", color=line.get_color())
        axes.set_title(f"{mappings} mappings for each peer", fontsize=9)
        axes.set_xticks(scale.peers)
        axes.set_yscale("log")
        axes.set_xlabel("peers")
    all_axes[0].set_ylabel("free to finished, us\n(line: median, dotted: p99)")
    all_axes[0].legend(fontsize=8)
    save(figure, table, "owner_free.png")


def plot(table, scale):
    """All plots."""
    plot_bars(table, rows_of(table, "cached copy", "instructions") +
              rows_of(table, "progress", "instructions"),
              "instructions in UCX", "copies.png")
    plot_bars(table, rows_of(table, "free event", "instructions"),
              "instructions", "free_event.png")
    plot_bars(table, rows_of(table, "idle importer", "CPU"), "CPU ms/s",
              "idle.png")
    plot_frees(table, scale)
