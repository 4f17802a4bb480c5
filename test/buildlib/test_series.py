#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The series of patches, on a made-up tree."""

import os
import re
import shutil
import subprocess
import sys

from support import (BUILDLIB, MADE_UP_UCX, TOP, read_file, snapshot, test_case,
                     write_files)

sys.path.insert(0, BUILDLIB)

# pylint: disable=import-error,wrong-import-position
import ucx_format                                                # noqa: E402

MAKE_SERIES = os.path.join(BUILDLIB, "make-series")
MAKE_PATCHES = os.path.join(TOP, "contrib/make-patches.sh")
OVERLAY = os.path.join(BUILDLIB, "overlay")

BODY = "\nWhat?\nThis.\n\nWhy?\nSo.\n\nHow?\nThus.\n\n"

PLAN = f"""\
# Made up
step UCT/ROCM: Add the first file
  src/uct/rocm/new.c
{BODY}
step UCT/ROCM: Replace b
  src/uct/rocm/b.c
{BODY}
step UCT/ROCM: Add a program
  src/uct/rocm/p*.[ch]
{BODY}
"""

LINES = """\
# Above all

if HAVE_ROCM

# Of the library
x_SOURCES += \\
\tnew.c \\
\tp.h

noinst_PROGRAMS += program

EXTRA =

# Of the program
program_SOURCES = p1.c p2.c

# Of nothing
program_LDADD = -lm
endif
"""

# The same again, for a transport that is replaced in parts
REPLACED_UCX = dict(MADE_UP_UCX, **{
    "src/uct/rocm/Makefile.am": """\
if HAVE_ROCM
libuct_rocm_la_CFLAGS = -g
noinst_HEADERS = ipc/md.h
libuct_rocm_la_SOURCES = \\
    a.c \\
    ipc/md.c \\
    ipc/md_more.c
endif
""",
    "src/uct/rocm/ipc/md.c": "#include \"md.h\"\nint md;\n" + "int x;\n" * 20,
    "src/uct/rocm/ipc/md.h": "extern int md;\n",
    "src/uct/rocm/ipc/md_more.c": "int more;\n",
})

REPLACED_PLAN = f"""\
step UCT/ROCM: Set aside
  aside src/uct/rocm/ipc
{BODY}
step UCT/ROCM: Add the header
  src/uct/rocm/ipc/md.h
  src/uct/rocm/ipc/extra.h
{BODY}
step UCT/ROCM: Add the rest
  src/uct/rocm/ipc/*.c
{BODY}
step UCT/ROCM: Switch
  switch src/uct/rocm/ipc
{BODY}
"""

REPLACED_OURS = {
    "src/uct/rocm/Makefile.am.add":
        "if HAVE_ROCM\nnoinst_HEADERS += ipc/extra.h\n"
        "libuct_rocm_la_SOURCES += ipc/extra.c\nendif\n",
    "src/uct/rocm/ipc/md.c": "#include \"md.h\"\nlong md;\n",
    "src/uct/rocm/ipc/md.h": "extern long md;\n",
    "src/uct/rocm/ipc/extra.c": "long extra;\n",
    "src/uct/rocm/ipc/extra.h": "extern long extra;\n",
}


def git(folder, *arguments):
    """What git says, as a person of ours."""
    return subprocess.run(
        ["git", "-c", "user.name=Me", "-c", "user.email=me@localhost", "-C",
         folder, *arguments], check=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True).stdout


