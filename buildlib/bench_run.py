#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Run the programs that measure, over stock and patched UCX, also in callgrind.
"""

import collections
import contextlib
import os
import subprocess
import tempfile

from place import place

STOCK, PATCHED = "stock", "patched"
VARIANTS = (STOCK, PATCHED)

# UCX's libraries that every program has: with its module, what counts as UCX's
# code
UCX_LIBRARIES = ("libuct.so", "libucs.so", "libucm.so")

# Seconds, only to catch what hangs
TIMEOUT = 900


class bench_error(Exception):
    """Something could not be measured."""


class bench_place(place):
    """Where everything is, and a folder for results."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def modules(self, variant):
        """The folder of UCX's modules."""
        return self.stock if variant == STOCK else self.patched


class program:
    """A program that measures one runtime's part of UCX.

    module   the library that stock and patched UCX differ in
    counted  libraries that count as UCX's code
    more     environment of every run
    """

    def __init__(self, where, name, runtime, **more):
        self.where = where
        self.path = os.path.join(where.benchmarks, name)
        self.runtime = runtime
        self.module = f"libuct_{runtime}.so"
        self.counted = (*UCX_LIBRARIES, self.module, f"libucm_{runtime}.so")
        self.more = more

    @contextlib.contextmanager
    def environment(self, variant, more):
        """The environment of a run, on a new node. Symbols are bound early, so
        that this is not counted."""
        with self.where.environment(
                self.where.modules(variant), self.runtime, LD_BIND_NOW="1",
                UCX_MEM_MMAP_HOOK_MODE="none", UCX_HANDLE_ERRORS="none",
                **self.more, **more) as environment:
            yield environment

    def run_raw(self, variant, arguments, valgrind=(), **more):
        """Run it; returns the lines that it printed, in fields."""
        command = [*valgrind, self.path, *(str(arg) for arg in arguments)]
        with self.environment(variant, more) as environment:
            ended = subprocess.run(command, env=environment, check=False,
                                   stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, timeout=TIMEOUT)
        if ended.returncode != 0:
            raise bench_error(f"{' '.join(command)} ({variant}) ended with "
                              f"{ended.returncode}:\n{ended.stderr[-2000:]}")
        return [line.split("\t") for line in ended.stdout.splitlines()]

    def run(self, variant, arguments, valgrind=(), **more):
        """Run it; returns {result: [values]}."""
        results = collections.defaultdict(list)
        for kind, *fields in self.run_raw(variant, arguments, valgrind, **more):
            if kind == "result":
                name, value = fields
                results[name].append(float(value))
        return results

    def count(self, variant, arguments, **more):
        """Run it in callgrind; returns {section: section_costs} and the
        results that it printed."""
        with tempfile.TemporaryDirectory() as folder:
            results = self.run(variant, arguments, valgrind=(
                "valgrind", "--tool=callgrind", "--collect-atstart=no",
                "--compress-strings=no", "--compress-pos=no",
                f"--callgrind-out-file={folder}/out"), **more)
            sections = {}
            for name in sorted(os.listdir(folder), key=lambda n: (len(n), n)):
                costs = section_costs(os.path.join(folder, name), self.counted)
                if costs.name:
                    self.check_module(variant, costs)
                    sections[costs.name] = costs
        return sections, results

    def check_module(self, variant, costs):
        """UCX looks for modules in more places than one."""
        folder = self.where.modules(variant)
        for path in costs.objects:
            if os.path.basename(path).startswith(self.module) and not \
               os.path.realpath(path).startswith(
                       os.path.realpath(folder) + "/") and \
               os.path.realpath(path) != os.path.realpath(
                       os.path.join(folder, self.module + ".0")):
                raise bench_error(f"{variant} has run with the module {path}")


class section_costs:
    """What callgrind wrote for one section: instructions by object and
    function, each function's own."""

    def __init__(self, path, ucx_libraries):
        self.ucx_libraries = ucx_libraries
        self.name, self.operations = None, 0
        self.functions = collections.Counter()
        self.objects = set()
        with open(path, encoding="utf-8", errors="replace") as file:
            self.read(file)

    def read(self, file):
        """The format has a line 'ob=' or 'fn=' where that changes, and a line
        with position and cost, unless that is zero, for each line of source;
        the one after 'calls=' is the callee's."""
        ob = fn = None
        is_callee = False
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("desc: Trigger: Client Request: "):
                text = line[len("desc: Trigger: Client Request: "):]
                self.name, operations = text.split("\t")
                self.operations = int(operations)
            elif line.startswith("ob="):
                ob = line[3:]
            elif line.startswith("fn="):
                fn = line[3:]
            elif line.startswith("calls="):
                is_callee = True
            elif line[:1].isdigit() or line[:1] in "+-*":
                if is_callee:
                    is_callee = False
                elif ob is not None:
                    self.objects.add(ob)
                    self.functions[os.path.basename(ob), fn] += sum(
                        int(cost) for cost in line.split()[1:])

    def of(self, *libraries):
        """Instructions in these libraries, for each operation."""
        total = sum(cost for (ob, _), cost in self.functions.items()
                    if is_of(ob, libraries))
        return total / self.operations

    def ucx(self):
        """Instructions in UCX's libraries, for each operation."""
        return self.of(*self.ucx_libraries)


def is_of(ob, libraries):
    """Whether an object is one of these libraries, or a version of one."""
    return ob in libraries or \
        ob.startswith(tuple(library + "." for library in libraries))
