#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""The tables that are measured, for people and as files."""

import collections
import csv
import os

Row = collections.namedtuple("Row", "measure case unit stock patched target "
                             "verdict")

# Headers of the files that each part adds to
FUNCTIONS = ("section", "variant", "object", "function", "instructions")


class report:
    """The table of all figures, and what else goes into files.

    rows   the lines of the table
    files  {name of a file: [its header, its lines...]}
    more   functions that print further tables
    notes  lines that are printed below the tables
    """

    def __init__(self, folder):
        self.folder = folder
        self.rows = []
        self.files = {}
        self.more = []
        self.notes = []

    def add(self, measure, case, unit, stock, patched, target="", met=None):
        """One line of the table; met is None where there is no target."""
        verdict = {None: "", True: "met", False: "MISSED"}[met]
        self.rows.append(Row(measure, case, unit, stock, patched, target,
                             verdict))

    def file(self, name, header):
        """The lines of a file, to be added to."""
        return self.files.setdefault(name, [header])

    def add_functions(self, variant, sections, prefix=""):
        """Keep the instructions of each function of UCX and of libc."""
        lines = self.file("functions.csv", FUNCTIONS)
        for costs in sections.values():
            for (ob, fn), cost in costs.functions.most_common():
                lines.append((prefix + costs.name, variant, ob, fn,
                              cost / costs.operations))

    def write(self):
        """The tables, as files."""
        for name, lines in (("results.csv", [Row._fields, *self.rows]),
                            *self.files.items()):
            with open(os.path.join(self.folder, name), "w", newline="",
                      encoding="utf-8") as file:
                csv.writer(file).writerows(lines)

    def print(self):
        """The tables, for people."""
        print_table(("measure", "case", "unit", "stock", "patched", "target",
                     ""), self.rows, numbers=(3, 4))
        for print_more in self.more:
            print_more()

    def missed(self):
        """The lines of the table whose target was missed."""
        return [row for row in self.rows if row.verdict == "MISSED"]


def print_table(header, rows, numbers):
    """Columns, those of numbers to the right."""
    lines = [header] + [tuple(text(field) for field in row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        print("  ".join(
            field.rjust(width) if i in numbers else field.ljust(width)
            for i, (field, width) in enumerate(zip(line, widths))).rstrip())


def text(value):
    """A figure with as many digits as it deserves."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if value == int(value) or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