class series_test(test_case):
    """A made-up overlay with a plan, and a made-up tree."""

    TREE, OVERLAY, PLAN = MADE_UP_UCX, {
        "src/uct/rocm/new.c": "int added;\n",
        "src/uct/rocm/b.c": "int b_of_ours;\n",
        "src/uct/rocm/p.h": "int p;\n",
        "src/uct/rocm/p1.c": "int p1;\n",
        "src/uct/rocm/p2.c": "int p2;\n",
        "src/uct/rocm/Makefile.am.add": LINES,
    }, PLAN

    def setUp(self):
        super().setUp()
        if shutil.which("git") is None:
            self.skipTest("git is not installed")
        self.ours, self.tree = self.path("ours"), self.path("tree")
        self.out = self.path("out")
        write_files(self.tree, self.TREE)
        write_files(self.ours, {**self.OVERLAY, "buildlib/series": self.PLAN})

    def make(self, *options, env=None):
        """Make the series, which must succeed."""
        return self.succeed(sys.executable, MAKE_SERIES, *options, self.ours,
                            self.tree, self.out, env=env)

    def refuse(self, *texts, options=()):
        """Make the series, which must be refused and change nothing."""
        before = snapshot(self.folder)
        self.fail_with(texts, sys.executable, MAKE_SERIES, *options, self.ours,
                       self.tree, self.out)
        self.assertEqual(before, snapshot(self.folder))

    def patches(self):
        """The paths of the patches."""
        return [os.path.join(self.out, name)
                for name in sorted(os.listdir(self.out))]

    def commit(self, folder):
        """Make a folder a repository with one commit."""
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "upstream")

    def clean(self, name):
        """A repository with the tree in it."""
        folder = self.path(name)
        write_files(folder, self.TREE)
        self.commit(folder)
        return folder

    def tree_after(self, count):
        """A folder with the first patches applied."""
        folder = self.clean(f"after-{count}")
        git(folder, "am", "-q", *self.patches()[:count])
        return folder

    def assert_series_is_apply(self):
        """All patches together give what the overlay gives."""
        patched = self.tree_after(None)
        applied = self.path("applied")
        write_files(applied, self.TREE)
        self.succeed(sys.executable, OVERLAY, "apply", self.ours, applied)
        for folder, own in ((patched, ".git"), (applied, ".overlay")):
            shutil.rmtree(os.path.join(folder, own))
        self.assertEqual(snapshot(patched), snapshot(applied))


