#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""How builds of UCX meet and are judged, with a made-up program for each."""

import os
import sys
from unittest import mock

from support import BUILDLIB, test_case, write_files

sys.path.insert(0, BUILDLIB)

# pylint: disable=import-error,wrong-import-position
import interop                                                    # noqa: E402
from gtest_run import read_xml                                    # noqa: E402
from place import place                                           # noqa: E402
from results import FAILED, PASSED, SKIPPED, with_state           # noqa: E402

RUN_INTEROP = os.path.join(BUILDLIB, "run-interop")

# Answers as the real one. Who copies is who gets or who puts. A free waits for
# the importer's end, unless both are patched. FAULTS has what it does instead
# of a command, {command: what} or, only with one that owns, {command + " " +
# name: what}.
PROGRAM = """\
#!{python} -IS
import os, sys, time
KIND, VERSION, FOLDER, FAULTS = {values!r}
node, copies = os.environ["EMUL_NODE"], 0

def note(name, text=None):
    path = os.path.join(node, name)
    if text is not None:
        with open(path, "w") as file:
            file.write(text)
    elif not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()

for line in sys.stdin:
    name, *words = line.split()
    fault = FAULTS.get(name + " " + note("owner"), FAULTS.get(name))
    said = ""
    if fault == "crash":
        os.abort()
    elif fault == "hang":
        time.sleep(60)
    elif fault:
        pass
    elif name == "open":
        if not note("owner"):
            note("owner", KIND + " " + VERSION)
        said = "version=" + VERSION + " emulated=1 worker=1f libucp.so=" + \\
            FOLDER + "/lib/libucp.so.0"
    elif name == {{"get": "receive", "put": "send"}}[
            os.environ["UCX_RNDV_SCHEME"].split("_")[0]]:
        copies += 1
    elif name == "check":
        said = "right={size}"
    elif name == "counts":
        said = "attached=%d copies=%d blocked_frees=%d" % (
            note("free") != "done", copies, note("free") == "blocked")
    elif name == "sleep":
        note("importer", KIND)
    elif name == "free":
        if KIND != "patched" or note("importer") != "patched":
            note("free", "blocked")
            while not note("end"):
                time.sleep(0.01)
        note("free", "done")
    elif name == "close":
        note("end", "yes")
    print(fault or "ok " + said, flush=True)
"""

BLOCKS = "when the importer ended"


class nodes(place):
    """A node without emulators."""


