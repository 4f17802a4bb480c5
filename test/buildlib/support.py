#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""What the tests of buildlib/ share: made-up trees and running a tool."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILDLIB = os.path.join(TOP, "buildlib")

# Nothing of UCX's: just what makes a tree look like one
MADE_UP_UCX = {
    "configure.ac": "AC_INIT([ucx], [0.0])\n",
    "src/uct/api/uct.h": "/* made up */\n",
    "src/ucs/Makefile.am": "lib_LTLIBRARIES = libucs.la\n",
    "src/uct/rocm/Makefile.am": "if HAVE_ROCM\nx_SOURCES = a.c\nendif\n",
    "src/uct/rocm/a.c": "int a(int x)\n{\n    return old_name(x);\n}\n",
    "src/uct/rocm/a.h": "int old_name(int x);\n",
    "src/uct/rocm/b.c": "int b;\n",
}


def write_files(folder, files):
    """Create files, {path: content}, with their folders."""
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as output:
            output.write(content)


def read_file(folder, name):
    """The text of a file, or None."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as source:
            return source.read()
    except FileNotFoundError:
        return None


def snapshot(folder):
    """All that makes a folder what it is: names, modes and contents."""
    result = {}
    for where, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(where, name)
            content = b""
            if os.path.islink(path):
                content = os.readlink(path).encode()
            elif os.path.isfile(path):
                with open(path, "rb") as source:
                    content = source.read()
            result[os.path.relpath(path, folder)] = (
                os.lstat(path).st_mode, hashlib.sha256(content).hexdigest())
    return result


class test_case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="buildlib-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *parts):
        """A path in the test's folder."""
        return os.path.join(self.folder, *parts)

    def run_tool(self, *command, env=None, cwd=None, timeout=120):
        """Run a command; its output is one text, in the result's stdout."""
        return subprocess.run(command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, env=dict(os.environ, **(env or {})),
                              cwd=cwd or self.folder, timeout=timeout,
                              check=False)

    def succeed(self, *command, **arguments):
        """Run a command that must succeed."""
        result = self.run_tool(*command, **arguments)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def fail_with(self, texts, *command, **arguments):
        """Run a command that must fail, and say all of the texts."""
        result = self.run_tool(*command, **arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for text in texts:
            self.assertIn(text, result.stdout)
        self.assertNotIn("Traceback", result.stdout)
        return result.stdout