class series(series_test):
    """What git am makes of it."""

    def test_gives_the_tree_that_the_overlay_gives(self):
        said = self.make()
        self.assertIn("3 patches in " + self.out, said)
        self.assert_series_is_apply()

    def test_is_a_commit_for_each_step_with_its_text(self):
        self.make()
        folder = self.tree_after(None)
        self.assertEqual(
            git(folder, "log", "--reverse", "--format=%s").splitlines()[1:],
            re.findall(r"^step (.*)", PLAN, re.MULTILINE))
        self.assertEqual(git(folder, "log", "-1", "--format=%b").strip(),
                         BODY.strip())

    def test_tree_is_not_changed(self):
        before = snapshot(self.tree)
        self.make()
        self.assertEqual(before, snapshot(self.tree))

    def test_is_the_same_again(self):
        self.make()
        before = snapshot(self.out)
        self.make()
        self.assertEqual(before, snapshot(self.out))

    def test_lines_of_a_makefile_come_with_their_files(self):
        self.make()
        added = len(MADE_UP_UCX["src/uct/rocm/Makefile.am"]) + 1
        texts = [read_file(self.tree_after(count), "src/uct/rocm/Makefile.am")
                 [added:] for count in (1, 2, 3)]
        self.assertEqual(texts[0], "if HAVE_ROCM\n\n"
                                   "# Of the library\nx_SOURCES += \\\n\tnew.c\n"
                                   "\nEXTRA =\nendif\n")
        self.assertEqual(texts[1], texts[0])
        self.assertEqual(texts[2], LINES.partition("\n\n")[2])

    def test_step_without_a_change_is_left_out(self):
        write_files(self.ours, {"src/uct/rocm/b.c":
                                MADE_UP_UCX["src/uct/rocm/b.c"]})
        self.assertIn("2 patches", self.make())
        self.assert_series_is_apply()

    def test_branches_for_other_trees_are_left_out(self):
        if shutil.which("unifdef") is None:
            self.skipTest("unifdef is not installed")
        write_files(self.ours, {
            "buildlib/features": "UCX_HAS_X src/uct/rocm/a.c no_such_name\n",
            "src/uct/rocm/b.c": "#if UCX_HAS_X\nint new_ucx;\n#endif\n"})
        self.assertIn("2 patches", self.make())
        self.assert_series_is_apply()

    def test_semantic_patches_are_in_it(self):
        if shutil.which("spatch") is None:
            self.skipTest("spatch (package coccinelle) is not installed")
        write_files(self.ours, {
            "src/uct/rocm/a.cocci":
                "@@\nexpression x;\n@@\n-old_name(x)\n+new_name(x)\n",
            "buildlib/series": PLAN.replace("new.c", "new.c\n  src/*.cocci")})
        self.make()
        self.assertIn("new_name", read_file(self.tree_after(1),
                                            "src/uct/rocm/a.c"))
        self.assert_series_is_apply()

    def test_of_a_tree_that_has_the_overlay_is_the_same(self):
        self.make()
        before = snapshot(self.out)
        self.succeed(sys.executable, OVERLAY, "apply", self.ours, self.tree)
        self.make()
        self.assertEqual(before, snapshot(self.out))

    def test_of_a_checkout_is_for_its_last_commit(self):
        self.commit(self.tree)
        write_files(self.tree, {"untracked": "x"})
        self.make()
        self.assert_series_is_apply()
        write_files(self.tree, {"src/uct/rocm/b.c": "int theirs;\n"})
        self.refuse("src/uct/rocm/b.c", "last commit")

    def test_is_signed_by_whom_git_knows(self):
        nobody = {"HOME": self.folder, "GIT_CONFIG_NOSYSTEM": "1"}
        self.make(env=nobody)
        self.assertIn("From: UCX overlay <", read_file(self.out,
                      os.path.basename(self.patches()[0])))
        self.commit(self.tree)
        git(self.tree, "config", "user.name", "Some One")
        git(self.tree, "config", "user.email", "some@one.example")
        self.make(env=nobody)
        self.assertIn("From: Some One <some@one.example>", read_file(
            self.out, os.path.basename(self.patches()[0])))


class parts(series_test):
    """Files that are replaced in parts."""

    TREE, OVERLAY, PLAN = REPLACED_UCX, REPLACED_OURS, REPLACED_PLAN

    def setUp(self):
        super().setUp()
        self.make()

    def listing(self, count):
        """The files of the folder after a number of steps."""
        folder = os.path.join(self.tree_after(count), "src/uct/rocm/ipc")
        return sorted(os.path.relpath(os.path.join(where, name), folder)
                      for where, _, names in os.walk(folder) for name in names)

    def makefile(self, count):
        """The Makefile.am after a number of steps, as words."""
        return read_file(self.path(f"after-{count}"),
                         "src/uct/rocm/Makefile.am").split()

    def test_upstreams_are_linked_until_ours_are_complete(self):
        self.assertEqual(self.listing(1), ["md_more.c", "old/md.c", "old/md.h"])
        self.assertIn("ipc/old/md.c", self.makefile(1))
        self.assertIn("ipc/md_more.c", self.makefile(1))
        self.assertNotIn("ipc/md.c", self.makefile(1))
        self.assertEqual(self.listing(2), ["extra.h", "md.h", "md_more.c",
                                           "old/md.c", "old/md.h"])
        self.assertNotIn("noinst_LTLIBRARIES", self.makefile(2))

    def test_ours_are_compiled_meanwhile(self):
        self.listing(3)
        words = self.makefile(3)
        self.assertIn("ipc/old/md.c", words)
        self.assertEqual(words[words.index("libuct_rocm_new_la_SOURCES"):],
                         ["libuct_rocm_new_la_SOURCES", "=", "\\",
                          "ipc/extra.c", "\\", "ipc/md.c", "endif"] +
                         "if HAVE_ROCM noinst_HEADERS += ipc/extra.h "
                         "endif".split())

    def test_upstreams_are_gone_in_the_end(self):
        self.assertEqual(self.listing(4), ["extra.c", "extra.h", "md.c", "md.h",
                                           "md_more.c"])
        self.assert_series_is_apply()

    def test_setting_aside_adds_no_code(self):
        with open(self.patches()[0], encoding="utf-8") as patch:
            self.assertIn("rename from src/uct/rocm/ipc/md.c\n", patch.read())

    def test_without_a_step_that_switches_is_an_error(self):
        write_files(self.ours, {"buildlib/series": REPLACED_PLAN.replace(
            "  switch src/uct/rocm/ipc\n", "")})
        self.refuse("Set aside", "switch src/uct/rocm/ipc")


