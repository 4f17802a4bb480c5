#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""How configure and the commands of contrib/ look for CUDA, with made-up
toolkits."""

import os
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

from support import BUILDLIB, TOP, read_file, test_case, write_files

# Only what is tried, so that it runs in no time; automake is not asked
CONFIGURE_AC = """\
AC_INIT([made-up], [0])
m4_define([AM_CONDITIONAL], [AS_IF([$2], [$1=yes], [$1=no]) AC_SUBST([$1])])
m4_include([cuda_dir.m4])
OVERLAY_CUDA
AC_CONFIG_FILES([found])
AC_OUTPUT
"""

NAMES = ("CUDA_DIR", "CUDA_REASON", "CUDA_LIBDIR", "CUDA_CPPFLAGS",
         "CUDART_MAJOR", "NVML_INCLUDEDIR", "NVML_LIBDIR", "HAVE_CUDA")

# For what setup.sh finds. configure is tried with other folders than the system's
SYSTEM_HAS_NVML = os.path.exists("/usr/include/nvml.h")


class toolkit_test(test_case):
    """A toolkit and an NVML, made up."""

    def setUp(self):
        super().setUp()
        self.toolkit, self.nvml = self.path("toolkit"), self.path("of/nvml")
        write_files(self.toolkit, {"include/cuda.h": "",
                                   "include/cuda_runtime.h": ""})
        write_files(self.nvml, {"include/nvml.h": "",
                                "lib/libnvidia-ml.so": ""})
        os.makedirs(os.path.join(self.toolkit, "lib64"))
        self.library("lib64/libcudart.so", "libcudart.so.14")

    def library(self, name, soname):
        """A library of the toolkit."""
        self.succeed("gcc", "-shared", "-o", os.path.join(self.toolkit, name),
                     f"-Wl,-soname,{soname}", "-x", "c", "/dev/null")

    def add_nvml(self, folder):
        """A header where it may be found."""
        write_files(folder, {"include/nvml.h": ""})


@unittest.skipIf(shutil.which("autoconf") is None, "no autoconf here")
class configuring(toolkit_test):
    """config/m4/cuda_dir.m4"""

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix="buildlib-test-")
        cls.addClassCleanup(shutil.rmtree, cls.made)
        write_files(cls.made, {
            "configure.ac": CONFIGURE_AC,
            "found.in": "".join(f"{name}=@{name}@\n" for name in NAMES)})
        macros = read_file(TOP, "config/m4/cuda_dir.m4")
        for folder in ("/usr/local/cuda", "/usr/include/nvml.h"):
            macros = macros.replace(folder, cls.made + folder)
        write_files(cls.made, {"cuda_dir.m4": macros})
        subprocess.run(["autoconf"], cwd=cls.made, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def command(self, *arguments):
        """Its command."""
        return [os.path.join(self.made, "configure"), "CC=gcc", *arguments]

    def found(self, *arguments):
        """{variable: value} that configure finds, and what it says."""
        said = self.succeed(*self.command(*arguments))
        with open(self.path("found"), encoding="utf-8") as found:
            return dict(line.rstrip("\n").split("=", 1) for line in found), said

    def refuse(self, texts, *arguments):
        """Configure, which must fail."""
        self.fail_with(texts, *self.command(*arguments))

    def with_cuda(self, *arguments):
        """With the made-up toolkit."""
        return ["--with-cuda=" + self.toolkit, *arguments]

    def test_a_toolkit_that_has_all(self):
        self.add_nvml(self.toolkit)
        found, _ = self.found(*self.with_cuda())
        self.assertEqual(found["CUDA_DIR"], self.toolkit)
        self.assertEqual(found["CUDA_LIBDIR"], self.toolkit + "/lib64")
        self.assertEqual(found["CUDART_MAJOR"], "14")
        self.assertEqual(found["NVML_INCLUDEDIR"], "")
        self.assertEqual(found["HAVE_CUDA"], "yes")
        self.assertEqual(found["CUDA_CPPFLAGS"],
                         f"-isystem {self.toolkit}/include")

    def test_nvml_that_was_given(self):
        found, _ = self.found(*self.with_cuda("--with-nvml=" + self.nvml))
        self.assertEqual(found["CUDA_DIR"], self.toolkit)
        self.assertEqual(found["NVML_INCLUDEDIR"], self.nvml + "/include")
        self.assertEqual(found["NVML_LIBDIR"], self.nvml + "/lib")
        self.assertIn(f"-isystem {self.nvml}/include", found["CUDA_CPPFLAGS"])

    def test_nvml_that_was_fetched(self):
        self.add_nvml(self.path("nvml"))
        found, _ = self.found(*self.with_cuda())
        self.assertEqual(found["NVML_INCLUDEDIR"],
                         os.path.realpath(self.path("nvml/include")))

    def test_nvml_of_the_system(self):
        self.add_nvml(os.path.join(self.made, "usr"))
        self.addCleanup(shutil.rmtree, os.path.join(self.made, "usr"))
        found, _ = self.found(*self.with_cuda())
        self.assertEqual(found["CUDA_DIR"], self.toolkit)
        self.assertEqual(found["NVML_INCLUDEDIR"], "")

    def test_the_toolkits_nvml_goes_before_a_fetched_one(self):
        self.add_nvml(self.path("nvml"))
        self.add_nvml(self.toolkit)
        found, _ = self.found(*self.with_cuda())
        self.assertEqual(found["NVML_INCLUDEDIR"], "")

    def test_no_nvml_for_a_named_toolkit(self):
        self.refuse(["no nvml.h", self.toolkit, "--with-nvml=DIR",
                     "buildlib/nvml-fetch"], *self.with_cuda())

    def test_no_nvml_for_a_toolkit_in_the_path(self):
        write_files(self.toolkit, {"bin/nvcc": ""})
        os.chmod(os.path.join(self.toolkit, "bin/nvcc"), 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.toolkit}/bin:" +
                                      os.environ["PATH"]):
            found, said = self.found()
        self.assertIn("the CUDA part is left out: no nvml.h", said)
        self.assertEqual(found["HAVE_CUDA"], "no")
        self.assertIn("no nvml.h", found["CUDA_REASON"])

    def test_nvml_that_is_not_where_it_is_said_to_be(self):
        for name in ("include/nvml.h", "lib/libnvidia-ml.so"):
            os.rename(os.path.join(self.nvml, name), self.path("away"))
            self.refuse(["--with-nvml=" + self.nvml, "libnvidia-ml.so"],
                        *self.with_cuda("--with-nvml=" + self.nvml))
            os.rename(self.path("away"), os.path.join(self.nvml, name))

    def test_folders_that_are_no_absolute_paths(self):
        self.refuse(["--with-cuda=toolkit", "absolute"], "--with-cuda=toolkit")
        self.refuse(["--with-nvml=nvml", "absolute"],
                    *self.with_cuda("--with-nvml=nvml"))
        self.refuse(["--with-nvml", "folder"], *self.with_cuda("--without-nvml"))

    def test_no_toolkit_where_it_is_said_to_be(self):
        for name in ("include/cuda.h", "include/cuda_runtime.h"):
            os.rename(os.path.join(self.toolkit, name), self.path("away"))
            self.refuse(["--with-cuda=" + self.toolkit, "no cuda.h"],
                        *self.with_cuda("--with-nvml=" + self.nvml))
            os.rename(self.path("away"), os.path.join(self.toolkit, name))

    def test_a_toolkit_without_its_runtime(self):
        os.unlink(os.path.join(self.toolkit, "lib64/libcudart.so"))
        self.refuse(["no libcudart.so", self.toolkit], *self.with_cuda())

    def test_without_cuda(self):
        found, said = self.found("--without-cuda")
        self.assertEqual(found["CUDA_DIR"], "")
        self.assertEqual(found["HAVE_CUDA"], "no")
        self.assertIn("--without-cuda", found["CUDA_REASON"])
        self.assertNotIn("left out", said)


class commands(toolkit_test):
    """buildlib/setup.sh, before it configures"""

    def setup_script(self, command, *arguments):
        """A script that asks setup.sh something."""
        return ["bash", "-c",
                "set -euo pipefail\n"
                f"top={TOP}\n. {BUILDLIB}/setup.sh\n"
                f"build={self.path('build')} log_dir={self.path('logs')}\n"
                "while [ \"${1-}\" != -- ]; do setup_option \"$1\"; shift; done\n"
                f"{command}\n", "-", *arguments, "--"]

    def needs(self, *arguments):
        """Whether NVML would be fetched."""
        return self.succeed(*self.setup_script(
            "if needs_nvml; then echo yes; else echo no; fi",
            *arguments)).strip()

    def test_nothing_is_fetched_for_a_toolkit_that_has_all(self):
        self.add_nvml(self.toolkit)
        self.assertEqual(self.needs("--with-cuda=" + self.toolkit), "no")

    @unittest.skipIf(SYSTEM_HAS_NVML, "the system has nvml.h")
    def test_nvml_is_fetched_once(self):
        self.assertEqual(self.needs("--with-cuda=" + self.toolkit), "yes")
        self.add_nvml(self.path("build/nvml"))
        self.assertEqual(self.needs("--with-cuda=" + self.toolkit), "no")

    def test_nothing_is_fetched_if_nobody_asked_for_it(self):
        for arguments in (["--without-cuda"],
                          ["--with-cuda=" + self.path("nowhere")],
                          ["--with-cuda=" + self.toolkit,
                           "--with-nvml=" + self.nvml],
                          ["--with-cuda=" + self.toolkit, "--with-cuda=no"]):
            self.assertEqual(self.needs(*arguments), "no", arguments)

    def test_the_toolkit_is_the_one_that_was_named_last(self):
        self.assertEqual(self.succeed(*self.setup_script(
            "cuda_toolkit", "--with-cuda=/nowhere",
            "--with-cuda=" + self.toolkit)), self.toolkit + "\n")

    def test_a_failed_fetch_is_no_end(self):
        write_files(self.path("bin"), {"apt-get": "#!/bin/sh\nexit 1\n"})
        os.chmod(self.path("bin/apt-get"), 0o755)
        said = self.succeed(*self.setup_script("fetch_nvml; echo goes on"), env={
            "PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertIn("failed after", said)
        self.assertIn("--with-nvml=DIR", said)
        self.assertIn("goes on", said)
