#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The overlay tool, on a made-up tree."""

import json
import os
import re
import signal
import subprocess
import time

from support import (BUILDLIB, MADE_UP_UCX, TOP, read_file, snapshot, test_case,
                     write_files)

OVERLAY = os.path.join(BUILDLIB, "overlay")

RENAME = """\
@@
expression x;
@@
- old_name(x)
+ new_name(x)
"""


class overlay_test(test_case):
    """A made-up overlay and a made-up tree."""

    def setUp(self):
        super().setUp()
        self.ours, self.tree = self.path("ours"), self.path("tree")
        write_files(self.tree, MADE_UP_UCX)
        write_files(self.ours, {
            "src/uct/rocm/new.c": "int added;\n",
            "src/uct/rocm/b.c": "int b_of_ours;\n",
            "src/uct/rocm/Makefile.am.add": "x_SOURCES += new.c\n",
        })

    def apply(self):
        """Apply the overlay, which must succeed."""
        return self.succeed(OVERLAY, "apply", self.ours, self.tree)

    def refuse(self, *texts):
        """Apply the overlay, which must be refused and change nothing."""
        before = snapshot(self.tree)
        self.fail_with(texts, OVERLAY, "apply", self.ours, self.tree)
        self.assertEqual(before, snapshot(self.tree))

    def in_tree(self, name):
        """The text of a file of the tree."""
        return read_file(self.tree, name)


class whole_files(overlay_test):
    """X.c, X.h, X.cc"""

    def test_are_added_and_stand_in(self):
        self.apply()
        self.assertEqual(self.in_tree("src/uct/rocm/new.c"), "int added;\n")
        self.assertEqual(self.in_tree("src/uct/rocm/b.c"), "int b_of_ours;\n")

    def test_applying_twice_changes_nothing(self):
        self.apply()
        before = snapshot(self.tree)
        self.assertEqual(self.apply(), "nothing to do\n")
        self.assertEqual(before, snapshot(self.tree))

    def test_only_a_changed_file_gets_a_new_time(self):
        self.apply()
        for where, _, names in os.walk(self.tree):
            for name in names:
                os.utime(os.path.join(where, name), (1000, 1000))
        write_files(self.ours, {"src/uct/rocm/new.c": "int changed;\n"})
        self.apply()
        newer = [name for name in list(MADE_UP_UCX) + ["src/uct/rocm/new.c"]
                 if os.stat(os.path.join(self.tree, name)).st_mtime > 1000]
        self.assertEqual(newer, ["src/uct/rocm/new.c"])

    def test_taken_from_the_overlay_upstream_comes_back(self):
        self.apply()
        os.unlink(os.path.join(self.ours, "src/uct/rocm/new.c"))
        os.unlink(os.path.join(self.ours, "src/uct/rocm/b.c"))
        self.apply()
        self.assertIsNone(self.in_tree("src/uct/rocm/new.c"))
        self.assertEqual(self.in_tree("src/uct/rocm/b.c"), "int b;\n")

    def test_what_editors_leave_is_not_applied(self):
        write_files(self.ours, {"src/uct/rocm/new.c~": "x", "src/.x.c.swp": "x"})
        self.apply()
        self.assertIsNone(self.in_tree("src/uct/rocm/new.c~"))

    def test_mode_of_a_file_stays(self):
        os.chmod(os.path.join(self.tree, "src/uct/rocm/b.c"), 0o640)
        self.apply()
        mode = os.stat(os.path.join(self.tree, "src/uct/rocm/b.c")).st_mode
        self.assertEqual(mode & 0o777, 0o640)