class plans(series_test):
    """What a plan must be."""

    def plan(self, old, new):
        """Change the plan."""
        self.assertIn(old, PLAN)
        write_files(self.ours, {"buildlib/series": PLAN.replace(old, new, 1)})

    def test_file_in_no_step(self):
        write_files(self.ours, {"src/uct/rocm/forgotten.c": "int x;\n"})
        self.refuse("in no step", "src/uct/rocm/forgotten.c")

    def test_file_in_two_steps(self):
        self.plan("p*.[ch]", "*.[ch]")
        self.refuse("in two steps", "src/uct/rocm/b.c", "Replace b",
                    "Add a program")

    def test_pattern_without_a_file(self):
        self.plan("src/uct/rocm/new.c", "src/uct/rocm/new.c\n  src/lost.c")
        self.refuse("src/lost.c", "Add the first file")

    def test_titles_are_as_ucx_checks_them(self):
        for title in ("Uct/rocm: Add", "UCT/ROCM Add", "UCT/ROCM: ", "add",
                      "UCT: " + "x" * 80):
            self.plan("UCT/ROCM: Replace b", title)
            self.refuse("title", title.strip())

    def test_text_has_its_parts(self):
        for part in ("What?", "Why?", "How?"):
            self.plan(part, "This?")
            self.refuse(f"no '{part}'", "Add the first file")

    def test_text_is_narrow(self):
        self.plan("This.", "wide " * 20)
        self.refuse("longer than", "wide wide")

    def test_plan_depends_on_what_the_tree_has(self):
        write_files(self.ours, {
            "buildlib/features": "UCX_HAS_B src/uct/rocm/b.c int\\sb;\n",
            "buildlib/series": PLAN.replace(
                "step UCT/ROCM: Replace b\n",
                "#if UCX_HAS_B\nstep UCT/ROCM: Replace b\n"
                "#else\nstep UCT/ROCM: Add b\n#endif\n")})
        self.assertIn("UCT/ROCM: Replace b", self.make())
        write_files(self.tree, {"src/uct/rocm/b.c": "long b;\n"})
        self.assertIn("UCT/ROCM: Add b", self.make())

    def test_plan_that_asks_for_what_is_not_known(self):
        self.plan("step UCT/ROCM: Replace b\n",
                  "#if UCX_HAS_C\n#endif\nstep UCT/ROCM: Replace b\n")
        self.refuse("buildlib/series: UCX_HAS_C", "buildlib/features")

    def test_plan_with_nothing_for_the_tree(self):
        write_files(self.ours, {
            "buildlib/features": "UCX_HAS_C src/uct/rocm/b.c long\n",
            "buildlib/series": "#if UCX_HAS_C\n" + PLAN + "#endif\n"})
        self.refuse("in no step", "src/uct/rocm/b.c")

    def test_the_projects_own_covers_its_files(self):
        # Of a tree that has nothing of what differs, and of one that has it all
        program = (
            "import os, runpy, types\n"
            f"tool = runpy.run_path({MAKE_SERIES!r})\n"
            f"plan = os.path.join({TOP!r}, 'buildlib/series')\n"
            "overlay = tool['overlay_tool']\n"
            f"names = [name for name in overlay.overlay_files({TOP!r})\n"
            "         if not name.endswith(overlay.ADDITION)]\n"
            "for has in False, True:\n"
            "    overlay.tree_features.features = lambda listing, upstream: {\n"
            "        probe[0]: has for probe in\n"
            "        overlay.tree_features.probes(listing)}\n"
            "    tree = types.SimpleNamespace(upstream=None)\n"
            f"    steps = tool['read_plan']({TOP!r}, tree)\n"
            "    print(len(tool['owners'](plan, steps, names)))\n")
        said = self.succeed(sys.executable, "-c", program,
                            env={"PYTHONPATH": BUILDLIB})
        for count in said.split():
            self.assertGreater(int(count), 50)


