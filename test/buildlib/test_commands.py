#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The commands of contrib/ and what they share, when something is missing."""

import os
import re
import shutil

from support import BUILDLIB, TOP, test_case, write_files


class missing_packages(test_case):
    """packages.sh, with stand-ins for dpkg and apt."""

    def setUp(self):
        super().setUp()
        write_files(self.folder, {"packages": "# a comment\n"
                                              "alpha  build  why\n"
                                              "beta   build\n"
                                              "gamma  check\n"})
        self.stand_in("dpkg-query", "echo 'ii  alpha'; echo 'rc  beta'; exit 1")
        self.stand_in("apt-get", "echo apt-get \"$@\"")
        self.stand_in("id", "echo 0")

    def stand_in(self, name, script):
        """Put a script in a program's place."""
        write_files(self.path("bin"), {name: f"#!/bin/sh\n{script}\n"})
        os.chmod(self.path("bin", name), 0o755)

    def command(self, *groups):
        """A script that installs what is missing of these groups."""
        return ["bash", "-c",
                "set -euo pipefail\n"
                f"log_dir={self.path('logs')}\n"
                f". {BUILDLIB}/common.sh\n. {BUILDLIB}/packages.sh\n"
                f"install_packages {self.path('packages')} {' '.join(groups)}\n"
                "echo done, $packages_installed\n"]

    def environment(self):
        """With the stand-ins in front."""
        return {"PATH": self.path("bin") + ":" + os.environ["PATH"]}

    def log(self):
        """What apt-get was asked for."""
        with open(self.path("logs/packages.log"), encoding="utf-8") as log:
            return log.read()

    def test_only_what_is_missing_is_installed(self):
        self.succeed(*self.command("build"), env=self.environment())
        self.assertRegex(self.log(), r"install --yes --no-install-recommends"
                                     r".* beta\n")
        self.assertNotIn("alpha", self.log())
        self.assertNotIn("gamma", self.log())

    def test_caller_knows_that_something_was_installed(self):
        self.assertIn("done, yes\n",
                      self.succeed(*self.command("build"),
                                   env=self.environment()))

    def test_groups_add_up(self):
        self.succeed(*self.command("build", "check"), env=self.environment())
        self.assertRegex(self.log(), r" beta gamma\n")

    def test_nothing_missing_asks_nobody(self):
        self.stand_in("dpkg-query", "echo 'ii  alpha'; echo 'ii  beta'")
        self.stand_in("apt-get", "echo must not be called; exit 1")
        self.assertEqual(
            self.succeed(*self.command("build"), env=self.environment()),
            "done, no\n")

    def test_not_root_is_told_what_to_install(self):
        self.stand_in("id", "echo 1000")
        self.fail_with(["beta", "as root", "apt-get install"],
                       *self.command("build"), env=self.environment())

    def test_package_that_cannot_be_had(self):
        self.stand_in("apt-get", "echo 'E: Unable to locate package beta'; "
                                 "[ \"$1\" = update ]")
        said = self.fail_with(["beta", "could not be installed",
                               "Unable to locate package",
                               self.path("logs/packages.log")],
                              *self.command("build"), env=self.environment())
        self.assertNotIn("done", said)

    def test_no_debian_is_told_what_is_needed(self):
        path = self.path("only")
        os.makedirs(path)
        for tool in ("bash", "awk"):
            os.symlink(shutil.which(tool), os.path.join(path, tool))
        said = self.succeed(*self.command("build"), env={"PATH": path})
        self.assertIn("no Debian system", said)
        self.assertIn("alpha beta", said)

    def test_the_projects_list_explains_the_group_of_each_line(self):
        with open(os.path.join(BUILDLIB, "packages"), encoding="utf-8") as source:
            text = source.read()
        explained = re.findall(r"^#   (\w+)  +\S", text, re.MULTILINE)
        self.assertIn("build", explained)
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                self.assertIn(line.split()[1], explained, line)


COMMANDS = ("bench.sh", "bundle.sh", "check.sh", "demo.sh")


class command_lines(test_case):
    """The commands, as far as they come before they do anything."""

    def test_help(self):
        for name in COMMANDS:
            said = self.succeed(os.path.join(TOP, "contrib", name), "--help")
            self.assertIn("--with-ucx-source=DIR", said)

    def test_unknown_option(self):
        for name in COMMANDS:
            self.fail_with(["--frobnicate", "usage:"],
                           os.path.join(TOP, "contrib", name), "--frobnicate")

    def test_archive_of_another_kind(self):
        for name in ("tests.zip", ""):
            self.fail_with(["-o", ".tar.xz"],
                           os.path.join(TOP, "contrib/bundle.sh"), "-o", name)

    def test_source_that_is_not_there(self):
        for name in COMMANDS:
            self.fail_with(["--with-ucx-source", "/no/such/folder"],
                           os.path.join(TOP, "contrib", name),
                           "--with-ucx-source=/no/such/folder")