class appended_lines(overlay_test):
    """Makefile.am.add"""

    NAME = "src/uct/rocm/Makefile.am"

    def test_come_after_upstreams(self):
        self.apply()
        text = self.in_tree(self.NAME)
        self.assertTrue(text.startswith(MADE_UP_UCX[self.NAME]))
        self.assertEqual(text.count("x_SOURCES += new.c\n"), 1)

    def test_are_replaced_when_they_change(self):
        self.apply()
        write_files(self.ours, {self.NAME + ".add": "x_SOURCES += other.c\n"})
        self.apply()
        self.assertNotIn("new.c", self.in_tree(self.NAME))
        self.assertEqual(self.in_tree(self.NAME).count("other.c"), 1)

    def test_are_appended_once_to_a_tree_that_has_them_from_a_patch(self):
        self.apply()
        patched = self.in_tree(self.NAME)
        subprocess.run(["rm", "-r", os.path.join(self.tree, ".overlay")],
                       check=True)
        self.apply()
        self.assertEqual(self.in_tree(self.NAME), patched)

    def test_go_away_with_the_file(self):
        self.apply()
        os.unlink(os.path.join(self.ours, self.NAME + ".add"))
        self.apply()
        self.assertEqual(self.in_tree(self.NAME), MADE_UP_UCX[self.NAME])

    def test_come_without_the_comment_at_their_head(self):
        write_files(self.ours, {self.NAME + ".add":
                                "#\n# SPDX: x\n#\n\n# y\nx_SOURCES += new.c\n"})
        self.apply()
        self.assertTrue(self.in_tree(self.NAME).endswith(
            "endif\n\n# y\nx_SOURCES += new.c\n"))

    def test_without_a_line_end_get_one(self):
        write_files(self.ours, {self.NAME + ".add": "x_SOURCES += new.c"})
        self.apply()
        self.assertTrue(self.in_tree(self.NAME).endswith(
            "endif\n\nx_SOURCES += new.c\n"))


