#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""Plots of what was measured. All that needs matplotlib is here."""

import os

from bench_report import text
from bench_run import VARIANTS


def pyplot():
    """Imported late: what draws nothing does without it."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as module
    return module


def rows_of(table, measure, unit):
    """Lines of the table."""
    return [row for row in table.rows
            if row.measure == measure and row.unit.startswith(unit)]


def plot_bars(table, rows, label, name):
    """Stock beside patched."""
    figure, axes = pyplot().subplots(figsize=(8, 4))
    for i, variant in enumerate(VARIANTS):
        bars = axes.bar([j + (i - 0.5) * 0.38 for j in range(len(rows))],
                        [getattr(row, variant) for row in rows], 0.36,
                        label=variant)
        axes.bar_label(bars, [text(getattr(row, variant)) for row in rows],
                       fontsize=8)
    axes.set_xticks(range(len(rows)), [row.case.replace(", ", ",\n")
                                       for row in rows], fontsize=8)
    axes.set_ylabel(label)
    axes.legend()
    save(figure, table, name)


def save(figure, table, name):
    """Into the folder of results."""
    figure.tight_layout()
    figure.savefig(os.path.join(table.folder, name), dpi=120)
    pyplot().close(figure)
