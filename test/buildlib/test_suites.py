#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""How suites are run and counted, with made-up test programs."""

import json
import os
import sys
import time
from unittest import mock

from support import BUILDLIB, read_file, test_case, write_files

sys.path.insert(0, BUILDLIB)

# pylint: disable=import-error,wrong-import-position
import perftest_run                                              # noqa: E402
from gtest_run import program                                    # noqa: E402
from place import place                                          # noqa: E402
from results import (FAILED, PASSED, SKIPPED, TIME_IS_UP,         # noqa: E402
                     against_stock, all_well, outcome)

RUN_SUITES = os.path.join(BUILDLIB, "run-suites")
MAKE_BUNDLE = os.path.join(BUILDLIB, "make-bundle")

SETTINGS = """\
srcdir='{project}'
builddir='{build}'
sanitizer='{sanitizer}'
cuda_dir='{cuda}'
cuda_libdir=
cuda_reason='made-up reason'
"""

# A GoogleTest program: lists one test, and says how it ended
PROGRAM = """\
#!/bin/sh
for option; do
    case $option in
    --gtest_list_tests) printf 'a.\\n  b\\n'; exit 0 ;;
    --gtest_output=xml:*) xml=${option#*:} ;;
    esac
done
echo "$UCX_MODULE_DIR $UCX_MODULES" >>"$SEEN"
echo '<x><testcase classname="a" name="b" status="run"/></x>' >"$xml"
"""


class judging(test_case):
    """results.py"""

    def test_what_stock_fails_too_is_no_failure(self):
        notes = []
        judged = against_stock({"a/0": outcome(FAILED, "why")},
                               {"a/0": outcome(FAILED, "other")}, notes)
        self.assertEqual(judged["a/0"].state, SKIPPED)
        self.assertEqual(notes, ["stock UCX itself fails a/0: why"])

    def test_what_only_we_fail_is_one(self):
        judged = against_stock({"a": outcome(PASSED)}, {"a": outcome(FAILED)}, [])
        self.assertEqual(judged["a"].state, FAILED)

    def test_what_we_lack_or_skip_is_one(self):
        stock = {"a": outcome(PASSED), "b": outcome(PASSED)}
        judged = against_stock(stock, {"b": outcome(SKIPPED, "x")}, [])
        self.assertEqual([result.state for result in judged.values()],
                         [FAILED, FAILED])

    def test_want_of_time_excuses_nothing(self):
        for stock, patched in ((TIME_IS_UP, "why"), ("why", TIME_IS_UP)):
            judged = against_stock({"a": outcome(FAILED, stock)},
                                   {"a": outcome(FAILED, patched)}, [])
            self.assertEqual(judged["a"].state, FAILED)

    def test_what_stock_skips_may_pass(self):
        judged = against_stock({"a": outcome(SKIPPED)}, {"a": outcome(PASSED)},
                               [])
        self.assertEqual(judged["a"].state, PASSED)

    def test_transfer_that_stock_does_another_way_too_is_skipped(self):
        other_way = outcome(FAILED, "never called attach")
        for ours, stock, state in (
                (other_way, other_way, SKIPPED),
                (other_way, outcome(FAILED, "never called copy"), FAILED),
                (other_way, outcome(PASSED), FAILED),
                (outcome(FAILED, "crashed"), outcome(FAILED, "crashed"), FAILED),
                (outcome(PASSED), other_way, PASSED)):
            with mock.patch.object(perftest_run, "run_perftest",
                                   side_effect=[ours, stock]):
                judged = perftest_run.perftests(place(), None, "rocm", {"put": ()})
            self.assertEqual(judged["put"].state, state)

    def test_skipping_alone_is_no_success(self):
        self.assertFalse(all_well([outcome(SKIPPED)]))
        self.assertFalse(all_well([outcome(PASSED), outcome(FAILED)]))
        self.assertTrue(all_well([outcome(PASSED), outcome(SKIPPED)]))


