#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The stages of a UCX build, with a made-up UCX that builds in no time."""

import os
import shutil
import signal
import subprocess
import time
import unittest

from support import (BUILDLIB, MADE_UP_UCX, read_file, snapshot, test_case,
                     write_files)

# The made-up autogen.sh writes the made-up configure, that writes Makefiles in
# which building means copying: one module for each runtime, and unit tests that
# name the runtimes that they were configured for. FAIL_IN and WAIT_IN name what
# shall fail or wait; $TRACE gets a line for all that is done.
CONFIGURE = """\
#!/bin/sh
set -e
from=$(cd "$(dirname "$0")" && pwd)
runtimes= gtest=
for option; do
    case $option in
    --with-rocm=*|--with-cuda=*)
        runtime=${option#--with-}
        runtimes="$runtimes ${runtime%%=*}" ;;
    --enable-gtest) gtest=-gtest ;;
    ac_cv_path_NVCC=) echo without-nvcc >>"$TRACE" ;;
    esac
done
echo "configure$gtest" >>"$TRACE"
[ "$FAIL_IN" != "configure$gtest" ]
cat config.cache 2>/dev/null >>"$TRACE" || true
echo "cache-of-configure$gtest" >config.cache
mkdir -p src/uct modules
touch half
if [ "$WAIT_IN" = "configure$gtest" ]; then
    echo waiting >>"$TRACE"
    sleep 60 || true
fi
touch config.h
all=
for runtime in $runtimes; do
    [ "$runtime" != "$UNUSABLE" ] || continue
    echo "#define HAVE_$(echo $runtime | tr a-z A-Z) 1" >>config.h
    all="$all ../../modules/libuct_$runtime.so.0"
done
cat >src/uct/Makefile <<MAKEFILE
all:$all
../../modules/libuct_%.so.0: $from/src/uct/rocm/b.c
	@echo compile >>"$TRACE"
	@[ "\\$\\$FAIL_IN" != compile ]
	cat $from/src/uct/rocm/*.c >\\$@
install:
	mkdir -p \\$(DESTDIR)/made-up
	cp ../../modules/* \\$(DESTDIR)/made-up
MAKEFILE
mkdir -p cmake
printf 'install:\\n' >cmake/Makefile
printf 'install-am:\\n' >Makefile
[ -n "$gtest" ] || exit 0
mkdir -p test/gtest
cat >test/gtest/Makefile <<MAKEFILE
gtest_OBJECTS = a.o uct/kernel.o b.o common/gtest-c.o uct/rocm/gtest-test_d.o
all: gtest
gtest: $from/src/uct/rocm/b.c ../../src/uct/Makefile
	@echo compile-gtest >>"$TRACE"
	@[ "\\$\\$FAIL_IN" != "compile-gtest$runtimes" ]
	echo 'for$runtimes:' '\\$(CXX)' >\\$@
	echo 'of \\$(gtest_OBJECTS)' >>\\$@
	cat $from/src/uct/rocm/b.c >>\\$@
MAKEFILE
"""

AUTOGEN = """\
#!/bin/sh
set -e
echo autogen >>"$TRACE"
[ "$FAIL_IN" != autogen ]
[ -z "$FILL" ] || head -c "$FILL" /dev/zero >filled
mv made-up-configure configure
chmod +x configure
"""

SETTINGS = """\
srcdir='{project}'
builddir='{build}'
prefix=/usr/local
libdir=/usr/local/lib
ucx_source_given='{source}'
rocm_dir='{rocm}'
cuda_dir='{cuda}'
cuda_libdir=
nvml_includedir='{nvml}'
nvml_libdir='{nvml}'
sanitizer=
CC=gcc
CXX=g++
"""


# What is in the trace when unit tests were configured
CONFIGURED = ["configure-gtest", "cache-of-configure"]