class semantic_patches(overlay_test):
    """X.cocci"""

    def setUp(self):
        super().setUp()
        if subprocess.run(["which", "spatch"], stdout=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("spatch (package coccinelle) is not installed")
        write_files(self.ours, {"src/uct/rocm/a.cocci": RENAME})

    def test_change_the_source_and_leave_the_rest(self):
        self.apply()
        self.assertEqual(self.in_tree("src/uct/rocm/a.c"),
                         MADE_UP_UCX["src/uct/rocm/a.c"].replace("old_name",
                                                                 "new_name"))
        self.assertEqual(self.in_tree("src/uct/rocm/a.h"),
                         MADE_UP_UCX["src/uct/rocm/a.h"])

    def test_applying_twice_changes_nothing(self):
        self.apply()
        before = snapshot(self.tree)
        self.assertEqual(self.apply(), "nothing to do\n")
        self.assertEqual(before, snapshot(self.tree))

    def test_that_match_nothing_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/a.cocci":
                                RENAME.replace("old_name", "no_such_name")})
        self.refuse("src/uct/rocm/a.cocci", "matches nothing", "a.c")

    def test_of_which_one_rule_finds_nothing_are_refused_by_its_name(self):
        for rule in ("@ lost @\n@@\n-no_such_name\n+ other_name\n",
                     "@ lost @\n@@\n-int no_such_function(...) { ... }\n",
                     "@ lost @\nexpression x;\n@@\n-no_such_name(x)\n"
                     "+new_name(x)\n"):
            write_files(self.ours, {"src/uct/rocm/a.cocci":
                                    RENAME + "\n" + rule})
            self.refuse("src/uct/rocm/a.cocci", "matches nothing", "a.c", "lost")

    def test_rules_may_find_their_places_in_different_files(self):
        write_files(self.ours, {"src/uct/rocm/a.cocci": RENAME + """
@ prototype @
@@
-int old_name(int x);
+int new_name(int x);
"""})
        self.apply()
        self.assertIn("new_name", self.in_tree("src/uct/rocm/a.c"))
        self.assertIn("new_name", self.in_tree("src/uct/rocm/a.h"))

    def test_rules_that_change_nothing_need_not_match(self):
        write_files(self.ours, {"src/uct/rocm/a.cocci":
                                RENAME + "\n@ context @\n@@\n no_such_name\n"})
        self.apply()

    def test_see_functions_that_begin_with_a_macro_of_ucx(self):
        write_files(self.tree, {"src/uct/rocm/a.c":
                                "static UCS_CLASS_INIT_FUNC(my_class_t, int x)\n"
                                "{\n    if (x) {\n        return old_name(x);\n"
                                "    }\n    return 0;\n}\n"})
        self.apply()
        self.assertIn("new_name(x)", self.in_tree("src/uct/rocm/a.c"))

    def test_leave_lines_as_the_tree_formats_them(self):
        if subprocess.run(["which", "clang-format"], stdout=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("clang-format is not installed")
        write_files(self.tree, {
            ".clang-format": "BasedOnStyle: LLVM\nColumnLimit: 20\n"
                             "UcxsOwnKey: 1\n",
            "src/uct/rocm/a.c": "int a(int first, int second)\n{\n"
                                "  return old_name(x);\n}\n"})
        self.apply()
        self.assertEqual(self.in_tree("src/uct/rocm/a.c"),
                         "int a(int first, int second)\n{\n"
                         "  return new_name(\n      x);\n}\n")
        self.assertEqual(self.apply(), "nothing to do\n")

    def test_that_are_malformed_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/a.cocci": "@@ nonsense\n"})
        self.refuse("src/uct/rocm/a.cocci", "spatch failed")

    def test_for_no_file_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/zz.cocci": RENAME})
        self.refuse("src/uct/rocm/zz.c", "does not exist")

    def test_beside_a_whole_file_of_the_same_name_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/a.c": "int a;\n"})
        self.refuse("src/uct/rocm/a.c", "both")

    def test_without_spatch_are_refused(self):
        before = snapshot(self.tree)
        self.fail_with(["a.cocci", "coccinelle"], "/usr/bin/python3", OVERLAY,
                       "apply", self.ours, self.tree, env={"PATH": self.folder})
        self.assertEqual(before, snapshot(self.tree))


class features(overlay_test):
    """buildlib/features, and '#if UCX_HAS_...' in files of the overlay"""

    FEATURES = """\
# with its reason
UCX_HAS_RENAMED  src/uct/rocm/a.h  int\\sold_name\\(int
UCX_HAS_LATER    src/uct/rocm/a.h  later
UCX_HAS_NO_FILE  src/uct/rocm/no_such_file.h  .
"""

    def setUp(self):
        super().setUp()
        write_files(self.ours, {"buildlib/features": self.FEATURES})

    def resolved(self, text, name="src/uct/rocm/new.c"):
        """What the tree gets for a file of the overlay with this text."""
        write_files(self.ours, {name: text})
        self.apply()
        return self.in_tree(name)

    def test_decide_what_the_tree_gets(self):
        self.assertEqual(self.resolved("""\
int before;

#if UCX_HAS_RENAMED && !UCX_HAS_LATER
int renamed;
#else
int other;
#endif

#if UCX_HAS_NO_FILE
int nothing;
#endif

int after;
"""), "int before;\n\nint renamed;\n\nint after;\n")

    def test_other_conditions_stay(self):
        text = "#ifdef HAVE_CONFIG_H\nint x;\n#endif\n#if A > 1\n#endif\n"
        self.assertEqual(self.resolved(text + "#if UCX_HAS_LATER\n#endif\n"),
                         text)

    def test_are_looked_for_in_code_not_in_comments(self):
        write_files(self.tree, {"src/uct/rocm/a.h":
                                "/* later */\n// later\nint  old_name\n(int x);\n"
                                'char *x = "/*";\n'})
        write_files(self.ours, {"buildlib/features": self.FEATURES.replace(
            "old_name", "old_name\\s")})
        self.assertEqual(self.resolved("#if UCX_HAS_LATER\nint later;\n#endif\n"
                                       "#if UCX_HAS_RENAMED\nint a;\n#endif\n"),
                         "int a;\n")

    def test_of_upstream_are_meant_however_often_it_is_applied(self):
        write_files(self.ours, {"src/uct/rocm/a.h": "int later;\n"})
        text = "int x;\n#if UCX_HAS_LATER\nint later;\n#endif\n"
        self.assertEqual(self.resolved(text), "int x;\n")
        self.assertEqual(self.apply(), "nothing to do\n")

    def test_a_file_of_which_comments_remain_is_left_out(self):
        self.assertIsNone(self.resolved(
            "/* SPDX: x */\n\n// more\n#if UCX_HAS_LATER\nint x;\n#endif\n"))

    def test_a_file_that_is_left_out_leaves_upstreams(self):
        self.assertEqual(
            self.resolved("/* x */\n#if UCX_HAS_LATER\nint x;\n#endif\n",
                          "src/uct/rocm/b.c"),
            MADE_UP_UCX["src/uct/rocm/b.c"])

    def test_lines_that_name_a_file_that_is_left_out_are_left_out(self):
        write_files(self.ours, {
            "src/uct/rocm/late.c": "#if UCX_HAS_LATER\nint x;\n#endif\n",
            "src/uct/rocm/Makefile.am.add":
                "x_SOURCES += new.c\nx_SOURCES += ../rocm/late.c\n"
                "#if UCX_HAS_LATER\ny_SOURCES = new.c\n#endif\n"})
        self.apply()
        text = self.in_tree("src/uct/rocm/Makefile.am")
        self.assertIn("x_SOURCES += new.c\n", text)
        self.assertNotIn("late.c", text)
        self.assertNotIn("y_SOURCES", text)

    def test_choose_rules_of_semantic_patches(self):
        rule = "@ lost @\n@@\n-no_such_name\n+ other_name\n"
        write_files(self.ours, {"src/uct/rocm/a.cocci":
                                f"#if UCX_HAS_LATER\n{rule}#endif\n{RENAME}"})
        self.apply()
        self.assertIn("new_name", self.in_tree("src/uct/rocm/a.c"))

    def test_of_an_unknown_name_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/new.c":
                                "#if UCX_HAS_TYPO\n#endif\n"})
        self.refuse("src/uct/rocm/new.c", "UCX_HAS_TYPO", "buildlib/features")

    def test_that_are_used_for_more_than_a_condition_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/new.c":
                                "int x = UCX_HAS_LATER;\n"})
        self.refuse("src/uct/rocm/new.c", "UCX_HAS_LATER")

    def test_with_conditions_that_do_not_end_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/new.c": "#if UCX_HAS_LATER\n"})
        self.refuse("src/uct/rocm/new.c", "unifdef")

    def test_in_a_malformed_list_are_refused(self):
        write_files(self.ours, {"buildlib/features": "HAS_X file regex\n"})
        self.refuse("buildlib/features", "HAS_X")

    def test_without_unifdef_are_refused(self):
        write_files(self.ours, {"src/uct/rocm/new.c":
                                "#if UCX_HAS_LATER\n#endif\n"})
        before = snapshot(self.tree)
        self.fail_with(["new.c", "Debian package unifdef"], "/usr/bin/python3",
                       OVERLAY, "apply", self.ours, self.tree,
                       env={"PATH": self.folder})
        self.assertEqual(before, snapshot(self.tree))


