#!/usr/bin/env python3
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Try the overlay on several UCX source trees; prints a table of what works.

usage: versions.py [OPTION...] TOP TREE... [-- CONFIGURE_OPTION...]

TOP is this project's top folder. Each tree has a folder in TOP/build/versions.
contrib/versions.sh --help says the rest.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# What one may ask for: the suites that need no more than what is built here; and
# those that are UCX's own tests, which take much longer to build than ours
SUITES = ("lifetime", "ucx", "perftest", "interop", "cuda", "cuda_stock",
          "ucx_cuda", "perftest_cuda")
DEFAULT_SUITES = "lifetime cuda"
UCX_SUITES = ("ucx", "ucx_cuda")

COLUMNS = ("tree", "version", "applies", "builds", "tests passed",
           "series applies")

# What results depend on, besides the tree
SOURCES = ("buildlib", "config", "configure.ac", "src", "test")

WARNING = re.compile(r"^(.*: warning: .*\[-W.*\])$", re.MULTILINE)
# How many reasons are given for one 'no'; the log has all
MAX_REASONS = 5

SUM = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
VERSION = re.compile(r"^define\(\[ucx_ver_(major|minor|patch)\],\s*(\d+)\)",
                     re.MULTILINE)


class outcome:
    """What became of one column for one tree."""

    def __init__(self, well, cell, reasons=()):
        self.well, self.cell, self.reasons = well, cell, list(reasons)

    def as_list(self):
        """For a JSON file."""
        return [self.well, self.cell, self.reasons]


def fingerprint(path, names=(".",)):
    """Changes with the files of a folder: their names, sizes and times."""
    total = hashlib.sha256()
    for start in names:
        start = os.path.join(path, start)
        if os.path.isfile(start):
            found = [(os.path.dirname(start), [], [os.path.basename(start)])]
        else:
            found = os.walk(start)
        for folder, folders, files in found:
            folders[:] = sorted(name for name in folders
                                if name not in (".git", "__pycache__"))
            for name in sorted(files):
                status = os.lstat(os.path.join(folder, name))
                total.update(f"{folder}/{name} {status.st_size} "
                             f"{status.st_mtime_ns}\n".encode())
    return total.hexdigest()


def version_of(tree):
    """The version that a tree's configure.ac has, or '?'."""
    try:
        with open(os.path.join(tree, "configure.ac"), encoding="utf-8",
                  errors="replace") as source:
            found = dict(VERSION.findall(source.read()))
    except OSError:
        return "?"
    parts = [found.get(part) for part in ("major", "minor", "patch")]
    return ".".join(parts) if None not in parts else "?"


def run(command, log, **options):
    """Run a command; returns its status and what it said, which is in the log as
    well, and is shown while it comes."""
    os.makedirs(os.path.dirname(log), exist_ok=True)
    said = ""
    with open(log, "w", encoding="utf-8") as output, \
         subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, errors="replace",
                          stdin=subprocess.DEVNULL, **options) as process:
        for line in process.stdout:
            said += line
            output.write(line)
            print("  " + line, end="", flush=True)
    return process.returncode, said


def errors(said):
    """The messages of a command that failed: what it calls errors, or else its
    last line."""
    found = re.findall(r"^(?:configure: )?error: (.*)$", said, re.MULTILINE)
    lines = [line for line in said.splitlines() if line.strip()]
    return found or lines[-1:] or ["failed without a word"]


def failures(said):
    """The tests that failed, in what a command said; or else its errors."""
    return re.findall(r"^ +failed: (.*)$", said, re.MULTILINE) or errors(said)