class ucx_build_test(test_case):
    """A made-up project, with the real tools, and a made-up UCX."""

    def setUp(self):
        super().setUp()
        self.project, self.ucx = self.path("project"), self.path("ucx")
        self.build = self.path("build")
        write_files(self.ucx, dict(MADE_UP_UCX, **{
            "autogen.sh": AUTOGEN, "made-up-configure": CONFIGURE,
            "test/gtest/common/c.cc": "made up\n"}))
        os.chmod(os.path.join(self.ucx, "autogen.sh"), 0o755)
        write_files(self.project, {"src/uct/rocm/b.c": "int patched;\n"})
        os.makedirs(os.path.join(self.project, "buildlib"))
        for tool in ("overlay", "ucx-build", "ucx-fetch", "apt-sources"):
            os.symlink(os.path.join(BUILDLIB, tool),
                       os.path.join(self.project, "buildlib", tool))
        write_files(self.project, {"buildlib/gtest_include/cuda.h": "made up\n"})
        self.configure()

    def configure(self, **changed):
        """Write what the project's configure would."""
        values = dict(project=self.project, build=self.build, source=self.ucx,
                      rocm="/usr", cuda="", nvml="")
        values.update(changed)
        write_files(self.folder, {"settings.sh": SETTINGS.format(**values)})

    def command(self, stage, *arguments):
        """The command for a stage."""
        return [os.path.join(BUILDLIB, "ucx-build"), self.path("settings.sh"),
                stage, *arguments]

    def environment(self, **more):
        """The environment of the made-up UCX."""
        return dict({"TRACE": self.path("trace"), "FAIL_IN": "", "WAIT_IN": "",
                     "FILL": "", "UNUSABLE": "", "BUILD_LOCK_HELD": ""},
                    **more)

    def do_stage(self, stage, *arguments, **environment):
        """Do a stage, which must succeed."""
        return self.succeed(*self.command(stage, *arguments),
                            env=self.environment(**environment))

    def fail_stage(self, texts, stage, **environment):
        """Do a stage, which must fail, and say all of the texts."""
        return self.fail_with(texts, *self.command(stage),
                              env=self.environment(**environment))

    def kill_waiting(self, stage, step):
        """Do a stage, and kill it and all that it has started in this step."""
        with subprocess.Popen(self.command(stage), start_new_session=True,
                              stdout=subprocess.DEVNULL,
                              env=dict(os.environ, **self.environment(
                                  WAIT_IN=step))) as process:
            while "waiting" not in (read_file(self.folder, "trace") or ""):
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)

    def trace(self):
        """What was done since the last time that this was asked."""
        done = (read_file(self.folder, "trace") or "").split()
        write_files(self.folder, {"trace": ""})
        return done

    def module(self, folder, runtime="rocm"):
        """A module's content."""
        return read_file(self.build, f"ucx/{folder}/libuct_{runtime}.so.0")

    def gtest(self, runtime):
        """The content of a runtime's unit tests."""
        return read_file(self.build, f"ucx/gtest-{runtime}/test/gtest/gtest")


