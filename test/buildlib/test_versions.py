#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The table of versions, with made-up trees and tools."""

import contextlib
import io
import json
import os
import sys
from unittest import mock

from support import (BUILDLIB, MADE_UP_UCX, TOP, read_file, snapshot, test_case,
                     write_files)

sys.path.insert(0, BUILDLIB)

# pylint: disable=import-error,wrong-import-position
import versions                                                  # noqa: E402

VERSIONS = os.path.join(TOP, "contrib/versions.sh")

CONFIGURE_AC = """\
define([ucx_ver_major], 1)  # made up
define([ucx_ver_minor], 18)
define([ucx_ver_patch], 1)
AC_INIT([ucx], [ucx_ver_major.ucx_ver_minor])
"""

# Tools that say what each tree's file 'says' has for them
TOOL = """\
#!/bin/sh
for argument; do
    if [ -f "$argument/says/{name}" ]; then
        echo "{name} $*" >>"{calls}"
        . "$argument/says/{name}"
    fi
done
"""

WELL = {
    "overlay": "echo 'add    x.c'",
    "build-version": "mkdir -p $1/buildlib $1/tree; touch $1/buildlib/settings.sh;"
                     "ln -sfn $2/says $1/buildlib/settings.sh.says; "
                     "echo 'Building ... 1 s'",
    "make-series": "mkdir -p $4; touch $4/0001-x.patch $4/0002-y.patch",
}


