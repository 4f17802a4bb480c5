#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Run a GoogleTest program, and know of every single test how it ended.

Results come from the XML that the program writes. A program that crashes or
hangs writes none, so each of its test suites is run by itself; and where one of
these crashes, each of its tests, so that one does not take the others along.
"""

import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as xml

from results import (FAILED, PASSED, SKIPPED, TIME_IS_UP, ended_text,
                     outcome)

# UCX's tests throw to skip themselves, of which GoogleTest does not know: its
# XML says that they ran. UCX prints this between their first and last line.
UCX_RUN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
UCX_SKIP = re.compile(r"^\[     SKIP \] ?(.*)$", re.MULTILINE)


class run_error(Exception):
    """The program cannot even say which tests it has."""


class program:
    """A GoogleTest program, with what it needs to run."""

    def __init__(self, path, environment, folder, log, cwd=None, deadline=None):
        """@a environment: a callable that makes a fresh one for each run, and
        a context manager that cleans up after it. @a folder: for the XML.
        @a log: an open file, which all output goes to. @a deadline: when the
        program is not run any more, by the monotonic clock."""
        self.path = path
        self.environment = environment
        self.folder = folder
        self.log = log
        self.cwd = cwd
        self.deadline = deadline

    def execute(self, arguments, timeout):
        """Run it once. Returns its exit status, or what ended it, and its
        output."""
        late = f"did not end within {timeout} s"
        if self.deadline is not None and \
           self.deadline - time.monotonic() < timeout:
            timeout, late = self.deadline - time.monotonic(), TIME_IS_UP
            if timeout <= 0:
                return late, ""
        start = self.log.tell()
        with self.environment() as environment:
            with subprocess.Popen([self.path] + arguments, env=environment,
                                  stdout=self.log, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, cwd=self.cwd,
                                  start_new_session=True) as process:
                try:
                    ended = process.wait(timeout)
                except subprocess.TimeoutExpired:
                    ended = late
                end_group(process)
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            log.seek(start)
            output = log.read()
        self.log.seek(0, os.SEEK_END)
        return ended, output

    def list_tests(self, pattern):
        """The names of the tests that the pattern selects, in their order."""
        with self.environment() as environment:
            listing = subprocess.run(
                [self.path, "--gtest_list_tests", "--gtest_filter=" + pattern],
                env=environment, stdout=subprocess.PIPE, stderr=self.log,
                stdin=subprocess.DEVNULL, text=True, timeout=120, check=False,
                cwd=self.cwd)
        if listing.returncode != 0:
            raise run_error(f"{self.path} --gtest_list_tests: "
                            f"{ended_text(listing.returncode)}")
        names, suite = [], ""
        for line in listing.stdout.splitlines():
            line = line.split("#")[0].rstrip()
            if re.fullmatch(r"\S+\.", line):
                suite = line
            elif re.fullmatch(r"  \S+", line):
                names.append(suite + line.strip())
        return [name for name in names if ".DISABLED_" not in name and
                not name.startswith("DISABLED_")]

    def run_once(self, pattern, timeout):
        """Returns {name: outcome}, or None with the reason, if it has not come
        to its end."""
        path = os.path.join(self.folder, "gtest.xml")
        if os.path.exists(path):
            os.unlink(path)
        ended, output = self.execute(["--gtest_filter=" + pattern,
                                      "--gtest_output=xml:" + path], timeout)
        try:
            results = read_xml(path)
        except (OSError, xml.ParseError):
            return None, ended_text(ended)
        failed = [name for name, result in results.items()
                  if result.state == FAILED]
        if ended != 0 and not failed:
            # All tests well, and yet it failed: a sanitizer, or a crash at exit
            return None, ended_text(ended) + " after its tests"
        mark_skipped(results, output)
        return results, ""

    def run(self, names, timeout, timeout_of_one):
        """Returns {name: outcome} for these tests."""
        results = {}
        for suite in dict.fromkeys(name.rpartition(".")[0] for name in names):
            tests = [name for name in names if name.startswith(suite + ".")]
            results.update(self.run_suite(tests, timeout, timeout_of_one))
        return results

    def run_suite(self, names, timeout, timeout_of_one):
        """The same, for the tests of one suite."""
        results, why = self.run_once(":".join(names), timeout)
        if results is None:
            self.log.write(f"\n{self.path} {why}; now each test by itself\n\n")
            self.log.flush()
            results = {}
        for name in names:
            if name not in results:
                alone, why = self.run_once(name, timeout_of_one)
                results[name] = (outcome(FAILED, why) if alone is None else
                                 alone.get(name, outcome(FAILED, "did not run")))
        return {name: results[name] for name in names}


def end_group(process):
    """Nothing that a run has started outlives it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read_xml(path):
    """{name: outcome} from the XML that GoogleTest writes."""
    results = {}
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failures = [node.get("message") or node.text or ""
                    for node in case.findall("failure")]
        if failures:
            results[name] = outcome(FAILED, "\n".join(failures))
        elif case.find("skipped") is not None or \
                case.get("result") == "skipped":
            node = case.find("skipped")
            results[name] = outcome(SKIPPED, "" if node is None else
                                    node.get("message") or "")
        elif case.get("status") == "run":
            results[name] = outcome(PASSED)
    return results


def mark_skipped(results, output):
    """Find the tests that UCX's own way of skipping has ended."""
    starts = list(UCX_RUN.finditer(output))
    for match, after in zip(starts, starts[1:] + [None]):
        text = output[match.end():after.start() if after else len(output)]
        skip = UCX_SKIP.search(text)
        result = results.get(match.group(1).rstrip(","))
        if skip and result is not None and result.state == PASSED:
            result.state, result.text = SKIPPED, skip.group(1)