class stages(ucx_build_test):
    """What is done, and what is not done again."""

    def test_gtest_leaves_out_device_code_of_hip(self):
        self.do_stage("gtest")
        self.assertIn("of a.o uct/kernel.o b.o common/gtest-c.o ",
                      self.gtest("rocm"))
        write_files(self.ucx, {"test/gtest/uct/kernel.hip": "made up\n"})
        self.build = self.path("other")
        self.configure()
        self.do_stage("gtest")
        self.assertIn("of a.o b.o common/gtest-c.o ", self.gtest("rocm"))

    def test_all_in_order(self):
        said = self.do_stage("patched")
        self.assertEqual(self.trace(),
                         ["autogen", "configure", "compile", "compile"])
        self.assertIn("int b;", self.module("stock-modules"))
        self.assertNotIn("patched", self.module("stock-modules"))
        self.assertIn("int patched;", self.module("obj/modules"))
        self.assertRegex(said, r"Configuring UCX \.\.\. \d+ s\n")

    def test_a_second_time_nothing(self):
        self.do_stage("patched")
        self.trace()
        before = snapshot(self.build)
        self.assertEqual(self.do_stage("patched"), "")
        self.assertEqual(before, snapshot(self.build))
        self.assertEqual(self.trace(), [])

    def test_an_edit_applies_and_compiles(self):
        self.do_stage("patched")
        self.trace()
        time.sleep(0.01)
        write_files(self.project, {"src/uct/rocm/b.c": "int edited;\n"})
        self.do_stage("patched")
        self.assertEqual(self.trace(), ["compile"])
        self.assertIn("int edited;", self.module("obj/modules"))
        self.assertIn("int b;", self.module("stock-modules"))

    def test_other_options_start_anew(self):
        self.do_stage("patched")
        self.trace()
        self.configure(rocm="/elsewhere")
        said = self.do_stage("patched")
        self.assertIn("starting anew", said)
        self.assertEqual(self.trace(),
                         ["autogen", "configure", "compile", "compile"])
        self.assertIn("int b;", self.module("stock-modules"))

    def test_install_goes_where_it_is_told(self):
        self.do_stage("install", "DESTDIR=" + self.path("dest"))
        self.assertIn("int patched;", read_file(self.path("dest"),
                                                "made-up/libuct_rocm.so.0"))

    def test_cuda_has_its_module_beside_that_of_rocm(self):
        self.configure(cuda="/toolkit")
        self.do_stage("patched")
        self.assertEqual(self.trace(), ["autogen", "configure"] + 4 * ["compile"])
        for runtime in ("rocm", "cuda"):
            self.assertIn("int b;", self.module("stock-modules", runtime))
            self.assertIn("int patched;", self.module("obj/modules", runtime))

    def test_a_toolkit_that_comes_or_goes_starts_anew(self):
        self.do_stage("patched")
        self.assertIsNone(self.module("stock-modules", "cuda"))
        self.configure(cuda="/toolkit")
        self.assertIn("starting anew", self.do_stage("patched"))
        self.assertIsNotNone(self.module("stock-modules", "cuda"))
        self.configure()
        self.assertIn("starting anew", self.do_stage("patched"))
        self.assertIsNone(self.module("stock-modules", "cuda"))

    def test_nvcc_does_not_compile_what_is_for_hip(self):
        write_files(self.ucx, {"src/uct/rocm/ipc/rocm_ipc.h": "made up\n"})
        self.do_stage("gtest")
        self.assertNotIn("without-nvcc", self.trace())
        self.configure(cuda="/toolkit")
        self.do_stage("configure")
        self.assertEqual(self.trace(), ["autogen", "without-nvcc", "configure"])

    def test_another_nvml_starts_anew(self):
        self.configure(cuda="/toolkit")
        self.do_stage("patched")
        self.configure(cuda="/toolkit", nvml="/elsewhere")
        self.assertIn("starting anew", self.do_stage("patched"))

    def test_users_tree_stays_as_it_was(self):
        before = snapshot(self.ucx)
        self.do_stage("patched")
        self.assertEqual(before, snapshot(self.ucx))

    @unittest.skipIf(shutil.which("git") is None, "git is not installed")
    def test_from_a_checkout_only_sources_are_taken(self):
        write_files(self.ucx, {".gitignore": "*.o\nconfig.status\n",
                               "src/uct/old.o": "built", "config.status": "x"})
        for command in (["init", "-q"], ["add", "."]):
            subprocess.run(["git", "-C", self.ucx] + command, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        self.do_stage("source")
        self.assertIsNone(read_file(self.build, "ucx/source/src/uct/old.o"))
        self.assertIsNone(read_file(self.build, "ucx/source/config.status"))
        self.assertIsNone(read_file(self.build, "ucx/source/.git/HEAD"))
        self.assertIsNotNone(read_file(self.build, "ucx/source/src/uct/rocm/b.c"))


PATCHES = {
    "0001-b.patch": """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
Subject: [PATCH 1/2] UCT: Change b

diff --git a/src/uct/rocm/b.c b/src/uct/rocm/b.c
--- a/src/uct/rocm/b.c
+++ b/src/uct/rocm/b.c
@@ -1 +1 @@
-int b;
+int b_of_first;
""",
    "0002-test.patch": """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
Subject: [PATCH 2/2] GTEST: Test b

diff --git a/test/gtest/b.cc b/test/gtest/b.cc
new file mode 100644
--- /dev/null
+++ b/test/gtest/b.cc
@@ -0,0 +1 @@
+int test_b;
"""}


class series(ucx_build_test):
    """The commits of a series, one by one."""

    BUILD = ["autogen", "configure", "compile"]
    FIRST, SECOND = ["compile"], CONFIGURED + ["compile-gtest"]

    def setUp(self):
        super().setUp()
        if shutil.which("git") is None:
            self.skipTest("git is not installed")
        write_files(self.path("patches"), PATCHES)

    def build_series(self, **environment):
        """Do the stage; returns what it says."""
        return self.do_stage("series", self.path("patches"), **environment)

    def test_each_is_built_and_tests_if_it_has_some(self):
        said = self.build_series()
        self.assertEqual(self.trace(), self.BUILD + self.FIRST + self.SECOND)
        self.assertIn("Building 0001-b ... ", said)
        self.assertIn("b_of_first", read_file(
            self.build, "ucx/obj/modules/libuct_rocm.so.0"))
        self.assertEqual(read_file(self.build, "ucx/source/test/gtest/b.cc"),
                         "int test_b;\n")

    def test_a_second_time_nothing(self):
        self.build_series()
        self.trace()
        self.build_series()
        self.assertEqual(self.trace(), [])

    def test_one_that_does_not_build_is_named_and_built_again(self):
        said = self.fail_with(["0002-test"], *self.command(
            "series", self.path("patches")), env=self.environment(
                FAIL_IN="compile-gtest rocm"))
        self.assertRegex(said, r"Building 0001-b \.\.\. \d+ s\n")
        self.trace()
        self.build_series()
        self.assertEqual(self.trace(), ["compile-gtest"])

    def test_killed_after_a_patch_was_applied_goes_on(self):
        self.do_stage("stock")
        subprocess.run(["git", "apply", self.path("patches/0001-b.patch")],
                       cwd=os.path.join(self.build, "ucx/source"), check=True,
                       env=dict(os.environ, GIT_CEILING_DIRECTORIES=self.folder))
        self.build_series()
        self.assertEqual(self.trace(), self.BUILD + self.FIRST + self.SECOND)

    def test_other_patches_start_anew(self):
        self.build_series()
        self.trace()
        write_files(self.path("patches"), {
            "0002-test.patch": PATCHES["0002-test.patch"].replace("test_b",
                                                                  "test_c")})
        self.assertIn("starting anew", self.build_series())
        self.assertEqual(self.trace(), self.BUILD + self.FIRST + self.SECOND)

    def test_that_does_not_apply_is_an_error(self):
        write_files(self.path("patches"), {
            "0001-b.patch": PATCHES["0001-b.patch"].replace("-int b;",
                                                            "-int other;")})
        self.fail_with(["0001-b", "does not apply"],
                       *self.command("series", self.path("patches")),
                       env=self.environment())


class unit_tests(ucx_build_test):
    """Stage gtest: a build of its own for each runtime."""

    def test_of_rocm_alone(self):
        self.do_stage("gtest")
        self.assertEqual(self.trace()[4:], CONFIGURED + ["compile-gtest"])
        self.assertIn("for rocm:", self.gtest("rocm"))
        self.assertIn("int patched;", self.gtest("rocm"))
        self.assertIsNone(self.gtest("cuda"))

    def test_of_both_are_apart(self):
        self.configure(cuda="/toolkit")
        self.do_stage("gtest")
        self.assertEqual(self.trace()[6:],
                         2 * (CONFIGURED + ["compile-gtest"]))
        for runtime in ("rocm", "cuda"):
            self.assertIn(f"for {runtime}:", self.gtest(runtime))
            self.assertEqual(
                os.path.realpath(os.path.join(
                    self.build, f"ucx/gtest-{runtime}/src")),
                os.path.join(self.build, "ucx/obj/src"))

    def test_ours_alone(self):
        write_files(self.project,
                    {"test/gtest/uct/rocm/test_d.cc": "made up\n"})
        self.do_stage("gtest-ours")
        self.assertRegex(self.gtest("rocm"),
                         r"of common/gtest-c\.o uct/rocm/gtest-test_d\.o *\n")

    def test_ours_alone_are_not_all(self):
        self.do_stage("gtest-ours")
        self.trace()
        self.do_stage("gtest-ours")
        self.assertEqual(self.trace(), [])
        os.unlink(os.path.join(self.build, "ucx/gtest-rocm/test/gtest/gtest"))
        self.do_stage("gtest")
        self.assertEqual(self.trace(), ["compile-gtest"])
        self.assertIn("of a.o ", self.gtest("rocm"))

    def test_all_are_ours_as_well(self):
        self.do_stage("gtest")
        self.trace()
        self.do_stage("gtest-ours")
        self.assertEqual(self.trace(), [])

    def test_configure_finds_what_was_found_before(self):
        self.do_stage("gtest")
        self.assertEqual(self.trace()[4:], ["configure-gtest",
                                            "cache-of-configure",
                                            "compile-gtest"])

    def test_configure_begins_with_what_another_build_has_found(self):
        write_files(self.build, {"ucx/config.cache": "found-elsewhere\n"})
        self.do_stage("stock")
        self.assertEqual(self.trace()[:3],
                         ["autogen", "configure", "found-elsewhere"])

    def test_see_our_cuda_header_first(self):
        self.do_stage("gtest")
        self.assertIn(f"g++ -I{self.project}/buildlib/gtest_include\n",
                      self.gtest("rocm"))

    def test_a_second_time_nothing(self):
        self.configure(cuda="/toolkit")
        self.do_stage("gtest")
        before = snapshot(self.build)
        self.assertEqual(self.do_stage("gtest"), "")
        self.assertEqual(before, snapshot(self.build))

    def test_an_edit_compiles_and_does_not_configure(self):
        self.configure(cuda="/toolkit")
        self.do_stage("gtest")
        self.trace()
        time.sleep(0.01)
        write_files(self.project, {"src/uct/rocm/b.c": "int edited;\n"})
        self.do_stage("gtest")
        self.assertEqual(self.trace(), 2 * ["compile"] + 2 * ["compile-gtest"])
        self.assertIn("int edited;", self.gtest("cuda"))

    def test_another_cuda_header_compiles(self):
        self.do_stage("gtest")
        self.trace()
        write_files(self.project, {"buildlib/gtest_include/cuda.h": "other\n"})
        self.do_stage("gtest")
        self.assertEqual(self.trace(), ["compile-gtest"])

    def test_another_toolkit_starts_them_anew(self):
        self.configure(cuda="/toolkit")
        self.do_stage("gtest")
        self.configure()
        self.assertIn("starting anew", self.do_stage("gtest"))
        self.assertIsNone(self.gtest("cuda"))
        self.assertIn("for rocm:", self.gtest("rocm"))

    def test_one_that_fails_does_not_undo_the_other(self):
        self.configure(cuda="/toolkit")
        for step, log in (("configure-gtest", "ucx-configure-gtest-rocm"),
                          ("compile-gtest rocm", "ucx-gtest-rocm"),
                          ("compile-gtest cuda", "ucx-gtest-cuda")):
            said = self.fail_stage(["failed after"], "gtest", FAIL_IN=step)
            self.assertIn(os.path.join(self.build, "logs", log + ".log"), said)
        self.trace()
        self.do_stage("gtest")
        self.assertEqual(self.trace().count("configure-gtest"), 0)
        for runtime in ("rocm", "cuda"):
            self.assertIn(f"for {runtime}:", self.gtest(runtime))

    def test_killed_half_way_configure_is_done_again(self):
        self.do_stage("patched")
        self.kill_waiting("gtest", "configure-gtest")
        self.assertTrue(os.path.exists(os.path.join(
            self.build, "ucx/gtest-rocm/half")))
        self.do_stage("gtest")
        self.assertIn("for rocm:", self.gtest("rocm"))
        self.assertTrue(os.path.islink(os.path.join(self.build,
                                                    "ucx/gtest-rocm/src")))


class failures(ucx_build_test):
    """What is said, and how it goes on."""

    def test_wrong_source(self):
        for name in ("src/uct/api/uct.h", "configure.ac"):
            os.rename(os.path.join(self.ucx, name), self.path("away"))
            self.fail_stage([self.ucx, "not a UCX source tree", name], "patched")
            os.rename(self.path("away"), os.path.join(self.ucx, name))
        self.assertEqual(self.trace(), [])
        self.assertFalse(os.path.exists(os.path.join(self.build, "ucx/source")))

    def test_no_source(self):
        self.configure(source=self.path("nowhere"))
        self.fail_stage([self.path("nowhere"), "no such folder"], "patched")

    def test_source_that_was_configured_in_place(self):
        write_files(self.ucx, {"config.status": "#!/bin/sh\n"})
        self.fail_stage(["configured in place", "distclean"], "patched")
        self.assertEqual(self.trace(), [])

    def test_no_rocm(self):
        self.fail_stage(["no usable ROCm"], "patched", UNUSABLE="rocm")
        self.do_stage("patched")

    def test_cuda_that_ucx_cannot_use(self):
        self.configure(cuda="/toolkit")
        self.fail_stage(["no usable CUDA", "--without-cuda"], "patched",
                        UNUSABLE="cuda")
        self.do_stage("patched")

    def test_each_step_names_its_log_and_goes_on_later(self):
        for step, log in (("autogen", "ucx-autogen"),
                          ("configure", "ucx-configure"),
                          ("compile", "ucx-stock")):
            said = self.fail_stage(["failed after"], "patched", FAIL_IN=step)
            self.assertIn(os.path.join(self.build, "logs", log + ".log"), said)
        self.do_stage("patched")
        self.assertIn("int b;", self.module("stock-modules"))
        self.assertIn("int patched;", self.module("obj/modules"))

    def test_killed_half_way_is_done_again(self):
        self.kill_waiting("patched", "configure")
        self.assertTrue(os.path.exists(os.path.join(self.build, "ucx/obj/half")))
        self.trace()
        self.do_stage("patched")
        self.assertEqual(self.trace(), ["configure", "compile", "compile"])
        self.assertIn("int b;", self.module("stock-modules"))

    def test_half_unpacked_source_is_unpacked_again(self):
        write_files(self.build, {"ucx/source.new/configure.ac": "AC_INIT([ucx"})
        self.do_stage("patched")
        self.assertIn("int patched;", self.module("obj/modules"))

    def test_part_of_an_object_is_compiled_again(self):
        self.do_stage("stock")
        write_files(self.build, {"ucx/obj/src/uct/.deps/part.Tpo": "",
                                 "ucx/obj/src/uct/part.lo": "part",
                                 "ucx/obj/src/uct/.libs/part.o": "par",
                                 "ucx/obj/src/uct/whole.lo": "whole"})
        self.do_stage("patched")
        self.assertIsNone(read_file(self.build, "ucx/obj/src/uct/part.lo"))
        self.assertIsNone(read_file(self.build, "ucx/obj/src/uct/.libs/part.o"))
        self.assertIsNotNone(read_file(self.build, "ucx/obj/src/uct/whole.lo"))

    def test_two_at_a_time_take_turns(self):
        with subprocess.Popen(self.command("patched"), text=True,
                              stdout=subprocess.PIPE,
                              env=dict(os.environ, **self.environment(
                                  WAIT_IN="configure"))) as first:
            while "waiting" not in (read_file(self.folder, "trace") or ""):
                self.assertIsNone(first.poll())
                time.sleep(0.01)
            with subprocess.Popen(self.command("patched"), text=True,
                                  stdout=subprocess.PIPE,
                                  env=dict(os.environ,
                                           **self.environment())) as second:
                self.assertIn("waiting", second.stdout.readline())
                self.assertIsNone(second.poll())
                self.stop_sleep()
                self.assertEqual(second.wait(timeout=60), 0)
            self.assertEqual(first.wait(timeout=60), 0)
        self.assertEqual(self.trace().count("configure"), 1)

    def stop_sleep(self):
        """Let the first of two go on: its configure waits in a sleep, which is
        found by the file that it has open as its output."""
        log = os.path.join(self.build, "logs/ucx-configure.log")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if (os.readlink(f"/proc/{pid}/fd/1") == log and
                        read_file(f"/proc/{pid}", "comm") == "sleep\n"):
                    os.kill(int(pid), signal.SIGTERM)
            except OSError:
                continue


class full_disks(ucx_build_test):
    """A build folder on a small file system."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.build)
        if self.run_tool("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs",
                         self.build).returncode != 0:
            self.skipTest("may not mount a small file system")
        self.addCleanup(subprocess.run, ["umount", self.build], check=True)

    def pretend_space(self):
        """A df that sees more than there is."""
        write_files(self.path("bin"), {"df": "#!/bin/sh\n"
                                             "echo Avail; echo 9000000\n"})
        os.chmod(self.path("bin/df"), 0o755)
        return {"PATH": self.path("bin") + ":" + os.environ["PATH"]}

    def test_is_found_before_anything_is_done(self):
        self.fail_stage(["MiB of disk space", self.build], "patched")
        self.assertEqual(self.trace(), [])

    def test_on_the_way_is_named_and_cured(self):
        self.fail_stage(["The disk is full"], "patched", FILL="9000000",
                        **self.pretend_space())
        self.do_stage("patched", **self.pretend_space())
        self.assertIn("int patched;", self.module("obj/modules"))