class version:
    """One tree, and the folder for what comes of it."""

    def __init__(self, options, tree, name):
        self.options, self.tree, self.name = options, tree, name
        self.top = options.top
        self.folder = os.path.join(self.top, "build/versions", name)
        self.number = version_of(tree)

    def path(self, *parts):
        """A path in the folder."""
        return os.path.join(self.folder, *parts)

    def tool(self, name):
        """A script of buildlib/."""
        return os.path.join(self.top, "buildlib", name)

    def log(self, name):
        """Where a log belongs."""
        return self.path("logs", f"version-{name}.log")

    # One function for each column

    def applies(self):
        """Does the overlay fit?"""
        status, said = run([self.tool("overlay"), "check", self.top, self.tree],
                           self.log("applies"))
        return outcome(status == 0, "yes" if status == 0 else "no",
                       errors(said) if status else ())

    def builds(self):
        """Do libraries, unit tests and emulators build, without a warning?"""
        status, said = run([self.tool("build-version"), self.folder, self.tree,
                            self.options.gtest, *self.options.configure],
                           self.log("builds"))
        if status != 0:
            return outcome(False, "no", errors(said))
        warnings = []
        for log in ("ucx-stock", "ucx-patched"):
            warnings += self.warnings(self.path("logs", f"{log}.log"))
        if warnings:
            return outcome(False, "no", warnings[:3])
        without = re.findall(r"^Note: (the CUDA part is left out.*)$", said,
                             re.MULTILINE)
        return outcome(True, "yes, no CUDA" if without else "yes", without)

    @staticmethod
    def warnings(log):
        """The compiler's, in a log."""
        try:
            with open(log, encoding="utf-8", errors="replace") as source:
                return WARNING.findall(source.read())
        except FileNotFoundError:
            return []

    def tests(self):
        """Do the suites pass?"""
        if not self.options.suites:
            return outcome(True, "not tried")
        status, said = run([self.tool("run-suites"), "--stress",
                            str(self.options.stress),
                            self.path("buildlib/settings.sh"),
                            *self.options.suites], self.log("tests"))
        found = SUM.findall(said)
        cell = f"{found[-1][0]}" if found else "no"
        if found and found[-1][2] != "0":
            cell += f", {found[-1][2]} skipped"
        if status == 0:
            return outcome(True, cell)
        return outcome(False, "no" if not found else
                       f"no, {found[-1][1]} failed", failures(said))

    def series(self):
        """Does the series give the same tree, as reviewers would have it?"""
        patches = self.path("patches")
        status, said = run([self.tool("make-series"), "--strict", self.top,
                            self.tree, patches], self.log("series"))
        if status != 0:
            return outcome(False, "no", errors(said))
        count = len(os.listdir(patches))
        if self.options.build_steps:
            status, said = self.build_steps(patches)
            if status != 0:
                return outcome(False, "no", errors(said))
            return outcome(True, f"yes, {count} built")
        return outcome(True, f"yes, {count}")

    def build_steps(self, patches):
        """Build each commit, in a folder of its own, which begins with what
        was found out and compiled for the other one."""
        steps = self.path("steps")
        os.makedirs(os.path.join(steps, "ucx"), exist_ok=True)
        for name, to in (("ccache", "ccache"), ("obj/config.cache",
                                                "config.cache")):
            to = os.path.join(steps, "ucx", to)
            if not os.path.lexists(to):
                os.symlink(self.path("ucx", name), to)
        with open(self.path("buildlib/settings.sh"), encoding="utf-8") as source:
            text = source.read()
        with open(os.path.join(steps, "settings.sh"), "w",
                  encoding="utf-8") as output:
            output.write(f"{text}builddir='{steps}'\n")
        return run([self.tool("ucx-build"), os.path.join(steps, "settings.sh"),
                    "series", patches], self.log("steps"))

    # What was found earlier

    def key(self):
        """What the results depend on."""
        return [self.tree, fingerprint(self.tree),
                fingerprint(self.top, SOURCES), self.options.configure]

    def options_of(self, column):
        """The options that a column depends on."""
        return {"builds": self.options.gtest,
                "tests": [self.options.suites, self.options.stress],
                "series": self.options.build_steps}.get(column)

    def earlier(self, key):
        """{column: [options, outcome]} found earlier with the same key. Of
        another tree nothing stays."""
        try:
            with open(self.path("results.json"), encoding="utf-8") as source:
                found = json.load(source)
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        if found["key"][:2] != key[:2]:
            for name in ("ucx", "steps"):
                shutil.rmtree(self.path(name), ignore_errors=True)
        return found["columns"] if found["key"] == key else {}

    def keep(self, key, columns):
        """Write down what was found."""
        os.makedirs(self.folder, exist_ok=True)
        path = self.path("results.json")
        with open(path + ".new", "w", encoding="utf-8") as output:
            json.dump({"key": key, "columns": columns}, output, indent=1)
        os.replace(path + ".new", path)

    def results(self):
        """{column: outcome}, from the left; None where an earlier one is
        needed and is not there."""
        key = self.key()
        known, columns, result = self.earlier(key), {}, {}
        needs = {"applies": (), "builds": ("applies",), "tests": ("builds",),
                 "series": ("builds",) if self.options.build_steps else
                 ("applies",)}
        for column, needed in needs.items():
            if not all(result[name] and result[name].well for name in needed):
                result[column] = None
                continue
            asked = self.options_of(column)
            if column in known and known[column][0] == asked and \
               known[column][1][0]:
                result[column] = outcome(*known[column][1])
            else:
                print(f"{self.name}: {getattr(self, column).__doc__}", flush=True)
                result[column] = getattr(self, column)()
            columns[column] = [asked, result[column].as_list()]
            self.keep(key, {**known, **columns})
        return result


def names_of(trees):
    """A name for each tree: that of its folder, and a number if it is taken."""
    names = []
    for tree in trees:
        name, number = os.path.basename(tree), 2
        while name in names:
            name, number = f"{os.path.basename(tree)}-{number}", number + 1
        names.append(name)
    return names


