#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""Run ucx_perftest with device memory."""

import os
import re
import socket
import subprocess
import tempfile
import time

from place import TIMEOUT_TEST
from results import FAILED, PASSED, SKIPPED, ended_text, outcome

# What it says where UCP has nobody to allocate device memory from
NO_UCP_MEMORY = "ucp test failed to allocate memory"

# A line with figures
RESULT = r"^Final:|^\s*\d+\s+[\d.]+"

# How it is said that a test took another way
NEVER_CALLED = "never called "

# What the emulator says of each call
TRACE = re.compile(r"^emul\[.*\n", re.MULTILINE)


def perftests(where, log, runtime, tests):
    """{name: outcome} of tests, {name: (arguments, variables of all processes,
    what the emulator must have been asked for)}."""
    results = {}
    for name, test in tests.items():
        results[name] = run_perftest(where, log, name, where.patched, runtime,
                                     test)
        if is_of_version(results[name]):
            stock = run_perftest(where, log, name + ", stock", where.stock,
                                 runtime, test)
            if stock.text == results[name].text:
                results[name] = outcome(SKIPPED, "so does stock UCX of this "
                                        f"version: {stock.text}")
    return results


def is_of_version(result):
    """Whether a test failed as it does where a version of UCX cannot do it."""
    return result.text == NO_UCP_MEMORY or result.text.startswith(NEVER_CALLED)


def run_perftest(where, log, name, modules, runtime, test):
    """One test: well if all processes end well with a figure, and the emulator
    was asked for what it takes."""
    arguments, variables, calls = test
    with tempfile.TemporaryDirectory() as folder, \
         where.environment(modules, runtime, EMUL_TRACE="y", UCX_TLS="self,sm," +
                           transports(runtime), **variables) as environment:
        command = [where.perftest, "-m", runtime, "-n", "200", "-w", "20"]
        command += arguments.split()
        outputs = [os.path.join(folder, side) for side in ("server", "client")]
        ended = run_one(command, outputs, environment) if "-l" in command else \
            run_pair(command, outputs, environment)
        text = ""
        for path in filter(os.path.exists, outputs):
            with open(path, encoding="utf-8", errors="replace") as output:
                text += output.read()
    result = judge_perftest(text, ended, calls if where.emulated else [])
    if result.state == PASSED:
        text = TRACE.sub("", text)
    log.write(f"\n=== {name}: {' '.join(command)}\n{text}")
    log.flush()
    return result


def transports(runtime):
    """What UCX_TLS calls those of the runtime."""
    return "cuda_copy,cuda_ipc" if runtime == "cuda" else runtime


def judge_perftest(text, ended, calls):
    """All processes ended well, a figure was printed, and the emulator has seen
    these calls."""
    if NO_UCP_MEMORY in text:
        return outcome(FAILED, NO_UCP_MEMORY)
    for status in ended:
        if status != 0:
            return outcome(FAILED, ended_text(status))
    if not re.search(RESULT, text, re.MULTILINE):
        return outcome(FAILED, "printed no result")
    for call in calls:
        if not re.search(rf"\b(?:{call})\b", text):
            return outcome(FAILED, NEVER_CALLED + call.replace("|", " or "))
    return outcome(PASSED)


def free_port():
    """A TCP port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def listens(port, process):
    """Wait until the process listens; false if it ends instead."""
    wanted = f":{port:04X} "
    deadline = time.monotonic() + TIMEOUT_TEST
    while process.poll() is None and time.monotonic() < deadline:
        with open("/proc/net/tcp", encoding="ascii") as table:
            if any(wanted in line and line.split()[3] == "0A" for line in table):
                return True
        time.sleep(0.01)
    return False


def run_pair(command, outputs, environment):
    """Run a server and a client; returns how they ended."""
    port = free_port()
    command = command + ["-p", str(port)]
    ended = []
    with open(outputs[0], "wb") as out, open(outputs[1], "wb") as out_client:
        server = subprocess.Popen(command, env=environment, stdout=out,
                                  stderr=out, stdin=subprocess.DEVNULL)
        processes = [server]
        try:
            if listens(port, server):
                processes.append(subprocess.Popen(
                    command + ["127.0.0.1"], env=environment, stdout=out_client,
                    stderr=out_client, stdin=subprocess.DEVNULL))
            for process in processes:
                ended.append(process.wait(TIMEOUT_TEST))
        except subprocess.TimeoutExpired:
            ended.append(f"did not end within {TIMEOUT_TEST} s")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    if len(processes) < 2:
        ended.append("the server ended before the client came")
    return ended


def run_one(command, outputs, environment):
    """Run a process that talks to itself; returns how it ended."""
    with open(outputs[0], "wb") as out:
        try:
            return [subprocess.run(command, env=environment, stdout=out,
                                   stderr=out, stdin=subprocess.DEVNULL,
                                   timeout=TIMEOUT_TEST, check=False).returncode]
        except subprocess.TimeoutExpired:
            return [f"did not end within {TIMEOUT_TEST} s"]