class versions_test(test_case):
    """A project with made-up tools, and trees."""

    def setUp(self):
        super().setUp()
        self.top, self.calls = self.path("top"), self.path("calls")
        for name in ("overlay", "build-version", "make-series"):
            self.tool(name, TOOL.format(name=name, calls=self.calls))
        self.tool("run-suites", "#!/bin/sh\necho run-suites >>" + self.calls +
                  "\ncat $(dirname $3)/settings.sh.says/run-suites\n"
                  "! grep -q '[1-9] failed' "
                  "$(dirname $3)/settings.sh.says/run-suites\n")
        self.tool("ucx-build", "#!/bin/sh\necho ucx-build >>" + self.calls + "\n"
                  "echo error: 0002 does not compile; exit 1\n")
        self.interop("echo 3 passed, 0 failed, 1 skipped")
        self.good = self.tree("good")

    def tool(self, name, text):
        """Write a tool."""
        write_files(self.top, {"buildlib/" + name: text})
        os.chmod(os.path.join(self.top, "buildlib", name), 0o755)

    def tree(self, name, **says):
        """A tree for which all is well but for what is given."""
        folder = self.path("trees", name)
        says = {**WELL, "run-suites": "5 passed, 0 failed, 0 skipped",
                **{key.replace("_", "-"): text for key, text in says.items()}}
        write_files(folder, {**MADE_UP_UCX, "configure.ac": CONFIGURE_AC,
                             **{f"says/{key}": text + "\n"
                                for key, text in says.items()}})
        return folder

    def interop(self, says):
        """What is to become of versions that meet."""
        self.tool("run-interop", f"#!/bin/sh\necho run-interop $* "
                  f">>{self.calls}\n{says}\n")

    def run_versions(self, *arguments):
        """Returns the exit status and what was printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = versions.main([*arguments[:-1], self.top, *arguments[-1]])
        return status, printed.getvalue()

    def called(self):
        """The tools that were called, and forget them."""
        text = read_file(self.folder, "calls") or ""
        write_files(self.folder, {"calls": ""})
        return [line.split()[0] for line in text.splitlines()]


class matrix(versions_test):
    """What is said of trees."""

    def test_all_is_well(self):
        status, said = self.run_versions([self.good])
        self.assertEqual(status, 0, said)
        self.assertEqual(said.splitlines()[-2:], [
            "tree  version  applies  builds  tests passed  series applies",
            "good  1.18.1   yes      yes     5             yes, 2"])

    def test_a_tree_that_fails_does_not_keep_others_from_being_tried(self):
        old = self.tree("old", overlay="echo 'error: a.c: lacks b: old' >&2; exit 1")
        status, said = self.run_versions([old, self.good])
        self.assertEqual(status, 1)
        self.assertIn("old   1.18.1   no       -       -             -\n", said)
        self.assertIn("good  1.18.1   yes      yes     5             yes, 2\n",
                      said)
        self.assertIn("old, applies: a.c: lacks b: old\n", said)
        self.assertIn("Logs of old: ", said)
        self.assertNotIn("Logs of good: ", said)

    def test_each_column_may_fail_with_its_reason(self):
        for column, says, cell, reason in (
                ("builds", {"build_version": "echo error: no compiler; exit 1"},
                 "no", "no compiler"),
                ("builds", {"build_version": WELL["build-version"] +
                            "; mkdir -p $1/logs; echo 'x.c:1: warning: bad "
                            "[-Wbad]' >$1/logs/ucx-patched.log"},
                 "no", "x.c:1: warning: bad [-Wbad]"),
                ("tests passed", {"run_suites": "  failed: a.b: why\n"
                                  "4 passed, 1 failed, 0 skipped"},
                 "no, 1 failed", "a.b: why"),
                ("series applies", {"make_series": "echo error: differs; exit 1"},
                 "no", "differs")):
            tree = self.tree("bad-" + cell.replace(" ", "")[:2] + reason[:1],
                             **says)
            status, said = self.run_versions([tree])
            self.assertEqual(status, 1, said)
            row = said.splitlines()
            self.assertIn(f"  {cell}", said)
            self.assertIn(f"{os.path.basename(tree)}, {column}: {reason}", row)

    def test_series_is_made_although_tests_fail(self):
        tree = self.tree("bad", run_suites="4 passed, 1 failed, 0 skipped")
        self.assertIn("yes, 2", self.run_versions([tree])[1])

    def test_what_is_left_out_is_said(self):
        tree = self.tree("rocm", build_version=WELL["build-version"] +
                         "; echo 'Note: the CUDA part is left out: no toolkit'")
        status, said = self.run_versions([tree])
        self.assertEqual(status, 0)
        self.assertIn("yes, no CUDA", said)
        self.assertIn("rocm, builds: the CUDA part is left out: no toolkit", said)

    def test_suites_that_skip_say_so(self):
        tree = self.tree("skips", run_suites="4 passed, 0 failed, 2 skipped")
        self.assertIn("4, 2 skipped", self.run_versions([tree])[1])

    def test_no_suites(self):
        status, said = self.run_versions("--suites", "", [self.good])
        self.assertEqual(status, 0)
        self.assertIn("not tried", said)
        self.assertNotIn("run-suites", self.called())

    def test_steps_that_do_not_build(self):
        status, said = self.run_versions("--build-steps", [self.good])
        self.assertEqual(status, 1)
        self.assertIn("good, series applies: 0002 does not compile", said)

    def test_steps_compile_nothing_again(self):
        self.run_versions("--build-steps", [self.good])
        folder = os.path.join(self.top, "build/versions/good")
        for name, of_what in (("ccache", "ccache"),
                              ("config.cache", "obj/config.cache")):
            self.assertEqual(
                os.readlink(os.path.join(folder, "steps/ucx", name)),
                os.path.join(folder, "ucx", of_what))

    def test_only_what_suites_need_is_built(self):
        for suites, built in (("lifetime cuda interop", "gtest-ours"),
                              ("cuda ucx_cuda", "gtest")):
            self.run_versions("--suites", suites, [self.good])
            self.assertRegex(read_file(self.folder, "calls"),
                             f"(?m)^build-version [^ ]+ [^ ]+ {built}$")
            write_files(self.folder, {"calls": ""})

    def test_trees_are_not_changed(self):
        before = snapshot(self.path("trees"))
        self.run_versions([self.good])
        self.assertEqual(before, snapshot(self.path("trees")))

    def test_trees_of_one_name_have_folders_of_their_own(self):
        other = self.tree("else/good")
        _, said = self.run_versions([self.good, other])
        self.assertIn("\ngood-2  1.18.1", said)
        for name in ("good", "good-2"):
            with open(os.path.join(self.top, "build/versions", name,
                                   "results.json"), encoding="utf-8") as found:
                self.assertTrue(json.load(found)["columns"]["tests"][1][0])

    def test_reasons_are_short_and_name_no_folder_of_this_machine(self):
        bad = self.tree("bad", make_series="for n in 1 2 3 4 5 6 7; do "
                        f"echo error: {self.path('trees/bad')}/$n.c: bad; done; "
                        "exit 1")
        said = self.run_versions([bad])[1]
        self.assertEqual(said.count("bad, series applies: "), 6)
        self.assertIn("bad, series applies: 1.c: bad\n", said)
        self.assertIn("bad, series applies: and 2 more\n", said)

    def test_table_for_the_documentation(self):
        path = self.path("table.rst")
        bad = self.tree("bad", make_series="echo error: differs; exit 1")
        self.run_versions("--rst", path, [self.good, bad])
        rule = "====  =======  =======  ======  ============  =============="
        self.assertEqual(read_file(self.folder, "table.rst").splitlines(), [
            rule,
            "tree  version  applies  builds  tests passed  series applies",
            rule,
            "good  1.18.1   yes      yes     5             yes, 2",
            "bad   1.18.1   yes      yes     5             no",
            rule, "", "* bad, series applies: differs"])

    def test_oldest_and_newest_that_build_meet(self):
        for name, minor in (("ten", "10"), ("nine", "9"), ("eleven", "11")):
            write_files(self.tree(name), {
                "configure.ac": CONFIGURE_AC.replace("18", minor)})
        bad = self.tree("bad", build_version="exit 1")
        write_files(bad, {"configure.ac": CONFIGURE_AC.replace("18", "8")})
        trees = [self.path("trees", name)
                 for name in ("eleven", "nine", "bad", "ten")]
        said = self.run_versions("--interop", trees)[1]
        self.assertIn("\ninteroperation of nine and eleven: 3 passed, 0 failed, 1 "
                      "skipped\n", said)
        self.assertRegex(read_file(self.folder, "calls"),
                         r"run-interop --log .* [^ ]*/nine [^ ]*/eleven\n")

    def test_versions_that_do_not_meet_well(self):
        other = self.tree("other")
        self.interop("echo '  failed: stock with patched: crashed'; echo '2 "
                     "passed, 1 failed, 0 skipped'; exit 1")
        status, said = self.run_versions("--interop", [self.good, other])
        self.assertEqual(status, 1)
        self.assertIn("\ninteroperation: stock with patched: crashed\n", said)
        self.interop("echo 'error: no such folder'; exit 1")
        status, said = self.run_versions("--interop", [self.good, other])
        self.assertEqual(status, 1)
        self.assertIn("\ninteroperation: no such folder\n", said)

    def test_one_alone_meets_nobody(self):
        status, said = self.run_versions("--interop", [self.good])
        self.assertEqual(status, 1)
        self.assertIn("\ninteroperation: takes two trees that build, not good\n",
                      said)

    def test_version_is_unknown_without_its_macros(self):
        write_files(self.good, {"configure.ac": "AC_INIT([ucx], [1])\n"})
        self.assertIn("good  ?        yes", self.run_versions([self.good])[1])


class again(versions_test):
    """A second run."""

    def test_does_nothing_if_nothing_has_changed(self):
        first = self.run_versions([self.good])[1]
        self.called()
        status, said = self.run_versions([self.good])
        self.assertEqual(status, 0)
        self.assertEqual(self.called(), [])
        self.assertEqual(first.splitlines()[-2:], said.splitlines()[-2:])

    def test_does_what_had_failed(self):
        bad = self.tree("bad", run_suites="4 passed, 1 failed, 0 skipped")
        self.run_versions([bad])
        self.called()
        self.run_versions([bad])
        self.assertEqual(self.called(), ["run-suites"])

    def test_does_what_was_interrupted(self):
        with mock.patch.object(versions.version, "tests",
                               side_effect=KeyboardInterrupt):
            self.assertEqual(self.run_versions([self.good])[0], 130)
        self.assertEqual(self.called(), ["overlay", "build-version"])
        self.assertEqual(self.run_versions([self.good])[0], 0)
        self.assertEqual(self.called(), ["run-suites", "make-series"])

    def test_does_all_for_another_overlay_and_for_another_tree(self):
        everything = ["overlay", "build-version", "run-suites", "make-series"]
        self.run_versions([self.good])
        self.called()
        write_files(self.top, {"src/x.c": "int x;\n"})
        self.run_versions([self.good])
        self.assertEqual(self.called(), everything)
        old = os.path.join(self.top, "build/versions/good/ucx/of_the_old_tree")
        write_files(os.path.dirname(old), {"of_the_old_tree": ""})
        write_files(self.good, {"src/uct/rocm/a.c": "int other;\n"})
        self.run_versions([self.good])
        self.assertEqual(self.called(), everything)
        self.assertFalse(os.path.exists(old))

    def test_does_what_other_options_need(self):
        self.run_versions([self.good])
        self.called()
        self.run_versions("--suites", "cuda_stock interop", [self.good])
        self.assertEqual(self.called(), ["run-suites"])
        self.run_versions("--suites", "ucx", [self.good])
        self.assertEqual(self.called(), ["build-version", "run-suites"])


class command(test_case):
    """contrib/versions.sh"""

    def test_help(self):
        self.assertIn("build/versions", self.succeed(VERSIONS, "--help"))

    def test_bad_input(self):
        for texts, arguments in (
                (["no DIR", "usage:"], []),
                (["--frobnicate", "usage:"], ["--frobnicate"]),
                (["/no/such/folder"], ["/no/such/folder"]),
                (["--rst needs"], [self.folder, "--rst"]),
                (["no suite fuzzy", "lifetime"], [self.folder, "--suites",
                                                  "fuzzy"]),
                (["--stress"], [self.folder, "--stress", "0"])):
            self.fail_with(texts, VERSIONS, *arguments)