class notes(series_test):
    """What reviewers would not like."""

    def large(self, reason=""):
        """A step with too many lines."""
        write_files(self.ours, {
            "src/uct/rocm/new.c": "int added;\n" * 501,
            "buildlib/series": PLAN.replace("new.c", "new.c" + reason)})

    def test_large_steps(self):
        self.large()
        said = self.make()
        self.assertRegex(said, r"   1 +\d+ lines  UCT/ROCM: Add the first file")
        self.assertRegex(said, r"note: 'UCT/ROCM: Add the first file' adds 5\d\d "
                               "lines")

    def test_large_steps_with_a_reason(self):
        self.large("\n  large it is one table")
        said = self.make()
        self.assertIn("large: it is one table", said)
        self.assertNotRegex(said, "note: .* adds")

    def test_blanks_at_ends_of_lines(self):
        write_files(self.ours, {"src/uct/rocm/new.c": "int added; \n"})
        self.assertIn("trailing whitespace", self.make())

    def test_format(self):
        write_files(self.tree, {".clang-format": "BasedOnStyle: LLVM\n"
                                                 "NoSuchKey: 1\n"})
        if shutil.which("clang-format") is None:
            self.assertIn("not installed", self.make())
            return
        self.assertNotIn("note:", self.make())
        write_files(self.ours, {"src/uct/rocm/new.c": "int  added;\n"})
        self.assertIn("note: src/uct/rocm/new.c: not as .clang-format wants it: "
                      "line 1", self.make())

    def test_are_errors_if_wanted(self):
        write_files(self.ours, {"src/uct/rocm/new.c": "int added; \n"})
        self.refuse("trailing whitespace", options=["--strict"])


class misfits(series_test):
    """What is refused, with nothing written."""

    def test_trees_that_are_too_old_or_too_new(self):
        for rule, text in (("src/uct/rocm/a.c needed # an old UCX lacks it",
                            "lacks needed: an old UCX lacks it"),
                           ("src/uct/rocm/a.c !old_name # it is too new",
                            "has old_name: it is too new")):
            write_files(self.ours, {"buildlib/fits": rule + "\n"})
            self.refuse(text)

    def test_what_is_no_ucx(self):
        os.unlink(os.path.join(self.tree, "configure.ac"))
        self.refuse("not a UCX source tree")

    def test_folders_with_something_else(self):
        for name in ("notes.txt", "0001-x.patch"):
            write_files(self.out, {name: "x"})
            self.refuse(self.out, name)
            os.unlink(os.path.join(self.out, name))

    def test_folders_in_the_tree(self):
        self.out = os.path.join(self.tree, "out")
        self.refuse("in the tree")

    def test_earlier_series_is_replaced(self):
        self.make()
        first = self.patches()
        write_files(self.ours, {"src/uct/rocm/b.c":
                                MADE_UP_UCX["src/uct/rocm/b.c"]})
        self.make()
        self.assertEqual(len(self.patches()), len(first) - 1)

    def test_earlier_series_stays_if_there_is_none_now(self):
        self.make()
        write_files(self.ours, {"src/uct/rocm/forgotten.c": "int x;\n"})
        self.refuse("forgotten.c")


