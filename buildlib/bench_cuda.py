#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
The flush of the CUDA transports: what it costs, and what copies cost beside
stock. Instructions and calls are counted on the emulated runtime, which says
what is ready; times are taken on a GPU, or on the emulator, where they are
noisy.
"""

import collections
import statistics

from bench_plot import plot_bars, rows_of
from bench_run import PATCHED, STOCK, VARIANTS, bench_error, program

TRANSPORTS = ("cuda_copy", "cuda_ipc")

# GPUs of the emulator: cuda_ipc has a stream for each. UCX looks addresses up in
# a table, which takes longer for some than for others: these are low enough to
# be free under valgrind as well.
GPUS = 16
ADDRESSES = "0x20000000000"

# Copies with flushes must keep so much of the rate of those without, in percent
RATE_LEAST = 99

INSTRUCTIONS, CALLS = "instructions", "driver calls"

# Where the copies between two flushes are counted
WINDOW, WINDOW_FLUSHED = "64 copies", "64 copies and a flush"

Scale = collections.namedtuple(
    "Scale", "operations rounds inner sizes completions flushes")
FULL = Scale(operations=100, rounds=7, inner=3,
             sizes={"4 KiB": (4096, 10000), "64 KiB": (65536, 10000),
                    "1 MiB": (1 << 20, 10000)},
             completions=("16 copies of 64 MiB", 1 << 26, 16, 30), flushes=200)
QUICK = FULL._replace(operations=10, rounds=1, inner=1, flushes=50,
                      completions=("16 copies of 64 MiB", 1 << 26, 16, 5))
# The emulator's copies are the processor's
EMULATED = {"sizes": {"4 KiB": (4096, 2000)}, "rounds": 3,
            "completions": ("16 copies of 256 KiB", 1 << 18, 16, 30)}

SAMPLES = ("measure", "variant", "seconds")


def cuda_program(where):
    """The program that measures all this."""
    return program(where, "cuda_flush_bench", "cuda",
                   EMUL_GPUS=str(GPUS), EMUL_ADDRESS_START=ADDRESSES)


def of_emulator(scale):
    """The same for where copies are slow."""
    few = dict(EMULATED, rounds=min(scale.rounds, EMULATED["rounds"]))
    return scale._replace(**few)


#
# Instructions
#

class counts:
    """What was counted for one operation of each section: {unit: {section: how
    much}}."""

    def __init__(self, bench, table, variant, measure, transport, scale):
        sections, results = bench.count(variant,
                                        (measure, transport, scale.operations))
        table.add_functions(variant, sections, transport + ": ")
        self.by_unit = {
            INSTRUCTIONS: {name: costs.ucx()
                           for name, costs in sections.items()},
            CALLS: {name: results["calls, " + name][0] for name in sections}}


def count_copies(bench, scale, table, transport):
    """{variant: counts}, and the lines of what stock can do as well: the target
    is that none of it costs more. Calls that are as many are not a line each.
    """
    both = {variant: counts(bench, table, variant, "copies", transport, scale)
            for variant in VARIANTS}
    for unit in both[STOCK].by_unit:
        for name, stock in both[STOCK].by_unit[unit].items():
            patched = both[PATCHED].by_unit[unit][name]
            if unit == CALLS and patched == stock and name != WINDOW:
                continue
            if name.startswith("arm"):  # who waits for events is not copying
                table.add(transport, name, unit, stock, patched)
                continue
            table.add(transport, name, unit, stock, patched, "<= stock",
                      patched <= stock)
    return both


def numbers_of_streams(sections):
    """With how many the flush was counted, ascending."""
    prefix = "flush of "
    return sorted(int(name[len(prefix):].split()[0]) for name in sections
                  if name.startswith(prefix))


def of_streams(number):
    """In words."""
    return f"{number} stream" + ("" if number == 1 else "s")


def count_flushes(bench, scale, table, transport, copies):
    """Lines of what only patched UCX can do"""
    found = counts(bench, table, PATCHED, "flushes", transport, scale)
    cost, calls = found.by_unit[INSTRUCTIONS], found.by_unit[CALLS]
    numbers = numbers_of_streams(cost)

    table.add(transport, "flush, nothing outstanding", INSTRUCTIONS, None,
              cost["flush, nothing outstanding"])
    for number in numbers:
        name = "flush of " + of_streams(number)
        table.add(transport, name, INSTRUCTIONS, None, cost[name])
    first, last = ("flush of " + of_streams(number)
                   for number in (numbers[0], numbers[-1]))
    table.add(transport, "flush, each further stream", INSTRUCTIONS, None,
              (cost[last] - cost[first]) / (numbers[-1] - numbers[0]))
    table.add(transport, last, CALLS, None, calls[last])
    for number in numbers:
        name = "completion of " + of_streams(number)
        table.add(transport, "completion of a flush of " + of_streams(number),
                  INSTRUCTIONS, None, cost[name + " and a flush"] - cost[name])
    for unit, by_name in found.by_unit.items():
        without, flushed = copies.by_unit[unit][WINDOW], by_name[WINDOW_FLUSHED]
        if unit == CALLS:
            table.add(transport, WINDOW_FLUSHED, unit, None, flushed)
            continue
        table.add(transport, WINDOW_FLUSHED, unit, None, flushed,
                  f"<= {without / RATE_LEAST * 100:.0f}",
                  flushed * RATE_LEAST / 100 <= without)


def count_calls(bench, scale, table, transport):
    """How soon a flush completes"""
    results = bench.run(PATCHED, ("calls", transport, scale.operations))
    for name, values in results.items():
        table.add(transport, "ready to flush completed, " + name,
                  "calls of progress", None, max(values), "1", max(values) == 1)


def measure_counts(bench, scale, table):
    """CUDA copies and flushes, instructions"""
    for transport in TRANSPORTS:
        copies = count_copies(bench, scale, table, transport)
        count_flushes(bench, scale, table, transport, copies[PATCHED])
        count_calls(bench, scale, table, transport)


#
# Times
#

def interleaved(bench, scale, table, arguments):
    """{variant: {result: [seconds]}} of rounds in turn, so that what else the
    machine does hits both. Only the patched one is asked for flushes."""
    times = {variant: collections.defaultdict(list) for variant in VARIANTS}
    samples = table.file("cuda_times.csv", SAMPLES)
    for _ in range(scale.rounds):
        for variant in VARIANTS:
            results = bench.run(variant,
                                (*arguments, int(variant == PATCHED)))
            for name, seconds in results.items():
                times[variant][name] += seconds
                samples += [(" ".join(str(arg) for arg in arguments[:3]) +
                             ": " + name, variant, value) for value in seconds]
    return times


def time_copies(bench, scale, table, transport, noisy):
    """Copies in a second"""
    for size, (length, copies) in scale.sizes.items():
        times = interleaved(bench, scale, table,
                            ("copy-times", transport, length, copies,
                             scale.inner))
        stock, patched, flushed = (
            1 / statistics.median(seconds) for seconds in
            (times[STOCK]["copy"], times[PATCHED]["copy"],
             times[PATCHED]["copy with flushes"]))
        table.add(transport, f"copies of {size}", "1/s" + noisy, stock, patched)
        table.add(transport, f"copies of {size}, a flush each 64",
                  "1/s" + noisy, None, flushed,
                  f">= {RATE_LEAST} % of without",
                  None if noisy else flushed >= patched * RATE_LEAST / 100)


def time_flushes(bench, scale, table, transport, noisy):
    """The call"""
    results = bench.run(PATCHED, ("flush-times", transport, scale.flushes))
    for name, seconds in results.items():
        table.add(transport, name, "us" + noisy, None,
                  statistics.median(seconds) * 1e6)


def time_completions(bench, scale, table, transport, noisy):
    """From the first copy until it is known that all are done. What one way of
    waiting takes longer than the other is after the end of the last copy."""
    case, length, copies, rounds = scale.completions
    times = interleaved(bench, scale, table,
                        ("completion-times", transport, length, copies, rounds))
    ways = {"last copy": "completion of the last copy",
            "flush": "completion of a flush",
            "synchronize": "cuStreamSynchronize, without UCX"}
    for name, way in ways.items():
        table.add(transport, f"{case}, {way}", "us" + noisy,
                  *(median_us(times[variant][name]) for variant in VARIANTS))
    for name in ("last copy", "flush"):
        table.add(transport, f"{case}, {ways[name]} after cuStreamSynchronize",
                  "us" + noisy,
                  *(median_us([a - b for a, b in
                               zip(times[variant][name],
                                   times[variant]["synchronize"])])
                    for variant in VARIANTS))


def median_us(seconds):
    """In microseconds; None if nothing was measured."""
    return statistics.median(seconds) * 1e6 if seconds else None


def device(bench):
    """What it runs on, in words, and whether that is emulated."""
    for variant in VARIANTS:
        for kind, *fields in bench.run_raw(variant, ("device",)):
            if kind == "device":
                name, emulated = fields
                return name, emulated == "1"
    raise bench_error("the program does not say what it runs on")


def measure_times(bench, scale, table):
    """CUDA copies and flushes, times"""
    name, emulated = device(bench)
    noisy = " (noisy)" if emulated else ""
    if emulated:
        scale = of_emulator(scale)
    table.notes.append(f"CUDA's times were taken on: {name}; the median of "
                       f"{scale.rounds} rounds, stock and patched in turn. "
                       "Without UCX: the same copies on a stream of its own.")
    for transport in TRANSPORTS:
        time_copies(bench, scale, table, transport, noisy)
        time_flushes(bench, scale, table, transport, noisy)
        time_completions(bench, scale, table, transport, noisy)


MEASURES = (measure_counts, measure_times)


def plot(table):
    """What copies cost, beside stock."""
    for transport in TRANSPORTS:
        plot_bars(table, [row for row in rows_of(table, transport, INSTRUCTIONS)
                          if row.stock is not None and row.case != WINDOW],
                  "instructions in UCX", transport + ".png")