class meetings(test_case):
    """interop.py"""

    def setUp(self):
        super().setUp()
        self.rows = []
        # Only what hangs for sure is given less time
        limits = mock.patch.multiple(interop, HANG_OTHER=interop.HANG,
                                     HANG_IMPOSSIBLE=interop.HANG, BLOCKED=0.05,
                                     LAST_WORDS=0.1)
        limits.start()
        self.addCleanup(limits.stop)

    def make_build(self, name, faults=()):
        """A build whose processes do these things instead."""
        kind, version = name.split()
        folder = self.path(version)
        modules = os.path.join(folder, kind)
        write_files(folder, {
            "lib/libucp.so.0": "",
            f"{kind}/interop_rocm": PROGRAM.format(
                python=sys.executable, size=interop.SIZE,
                values=(kind, version, folder, dict(faults)))})
        os.chmod(os.path.join(modules, "interop_rocm"), 0o755)
        return interop.ucx_build(kind, version, modules,
                                 [os.path.join(folder, "lib")], modules)

    def meet(self, *builds):
        """Returns {name of a test: outcome}."""
        with open(self.path("log"), "w", encoding="utf-8") as log:
            return interop.meet(nodes(), log, ["rocm"], builds,
                                self.rows.append)

    def fail_all(self, text, name, faults):
        """With these faults, a build does not meet itself, for that reason."""
        for test, result in self.meet(self.make_build(name, faults)).items():
            self.assertEqual(result.state, FAILED, test)
            self.assertIn(text, result.text)

    def test_a_free_has_to_finish_only_if_both_are_patched(self):
        results = self.meet(self.make_build("stock 1.0"),
                            self.make_build("patched 1.0"))
        self.assertEqual([(result.state, result.text)
                          for result in results.values()], [(PASSED, "")] * 8)
        self.assertEqual([BLOCKS in row for row in self.rows],
                         [True, True, True, False] * 2)

    def test_a_free_that_waits_though_both_are_patched_is_a_failure(self):
        with mock.patch.object(interop, "HANG", 5):
            self.fail_all("did not finish while the importer lived",
                          "patched 1.0", {"sleep": "ok"})

    def test_a_mapping_that_outlives_the_free_is_a_failure(self):
        self.fail_all("still has the freed memory", "patched 1.0",
                      {"free": "ok"})

    def test_wrong_data_are_a_failure(self):
        self.fail_all("byte 5 of", "stock 1.0", {"check": "ok right=5"})

    def test_data_that_go_another_way_are_a_failure(self):
        self.fail_all("not through a mapping", "stock 1.0",
                      {"receive": "ok", "send": "ok"})

    def test_another_build_or_none_of_the_emulator_is_a_failure(self):
        for told, said in (
                ("version=1.0 emulated=1 libucp.so=/bin/sh", "loaded /bin/sh"),
                ("version=1.0 emulated=1 libucp.so=", "loaded no libucp.so"),
                ("version=2.0 emulated=1", "loaded UCX 2.0"),
                ("version=1.0 emulated=0", "not run on the emulator")):
            self.fail_all(said, "stock 1.0", {"open": "ok " + told})

    def test_an_error_and_a_crash_are_failures(self):
        for what, said in (("error why", "why"), ("crash", "SIGABRT")):
            self.fail_all(said, "stock 1.0", {"receive": what})

    def test_a_hang_is_a_failure(self):
        with mock.patch.object(interop, "HANG", 5):
            self.fail_all("hangs in: ", "stock 1.0", {"receive": "hang"})

    def test_two_versions_that_understand_each_other_have_to(self):
        results = self.meet(
            self.make_build("stock 1.0"), self.make_build("stock 2.0"),
            self.make_build("patched 2.0", {"connect stock 1.0": "error why"}))
        self.assertEqual(
            set(with_state(results, FAILED)),
            {f"rocm {direction}: stock 1.0 owns, patched 2.0 imports"
             for direction in ("get", "put")})
        self.assertEqual({result.state for result in results.values()},
                         {PASSED, FAILED})

    def meet_where_stock_fails(self, patched):
        """Two versions, of which stock fails with stock. Returns the outcomes
        of that, and of patched, which does this."""
        results = self.meet(
            self.make_build("stock 1.0"),
            self.make_build("stock 2.0", {"connect stock 1.0": "error stock"}),
            self.make_build("patched 2.0", {"connect stock 1.0": patched}))
        return [results[f"rocm get: stock 1.0 owns, {kind} 2.0 imports"]
                for kind in ("stock", "patched")]

    def test_what_stock_with_stock_cannot_is_no_success(self):
        for result in self.meet_where_stock_fails("error other"):
            self.assertEqual(result.state, SKIPPED)
            self.assertRegex(result.text, "not possible: stock with stock "
                             "fails as well: .*stock$")

    def test_what_stock_with_stock_cannot_may_pass(self):
        self.assertEqual(self.meet_where_stock_fails("ok")[1].state, PASSED)

    def test_a_crash_is_not_excused_by_an_error(self):
        result = self.meet_where_stock_fails("crash")[1]
        self.assertEqual(result.state, FAILED)
        self.assertIn("importer (patched 2.0) was killed by SIGABRT",
                      result.text)

    def test_a_crash_is_told_and_not_what_the_other_one_says(self):
        result = self.meet(
            self.make_build("patched 1.0", {"send": "crash"}),
            self.make_build("stock 1.0", {"receive": "error nobody sends"}))[
                "rocm get: patched 1.0 owns, stock 1.0 imports"]
        self.assertIn("owner (patched 1.0) was killed by SIGABRT", result.text)


class command(test_case):
    """run-interop"""

    def make_folder(self, name, programs):
        """A folder that looks like one with a build."""
        write_files(self.path(name), {
            "ucx/obj/ucx.pc": "Name: ucx\nVersion: 1.0\n",
            **{"test/apps/" + program: "#!/bin/sh\nexit 1\n"
               for program in programs}})
        for program in programs:
            os.chmod(self.path(name, "test/apps", program), 0o755)
        return self.path(name)

    def test_what_is_no_build_is_refused(self):
        result = self.run_tool(RUN_INTEROP, self.path("none"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("not a folder that holds a build", result.stdout)

    def test_a_build_is_there_once(self):
        folder = self.make_folder("build", ())
        result = self.run_tool(RUN_INTEROP, folder, folder + ":stock")
        self.assertEqual(result.returncode, 2)
        self.assertIn("stock 1.0 is there twice", result.stdout)

    def test_a_runtime_without_a_program_is_left_out_and_this_is_said(self):
        folder = self.make_folder("build", ["interop_rocm"])
        result = self.run_tool(RUN_INTEROP, "--xml", self.path("xml"), folder)
        self.assertIn("cuda is left out: no program", result.stdout)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines()[-1],
                         "0 passed, 8 failed, 0 skipped")
        results = read_xml(self.path("xml"))
        self.assertEqual(len(results), 8)
        for result in results.values():
            self.assertEqual(result.state, FAILED)
            self.assertIn("ended with status 1", result.text)

    def test_a_runtime_that_is_asked_for_is_not_left_out(self):
        folder = self.make_folder("build", ["interop_rocm"])
        result = self.run_tool(RUN_INTEROP, "--runtime", "cuda", folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no program for cuda", result.stdout)
