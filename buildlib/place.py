#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""Where programs, modules and libraries are, and how a program is run there."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from gtest_run import program, run_error
from results import (FAILED, PASSED, against_stock, in_short, outcome, summary,
                     with_state)

# Seconds. They only catch what hangs. Sanitizers are slow: so much longer. And a
# process with UCX 1.21 or newer takes a second to start; a test starts hundreds.
TIMEOUT_SUITE, TIMEOUT_TEST = 900, 300
SANITIZER_FACTOR = 4

RUNTIMES = ("rocm", "cuda")


class place:
    """A build folder, or what was packed from one.

    stock, patched   folders of UCX's modules
    libraries        folders for LD_LIBRARY_PATH, the emulators first if emulated
    gtest            {runtime: UCX's test program, with our tests}
    perftest         UCX's performance test
    benchmarks       folder of the programs that measure
    logs             paths of logs, with {} for the name of a suite
    deadline         when no test is started any more, by the monotonic clock
    """

    def __init__(self):
        self.stock = self.patched = self.perftest = self.benchmarks = ""
        self.logs = "{}.log"
        self.libraries = []
        self.gtest = {}
        self.emulated = True
        self.sanitizer = ""
        self.deadline = None
        self.notes = []

    def use_build(self, build):
        """What configure and make have made in a build folder."""
        ucx = os.path.join(build, "ucx")
        self.stock = os.path.join(ucx, "stock-modules")
        self.patched = os.path.join(ucx, "obj/modules")
        self.perftest = os.path.join(ucx, "obj/src/tools/perf/ucx_perftest")
        self.gtest = {runtime: os.path.join(ucx, f"gtest-{runtime}",
                                            "test/gtest/gtest")
                      for runtime in RUNTIMES}
        self.benchmarks = os.path.join(build, "test/bench")
        self.libraries = [os.path.join(build, "test/emul/.libs")]

    def use_bundle(self, top, emulated):
        """What contrib/bundle.sh has packed, unpacked. The driver may be where
        only the machine's own variable says, or where containers have it."""
        programs = os.path.join(top, "bin")
        self.stock = os.path.join(top, "modules/stock")
        self.patched = os.path.join(top, "modules/patched")
        self.perftest = os.path.join(programs, "ucx_perftest")
        self.gtest = {"cuda": os.path.join(programs, "gtest")}
        self.benchmarks = programs
        self.emulated = emulated
        self.libraries = [os.path.join(top, "lib")]
        if emulated:
            self.libraries.insert(0, os.path.join(top, "emulators"))
        else:
            self.libraries += os.environ.get("LD_LIBRARY_PATH", "").split(":")
            self.libraries.append("/usr/local/nvidia/lib64")

    @contextlib.contextmanager
    def environment(self, modules, runtime=None, **more):
        """The environment of a program with these UCX modules: on a new node,
        where the GPUs are emulated; of this runtime, where UCX would find those
        of others as well."""
        node = tempfile.mkdtemp(prefix="overlay-check-", dir=shared_memory())
        try:
            environment = dict(self.base_environment(modules), TMPDIR=node)
            if self.emulated:
                environment["EMUL_NODE"] = node
            others = [name for name in RUNTIMES if runtime and name != runtime]
            if others:
                environment["UCX_MODULES"] = "^" + ",".join(others)
            yield dict(environment, **more)
        finally:
            shutil.rmtree(node, ignore_errors=True)

    def base_environment(self, modules):
        """All but the node. The module folder is on the library path, too, for
        programs that are linked with the module."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("UCX_", "EMUL_", "GTEST_"))}
        return dict(clean, UCX_MODULE_DIR=modules, UCX_HANDLE_ERRORS="bt",
                    LD_LIBRARY_PATH=":".join(filter(None, [*self.libraries,
                                                           modules])))

    def log_path(self, name):
        """Where a suite's log belongs."""
        return self.logs.format(name)

    def timeout(self, seconds):
        """How long something may take here."""
        return seconds * (SANITIZER_FACTOR if self.sanitizer else 1)

    @contextlib.contextmanager
    def program(self, log, path, modules, runtime=None, **more):
        """A GoogleTest program that is in its folder, with these UCX modules."""
        with tempfile.TemporaryDirectory() as folder:
            yield program(path, lambda: self.environment(modules, runtime,
                                                         **more),
                          folder, log, os.path.dirname(path), self.deadline)

    def run_gtest(self, log, path, modules, pattern="*", runtime=None,
                  extra_time=0, **more):
        """{name: outcome} of a program's tests. @a extra_time: seconds that one
        of them is told to take."""
        with self.program(log, path, modules, runtime, **more) as tests:
            return tests.run(tests.list_tests(pattern),
                             self.timeout(TIMEOUT_SUITE) + extra_time,
                             self.timeout(TIMEOUT_TEST) + extra_time)

    def run_ucx_gtest(self, log, runtime, pattern):
        """{name: outcome} of UCX's own tests over the patched modules. What does
        not pass there is tried over the stock ones."""
        path = self.gtest[runtime]
        timeouts = self.timeout(TIMEOUT_SUITE), self.timeout(TIMEOUT_TEST)
        patched = self.run_gtest(log, path, self.patched, pattern, runtime)
        with self.program(log, path, self.stock, runtime) as tests:
            names = [name for name in tests.list_tests(pattern)
                     if name not in patched or patched[name].state != PASSED]
            stock = tests.run(names, *timeouts)
        return against_stock(stock, patched, self.notes)

    def results_of(self, name, suite):
        """Run a suite, with a log of its own; returns its results."""
        os.makedirs(os.path.dirname(self.log_path(name)), exist_ok=True)
        with open(self.log_path(name), "w", encoding="utf-8") as log:
            try:
                results = suite(self, log)
            except (OSError, run_error, subprocess.SubprocessError) as error:
                return {name: outcome(FAILED, str(error))}
        return results or {name: outcome(FAILED, "there was no test to run")}

    def run_suite(self, name, suite):
        """Run a suite and print its line; returns its results."""
        print(f"{suite.__doc__} ... ", end="", flush=True)
        start = time.monotonic()
        results = self.results_of(name, suite)
        print(f"{summary(results.values())} "
              f"({time.monotonic() - start:.0f} s)")
        failed = with_state(results, FAILED)
        for test, result in failed.items():
            print(f"  failed: {test}: {in_short(result)}")
        if failed:
            print(f"  the log: {self.log_path(name)}")
        sys.stdout.flush()
        return results


def shared_memory():
    """Where emulated device memory belongs."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
