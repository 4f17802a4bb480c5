#!/usr/bin/env python3
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Run the tests of buildlib/.

usage: run.py [XML]

Writes the results to the file XML in the format of GoogleTest, so that all
suites of the project are counted alike.
"""

import os
import sys
import time
import unittest
import xml.etree.ElementTree as xml


class recorder(unittest.TextTestResult):
    """Remembers what became of each test."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cases = {}
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.cases[test.id()] = {"time": 0.0, "failures": [], "skipped": None}

    def stopTest(self, test):
        super().stopTest(test)
        self.cases[test.id()]["time"] = time.monotonic() - self.started

    def record_failure(self, test, error):
        """A test, or what prepares a class or a module, has failed."""
        case = self.cases.setdefault(test.id(), {"time": 0.0, "failures": [],
                                                 "skipped": None})
        case["failures"].append(self._exc_info_to_string(error, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record_failure(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.record_failure(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record_failure(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases[test.id()]["skipped"] = reason


def write_xml(path, cases):
    """The results, as GoogleTest would write them."""
    suites = xml.Element("testsuites", name="AllTests")
    suite = xml.SubElement(suites, "testsuite", name="buildlib")
    for name, case in cases.items():
        group, _, short = name.rpartition(".")
        skipped = case["skipped"] is not None
        node = xml.SubElement(suite, "testcase", name=short, classname=group,
                              status="run",
                              result="skipped" if skipped else "completed",
                              time=f"{case['time']:.3f}")
        for text in case["failures"]:
            xml.SubElement(node, "failure", message=text)
        if skipped:
            xml.SubElement(node, "skipped", message=case["skipped"])
    xml.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def main():
    """See the module's text."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    tests = unittest.defaultTestLoader.discover(here, "test_*.py")
    result = unittest.TextTestRunner(resultclass=recorder, verbosity=2).run(tests)
    if len(sys.argv) > 1:
        write_xml(sys.argv[1], result.cases)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
