#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""How tests ended, and what is said of it."""

import os
import signal

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

# Why a test failed that was not given the time
TIME_IS_UP = "has not come to its end: time is up"


class outcome:
    """How one test ended."""

    def __init__(self, state, text=""):
        self.state = state
        self.text = text


def ended_text(ended):
    """What is said of a program that ended so."""
    if isinstance(ended, str):
        return ended
    if ended < 0:
        return f"was killed by {signal.Signals(-ended).name}"
    return f"ended with status {ended}"


def with_state(results, state):
    """Those of {name: outcome} that ended so."""
    return {name: result for name, result in results.items()
            if result.state == state}


def in_short(result):
    """The beginning of what is to say about a test, in one line."""
    lines = [line.strip() for line in result.text.splitlines() if line.strip()]
    if lines and os.path.isabs(lines[0]):
        lines[0] = os.path.basename(lines[0])
    return ": ".join(lines[:3])[:160] or "no reason given"


def grouped(results):
    """A line for each test, its parameters put together, with what is said
    about the first of them."""
    groups = {}
    for name, result in results.items():
        test, _, parameter = name.rpartition("/")
        groups.setdefault(test, (result, []))[1].append(parameter)
    return [f"{test}/{','.join(parameters)}: {in_short(result)}"
            for test, (result, parameters) in groups.items()]


def summary(results):
    """The sum of a list of outcomes, in the words of the last line."""
    states = [result.state for result in results]
    return ", ".join(f"{states.count(state)} {state}"
                     for state in (PASSED, FAILED, SKIPPED))


def all_well(results):
    """Whether a run with these outcomes was a success."""
    states = [result.state for result in results]
    return PASSED in states and FAILED not in states


def against_stock(stock, patched, notes):
    """UCX's own tests over the patched modules, judged by what those that do not
    pass there do over stock: what stock fails is no failure of ours, and what
    stock passes has to be there. Adds to the notes."""
    judged = dict(patched)
    failed = {name: result for name, result in with_state(stock, FAILED).items()
              if result.text != TIME_IS_UP}
    notes += [f"stock UCX itself fails {line}" for line in grouped(failed)]
    for name in failed:
        if name in judged and judged[name].state == FAILED and \
           judged[name].text != TIME_IS_UP:
            judged[name] = outcome(SKIPPED, "stock UCX fails it, too")
    for name in with_state(stock, PASSED):
        if name not in judged:
            judged[name] = outcome(FAILED, "is only there over stock")
        elif judged[name].state == SKIPPED:
            judged[name] = outcome(FAILED, "stock UCX passes it, here it is "
                                   f"skipped: {in_short(judged[name])}")
    return judged