class running(test_case):
    """gtest_run.py and place.py"""

    def setUp(self):
        super().setUp()
        write_files(self.folder, {"program": PROGRAM})
        os.chmod(self.path("program"), 0o755)
        self.where = place()
        self.where.libraries = [self.path("lib")]

    def run_program(self, runtime, **more):
        """Run the program; returns its one outcome."""
        with open(self.path("log"), "w", encoding="utf-8") as log:
            results = self.where.run_gtest(log, self.path("program"), "/modules",
                                           runtime=runtime,
                                           SEEN=self.path("seen"), **more)
        self.assertEqual(list(results), ["a.b"])
        return results["a.b"]

    def test_a_program_of_one_runtime_does_not_see_the_other(self):
        for runtime, other in (("rocm", "^cuda"), ("cuda", "^rocm")):
            self.assertEqual(self.run_program(runtime).state, PASSED)
            self.assertEqual(
                set(read_file(self.folder, "seen").splitlines()),
                {f"/modules {other}"})
            os.unlink(self.path("seen"))

    def test_there_is_a_node_only_for_emulated_gpus(self):
        for emulated in (True, False):
            self.where.emulated = emulated
            with self.where.environment("/modules", "cuda") as environment:
                self.assertEqual("EMUL_NODE" in environment, emulated)
                self.assertTrue(os.path.isdir(environment["TMPDIR"]))
            self.assertFalse(os.path.exists(environment["TMPDIR"]))

    def test_what_has_no_time_left_is_a_failure_and_says_so(self):
        self.where.deadline = time.monotonic() - 1
        result = self.run_program("cuda")
        self.assertEqual(result.state, FAILED)
        self.assertIn("time is up", result.text)

    def test_of_ucxs_tests_stock_gets_those_that_do_not_pass(self):
        self.where.gtest = {"cuda": self.path("program")}
        self.where.stock, self.where.patched = "/stock", "/patched"
        for status, state, tried in (
                ('status="run"', PASSED, ["/patched ^rocm"]),
                ('result="skipped"', SKIPPED, ["/patched ^rocm",
                                               "/stock ^rocm"])):
            write_files(self.folder, {"seen": "", "program": PROGRAM.replace(
                'status="run"', status)})
            with open(self.path("log"), "w", encoding="utf-8") as log, \
                 mock.patch.dict(os.environ, SEEN=self.path("seen")):
                results = self.where.run_ucx_gtest(log, "cuda", "*")
            self.assertEqual(results["a.b"].state, state)
            self.assertEqual(read_file(self.folder, "seen").splitlines(), tried)

    def test_what_hangs_is_ended_at_the_deadline(self):
        write_files(self.folder, {"program": PROGRAM.replace("echo '<x>",
                                                             "sleep 60 #")})
        with open(self.path("log"), "w", encoding="utf-8") as log:
            tests = program(
                self.path("program"),
                lambda: self.where.environment("/modules",
                                               SEEN=self.path("seen")),
                self.folder, log, None, time.monotonic() + 0.5)
            result = tests.run(["a.b"], 60, 60)["a.b"]
        self.assertEqual(result.state, FAILED)
        self.assertEqual(result.text, TIME_IS_UP)

    def test_a_suite_that_cannot_run_is_a_failure(self):
        self.where.logs = self.path("logs/{}")
        for suite in (lambda where, log: {},
                      lambda where, log: where.run_gtest(log, "/no/such", "")):
            results = self.where.results_of("suite", suite)
            self.assertEqual(results["suite"].state, FAILED)


class left_out(test_case):
    """Where there is no CUDA."""

    def configure(self, **changed):
        """Write what the project's configure would."""
        values = dict(project=os.path.dirname(BUILDLIB), sanitizer="", cuda="",
                      build=self.path("build"))
        values.update(changed)
        write_files(self.folder, {"settings.sh": SETTINGS.format(**values)})

    def test_its_suites_count_for_nothing_and_the_reason_is_said(self):
        self.configure()
        result = self.run_tool(RUN_SUITES, self.path("settings.sh"), "cuda",
                               "ucx_cuda", "perftest_cuda", "bundle")
        self.assertEqual(result.stdout,
                         "The CUDA part is left out: made-up reason\n"
                         "0 passed, 0 failed, 0 skipped\n")
        self.assertNotEqual(result.returncode, 0)

    def test_nothing_is_said_where_it_is_not_left_out(self):
        self.configure(cuda="/toolkit")
        result = self.run_tool(RUN_SUITES, self.path("settings.sh"), "cuda")
        self.assertNotIn("left out", result.stdout)
        self.assertIn("1 failed", result.stdout.splitlines()[-1])

    def test_nothing_is_packed(self):
        self.configure()
        self.fail_with(["left out", "made-up reason"], MAKE_BUNDLE,
                       self.path("settings.sh"), self.path("x.tar.xz"))

    def test_builds_with_a_sanitizer_are_not_packed(self):
        self.configure(cuda="/toolkit", sanitizer="address")
        self.fail_with(["sanitizer"], MAKE_BUNDLE, self.path("settings.sh"),
                       self.path("x.tar.xz"))

    def test_what_is_not_built_is_not_packed(self):
        self.configure(cuda="/toolkit")
        self.fail_with(["gtest", "build it first"], MAKE_BUNDLE,
                       self.path("settings.sh"), self.path("x.tar.xz"))
        self.assertFalse(os.path.exists(self.path("x.tar.xz")))