class misfits(overlay_test):
    """Trees that are refused, and left as they were."""

    def test_no_folder(self):
        self.fail_with([self.path("none"), "no such folder"], OVERLAY, "apply",
                       self.ours, self.path("none"))

    def test_not_ucx(self):
        os.unlink(os.path.join(self.tree, "src/uct/api/uct.h"))
        self.refuse("not a UCX source tree", "src/uct/api/uct.h")

    def test_another_project_with_the_same_files(self):
        write_files(self.tree, {"configure.ac": "AC_INIT([other], [1])\n"})
        self.refuse("not a UCX source tree", "configure.ac")

    def test_no_makefile_to_append_to(self):
        os.unlink(os.path.join(self.tree, "src/uct/rocm/Makefile.am"))
        self.refuse("src/uct/rocm/Makefile.am", "does not exist")

    def test_our_file_changed_by_somebody_else(self):
        self.apply()
        write_files(self.tree, {"src/uct/rocm/new.c": "int theirs;\n"})
        self.refuse("src/uct/rocm/new.c", "changed by somebody else")

    def test_our_file_removed_by_somebody_else(self):
        self.apply()
        os.unlink(os.path.join(self.tree, "src/uct/rocm/new.c"))
        write_files(self.ours, {"src/uct/rocm/new.c": "int added_again;\n"})
        self.apply()
        self.assertEqual(self.in_tree("src/uct/rocm/new.c"),
                         "int added_again;\n")

    def test_identifier_that_is_missing(self):
        write_files(self.ours, {"buildlib/fits":
                                "src/uct/rocm/a.c needed_name # for this\n"})
        self.refuse("src/uct/rocm/a.c", "lacks needed_name", "for this")

    def test_identifier_that_must_not_be_there(self):
        write_files(self.ours, {"buildlib/fits":
                                "src/uct/rocm/a.c !old_name # for that\n"})
        self.refuse("src/uct/rocm/a.c", "has old_name", "for that")

    def test_unknown_kind_of_file(self):
        write_files(self.ours, {"src/uct/rocm/new.txt": "?"})
        self.refuse("src/uct/rocm/new.txt")

    def test_empty_overlay(self):
        os.makedirs(self.path("empty"))
        self.fail_with(["holds no overlay"], OVERLAY, "apply",
                       self.path("empty"), self.tree)