def oldest_and_newest(versions, results):
    """Those two of all that were built; fewer if there are."""
    built = [one for one, result in zip(versions, results)
             if result["builds"] and result["builds"].well]
    built.sort(key=lambda one: [int(part) for part in
                                re.findall(r"\d+", one.number)])
    return built if len(built) < 2 else [built[0], built[-1]]


def try_interop(versions, results):
    """Let the oldest and the newest share memory, stock and patched."""
    both = oldest_and_newest(versions, results)
    names = " and ".join(one.name for one in both) or "nothing"
    if len(both) < 2:
        return outcome(False, "no", [f"takes two trees that build, not {names}"])
    log = both[1].log("interop")
    status, said = run([both[0].tool("run-interop"), "--log",
                        both[1].log("interop-processes"),
                        *(one.folder for one in both)], log)
    found = SUM.search(said)
    if status == 0:
        return outcome(True, f"{names}: {found.group()}")
    return outcome(False, "no", failures(said))


def rows_of(versions, results):
    """The cells of the table."""
    return [[one.name, one.number] +
            [found.cell if found else "-" for found in result.values()]
            for one, result in zip(versions, results)]


def in_short(one, reasons):
    """The first of a list of reasons, without where things lie here."""
    told = [reason.replace(one.tree + "/", "").replace(one.top + "/", "")
            for reason in reasons[:MAX_REASONS]]
    left = len(reasons) - len(told)
    return told + ([f"and {left} more"] if left else [])


def reasons_of(versions, results):
    """[(tree, column, reason)]"""
    return [(one.name, COLUMNS[number], reason)
            for one, result in zip(versions, results)
            for number, found in enumerate(result.values(), 2) if found
            for reason in in_short(one, found.reasons)]


def table(rows, rule=None):
    """Rows of cells, below their heads; with a rule as reStructuredText has it."""
    rows = [COLUMNS, *rows]
    widths = [max(len(row[column]) for row in rows)
              for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in
                       zip(row, widths)).rstrip() for row in rows]
    if rule:
        line = "  ".join(rule * width for width in widths)
        lines = [line, lines[0], line, *lines[1:], line]
    return "\n".join(lines) + "\n"


def write_rst(path, rows, reasons):
    """The table for the documentation."""
    text = table(rows, "=")
    if reasons:
        text += "\n" + "".join(f"* {tree}, {column}: {reason}\n"
                               for tree, column, reason in reasons)
    with open(path + ".new", "w", encoding="utf-8") as output:
        output.write(text)
    os.replace(path + ".new", path)


def read_options(arguments):
    """See the module's text."""
    parser = argparse.ArgumentParser(usage=__doc__.strip())
    parser.add_argument("--suites", default=DEFAULT_SUITES)
    parser.add_argument("--stress", type=float, default=60)
    parser.add_argument("--build-steps", action="store_true")
    parser.add_argument("--interop", action="store_true")
    parser.add_argument("--rst")
    parser.add_argument("--check", action="store_true",
                        help="look at the options only")
    parser.add_argument("top")
    parser.add_argument("trees", nargs="+")
    configure = []
    if "--" in arguments:
        end = arguments.index("--")
        arguments, configure = arguments[:end], arguments[end + 1:]
    options = parser.parse_args(arguments)
    options.configure = configure
    options.suites = options.suites.replace(",", " ").split()
    options.gtest = "gtest" if set(options.suites) & set(UCX_SUITES) else \
        "gtest-ours"
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.exit(1, f"error: --suites: no suite {' '.join(unknown)}; there "
                       f"are {' '.join(SUITES)}\n")
    if options.stress <= 0:
        parser.exit(1, "error: --stress takes a number of seconds\n")
    return options


def try_versions(options):
    """See the module's text."""
    versions = [version(options, tree, name) for tree, name in
                zip(options.trees, names_of(options.trees))]
    results = [one.results() for one in versions]
    rows, reasons = rows_of(versions, results), reasons_of(versions, results)
    met = try_interop(versions, results) if options.interop else None
    print()
    print(table(rows), end="")
    if met:
        print(f"interoperation of {met.cell}" if met.well else
              f"interoperation: {'; '.join(met.reasons[:MAX_REASONS])}")
    for tree, column, reason in reasons:
        print(f"\n{tree}, {column}: {reason}", end="")
    print("\n" if reasons else "", end="")
    for one, result in zip(versions, results):
        if not all(found and found.well for found in result.values()):
            print(f"Logs of {one.name}: {one.path('logs')}")
    if options.rst:
        write_rst(options.rst, rows, reasons)
    return all(found and found.well for result in results
               for found in result.values()) and (not met or met.well)


def main(arguments):
    """See the module's text."""
    options = read_options(arguments)
    if options.check:
        return 0
    try:
        return 0 if try_versions(options) else 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; run the same command again: it goes on from "
              "here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