class command(test_case):
    """contrib/make-patches.sh"""

    def test_help(self):
        self.assertIn("git am", self.succeed(MAKE_PATCHES, "--help"))

    def test_bad_input(self):
        for texts, arguments in (
                (["no DIR", "usage:"], []),
                (["--frobnicate", "usage:"], ["--frobnicate"]),
                (["/no/such/folder"], ["/no/such/folder"]),
                (["-o takes"], [self.folder, "-o"]),
                (["one tree"], [self.folder, self.folder])):
            self.fail_with(texts, MAKE_PATCHES, *arguments)


class formatting(test_case):
    """ucx_format.py"""

    STYLE = ("BasedOnStyle: LLVM\nIndentWidth: 4\nNoSuchKey: 1\n"
             "AlignConsecutiveAssignments: NoSuchValue\n")

    def setUp(self):
        super().setUp()
        if shutil.which("clang-format") is None:
            self.skipTest("clang-format is not installed")
        self.style = ucx_format.formatter(self.STYLE)
        self.addCleanup(self.style.folder.cleanup)

    def test_keys_that_are_not_known_are_left_out(self):
        self.assertEqual(self.style.formatted("x.c", "int  x;\n"), "int x;\n")

    def test_only_changed_lines_are_formatted(self):
        before = "int  a;\nint  b;\n"
        after = "int  a;\nint  c;\nint  b;\n"
        self.assertEqual(self.style.format_changes("x.c", before, after),
                         "int  a;\nint c;\nint  b;\n")
        self.assertEqual(self.style.unclean("x.c", before, after),
                         [(2, "int  c;")])

    def test_what_is_clean_stays(self):
        text = "int f(int x)\n{\n}\n"
        text = self.style.formatted("x.c", text)
        self.assertEqual(self.style.unclean("x.c", "", text), [])

    def test_what_ucxs_own_keys_decide_stays(self):
        for text in ("typedef struct x {\n    int      a; /* one */\n"
                     "    unsigned *bc;\n} x_t;\n",
                     "enum {\n    A   = 1,  /* one */\n    BCD = 2\n};\n",
                     "static x_t x = {\n    .a = 1,\n    .b = {2,   3}\n};\n",
                     "static struct {\n    int  a; /* one */\n    int b;\n} x = {\n"
                     "    .a  = 1\n};\n",
                     "#define A(_x) \\\n    f( _x)\n"):
            self.assertEqual(self.style.unclean("x.c", "", text), [], text)

    def test_blanks_of_which_versions_disagree_stay(self):
        for text in ("int x = sizeof(void*);\n", "int x   = 1;\n",
                     "#  include \"x.h\"\n", 'char *s = "0x%"PRIx64" is";\n'):
            self.assertEqual(self.style.unclean("x.c", "", text), [], text)
        self.assertEqual(self.style.formatted("x.c", "int x  = 1;int  y;\n"),
                         "int x = 1;\nint y;\n")

    def test_methods_in_a_class_are_formatted(self):
        text = "class x {\n    int  a;\n    int f()  { return  a; }\n};\n"
        self.assertEqual([number for number, _ in
                          self.style.unclean("x.cc", "", text)], [3])

    def test_other_files_are_left_alone(self):
        self.assertEqual(self.style.formatted("Makefile.am", "x  = y\n"),
                         "x  = y\n")

    def test_check_and_fix(self):
        tool = os.path.join(BUILDLIB, "ucx_format.py")
        write_files(self.folder, {".clang-format": self.STYLE,
                                  "x.c": "int  x;\n"})
        self.fail_with(["x.c:1: int  x;"], sys.executable, tool, "check", ".",
                       "x.c")
        self.succeed(sys.executable, tool, "fix", ".", "x.c")
        self.assertEqual(read_file(self.folder, "x.c"), "int x;\n")
        self.succeed(sys.executable, tool, "check", ".", "x.c")