class interruptions(overlay_test):
    """A tree is never left half-applied for good."""

    def finished(self):
        """What the tree must be in the end."""
        self.apply()
        after = snapshot(self.tree)
        self.assertEqual(self.apply(), "nothing to do\n")
        return after

    def expected(self):
        """The result of a run that nothing disturbs."""
        tree = self.path("undisturbed")
        write_files(tree, MADE_UP_UCX)
        self.succeed(OVERLAY, "apply", self.ours, tree)
        return snapshot(tree)

    def test_before_the_plan_leave_the_tree_alone(self):
        before = snapshot(self.tree)
        write_files(self.tree, {".overlay/scratch/src/uct/rocm/new.c": "int ad",
                                ".overlay/plan.json.new": "{"})
        after = snapshot(self.tree)
        self.assertEqual(before, {name: value for name, value in after.items()
                                  if not name.startswith(".overlay")})
        self.assertEqual(self.finished(), self.expected())

    def test_at_any_time_are_completed_by_the_next_run(self):
        # The tool stops itself before its n-th change of a file's name, until
        # there are no more: every point at which it may be killed.
        expected = self.expected()
        points = 0
        while True:
            tree = self.path(f"tree-{points}")
            write_files(tree, MADE_UP_UCX)
            done = self.run_until_rename(points, tree)
            self.succeed(OVERLAY, "apply", self.ours, tree)
            self.assertEqual(snapshot(tree), expected, f"point {points}")
            if done:
                break
            points += 1
        self.assertGreater(points, 4)

    def run_until_rename(self, number, tree):
        """Kill the tool before this rename; true if it came to its end."""
        program = (
            "import os, runpy, signal, sys\n"
            f"left = [{number}]\n"
            "real = os.replace\n"
            "def replace(*arguments):\n"
            "    if left[0] == 0:\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "    left[0] -= 1\n"
            "    real(*arguments)\n"
            "os.replace = replace\n"
            f"sys.argv = ['overlay', 'apply', {self.ours!r}, {tree!r}]\n"
            f"runpy.run_path({OVERLAY!r}, run_name='__main__')\n")
        result = self.run_tool("python3", "-c", program)
        self.assertIn(result.returncode, (0, -signal.SIGKILL), result.stdout)
        return result.returncode == 0

    def test_change_by_somebody_else_meanwhile_is_not_overwritten(self):
        self.assertFalse(self.run_until_rename(2, self.tree))
        plan = json.loads(self.in_tree(".overlay/plan.json"))
        name = plan["moves"][-1]["name"]
        write_files(self.tree, {name: "theirs\n"})
        self.fail_with([name, "changed by somebody else"], OVERLAY, "apply",
                       self.ours, self.tree)
        self.assertEqual(self.in_tree(name), "theirs\n")

    def test_full_disk_leaves_the_tree_alone(self):
        small = self.path("small")
        os.makedirs(small)
        if self.run_tool("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs",
                         small).returncode != 0:
            self.skipTest("may not mount a small file system")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        self.tree = os.path.join(small, "tree")
        write_files(self.tree, MADE_UP_UCX)
        write_files(self.ours, {"src/uct/rocm/big.c": "x" * 1024 * 1024})
        self.refuse("No space left on device")
        os.unlink(os.path.join(self.ours, "src/uct/rocm/big.c"))
        self.assertEqual(self.finished(), self.expected())


class verbs(overlay_test):
    """What one may ask of the tool."""

    def test_check_says_what_apply_does_and_changes_nothing(self):
        before = snapshot(self.tree)
        said = self.succeed(OVERLAY, "check", self.ours, self.tree)
        self.assertEqual(before, snapshot(self.tree))
        self.assertEqual(said, self.apply())
        self.assertEqual(sorted(re.findall(r"\S+$", said, re.MULTILINE)),
                         ["src/uct/rocm/Makefile.am", "src/uct/rocm/b.c",
                          "src/uct/rocm/new.c"])

    def test_dry_run_is_check(self):
        self.assertEqual(
            self.succeed(OVERLAY, "apply", "--dry-run", self.ours, self.tree),
            self.succeed(OVERLAY, "check", self.ours, self.tree))

    def test_list_names_every_file_with_its_kind(self):
        text = self.succeed(OVERLAY, "list", self.ours)
        self.assertIn("whole file       src/uct/rocm/new.c", text)
        self.assertIn("lines to append  src/uct/rocm/Makefile.am.add", text)

    def test_digest_changes_with_content_and_not_with_time(self):
        first = self.succeed(OVERLAY, "digest", self.ours)
        os.utime(os.path.join(self.ours, "src/uct/rocm/new.c"),
                 (time.time() + 9, time.time() + 9))
        self.assertEqual(first, self.succeed(OVERLAY, "digest", self.ours))
        write_files(self.ours, {"src/uct/rocm/new.c": "int other;\n"})
        self.assertNotEqual(first, self.succeed(OVERLAY, "digest", self.ours))

    def test_unknown_verb_fails_with_the_usage(self):
        self.fail_with(["usage:"], OVERLAY, "frobnicate")

    def test_the_projects_own_overlay_has_only_known_files(self):
        self.assertIn("src/uct/rocm/", self.succeed(OVERLAY, "list", TOP))