class bundles(test_case):
    """What runs packed tests, with stand-ins for the programs."""

    def setUp(self):
        super().setUp()
        self.top = self.path("bundle")
        for name in ("bundle-run", "cuda_suites.py", "gtest_run.py",
                     "perftest_run.py", "place.py", "results.py"):
            text = read_file(BUILDLIB, name)
            write_files(self.top, {"runner/" + name:
                                   text.replace("ASK_GPU = ", "ASK_GPU = "
                                                "'print(\"GPU:    made up\")' or ")})
        for name, text in {"gtest": PROGRAM, "cuda-test": PROGRAM,
                           "ucx_info": "#!/bin/sh\necho '# UCX made up'\n"}.items():
            write_files(self.top, {"bin/" + name: text})
            os.chmod(os.path.join(self.top, "bin", name), 0o755)

    def run_bundle(self, *arguments):
        """Run it; returns its status, what it says, and its results."""
        result = self.run_tool(
            sys.executable, os.path.join(self.top, "runner/bundle-run"), "--out",
            self.path("out"), *arguments, env={"SEEN": self.path("seen")})
        found = read_file(self.folder, "out/results.json")
        return result.returncode, result.stdout, found and json.loads(found)

    def test_counts_and_leaves_results(self):
        status, said, results = self.run_bundle("cuda-test", "cuda")
        self.assertEqual(status, 0, said)
        self.assertIn("GPU:    made up\n", said)
        self.assertIn("UCX made up\n", said)
        self.assertEqual(said.splitlines()[-1], "2 passed, 0 failed, 0 skipped")
        self.assertEqual(results["suites"]["cuda"], {"a.b": [PASSED, ""]})
        self.assertFalse(results["emulated"])
        self.assertIsNotNone(read_file(self.folder, "out/cuda-test.log"))

    def test_stock_is_information_only(self):
        write_files(self.top, {"bin/gtest": PROGRAM.replace(
            'status="run"/>', 'status="run"><failure message="no flush"/>'
            "</testcase>")})
        status, said, results = self.run_bundle("cuda-test", "cuda_over_stock")
        self.assertEqual(status, 0, said)
        self.assertIn("expected to fail: ", said)
        self.assertEqual(said.splitlines()[-1], "1 passed, 0 failed, 0 skipped")
        self.assertEqual(list(results["suites"]), ["cuda-test"])
        self.assertIn("no flush",
                      results["information"]["cuda_over_stock"]["a.b"][1])
        self.assertIn(os.path.join(self.top, "modules/stock"),
                      read_file(self.folder, "seen"))

    def test_a_failure_is_the_status(self):
        write_files(self.top, {"bin/gtest": PROGRAM.replace(
            'status="run"/>', 'status="run"><failure message="why"/></testcase>')})
        status, said, _ = self.run_bundle("cuda")
        self.assertEqual(status, 1)
        self.assertIn("failed: a.b: why", said)

    def test_the_emulator_is_said(self):
        _, said, results = self.run_bundle("--emulator", "cuda")
        self.assertTrue(said.startswith("EMULATED"), said)
        self.assertTrue(results["emulated"])

    def test_a_machine_that_cannot_run_it_is_told_why(self):
        write_files(self.top, {"bin/ucx_info":
                               "#!/bin/sh\necho GLIBC_9 not found; exit 1\n"})
        status, said, results = self.run_bundle("cuda")
        self.assertEqual(status, 1)
        self.assertIn("cannot run here: GLIBC_9 not found", said)
        self.assertIsNone(results)

    def test_no_time(self):
        status, said, _ = self.run_bundle("--minutes", "0", "cuda")
        self.assertEqual(status, 1)
        self.assertIn("time is up", said)

    def test_unknown_suite(self):
        status, said, _ = self.run_bundle("frobnicate")
        self.assertEqual(status, 2)
        self.assertIn("frobnicate", said)
