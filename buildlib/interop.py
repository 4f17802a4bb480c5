#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Two processes on one emulated node share device memory through UCX, each with
another build of it: stock or patched, of one version or of several.

A message goes from a buffer of one of them to a buffer of the other, as large
ones do: one of the two, the importer, maps the buffer of the other one, the
owner, and copies from there (get) or to there (put). Then the importer sleeps,
with its endpoint open, and the owner frees. Where UCX itself cannot do that,
stock with stock shows it.
"""

import glob
import itertools
import os
import re
import select
import subprocess
import time

from place import SANITIZER_FACTOR
from results import FAILED, PASSED, SKIPPED, ended_text, outcome

STOCK, PATCHED = "stock", "patched"

# Some pages and a bit
SIZE = 3 * 1024 * 1024 + 12288

# Seconds. How long something may take that takes no time if it works: within a
# version, where all works; between two versions, where UCX may leave a process
# waiting for ever; and where stock with stock has shown that it does. How long
# a free must have been blocked, as the emulator says, before it is called that.
# And how long something may go on that has failed already.
HANG, HANG_OTHER, HANG_IMPOSSIBLE = 60, 30, 5
BLOCKED, LAST_WORDS = 0.5, 2

# For each runtime: the program, which transports UCX may use, and what else it
# must be told. Without one for messages, UCP does not connect.
RUNTIMES = {
    "rocm": ("interop_rocm", {"UCX_TLS": "sm,rocm"}),
    "cuda": ("interop_cuda", {"UCX_TLS": "sm,cuda_copy,cuda_ipc",
                              "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "y"}),
}

# What the importer does: the owner sends, or the importer
DIRECTIONS = ("get", "put")

# Large messages are all that are not tiny. What chooses how they go has to be
# the same in all versions. And UCX asks the runtime what kind of memory it has
# got: what it keeps of that begins with the mappings of a GPU's device file.
VARIABLES = {"UCX_RNDV_THRESH": "16384", "UCX_PROTO_ENABLE": "y",
             "UCX_MEMTYPE_CACHE": "n", "UCX_WARN_UNUSED_ENV_VARS": "n"}

UCX_LIBRARIES = ("ucm", "ucs", "uct", "ucp")

# A row of the matrix
ROW = "{:6}{:5}{:18}{:18}{}"


class ucx_build:
    """A build of UCX to run a process with.

    kind        STOCK or PATCHED
    version     UCX's
    programs    folder of the programs that were made for it
    libraries   folders of its libraries
    modules     folder of its modules
    """

    def __init__(self, kind, version, programs, libraries, modules):
        self.kind = kind
        self.version = version
        self.programs = programs
        self.libraries = libraries
        self.modules = modules

    @property
    def name(self):
        """What it is called in results."""
        return f"{self.kind} {self.version}"

    def has_program(self, runtime):
        """Whether the runtime's program was built."""
        return os.path.exists(os.path.join(self.programs, RUNTIMES[runtime][0]))


def builds_of(folder, kinds=(STOCK, PATCHED)):
    """The builds of UCX in a build folder of ours."""
    obj = os.path.join(folder, "ucx/obj")
    modules = {STOCK: os.path.join(folder, "ucx/stock-modules"),
               PATCHED: os.path.join(obj, "modules")}
    libraries = [os.path.join(obj, "src", name, ".libs")
                 for name in UCX_LIBRARIES]
    with open(os.path.join(obj, "ucx.pc"), encoding="utf-8") as description:
        version = re.search(r"^Version: *(\S+)", description.read(),
                            re.MULTILINE).group(1)
    return [ucx_build(kind, version, os.path.join(folder, "test/apps"),
                      libraries, modules[kind]) for kind in kinds]


class no_success(Exception):
    """A process has not done what it was told, or not rightly."""


class crash(no_success):
    """It has ended instead."""


class peer:
    """A process of the program test/apps/interop_peer.cc."""

    def __init__(self, role, build, program, environment, log, hang):
        self.role = f"{role} ({build.name})"
        self.hang = hang
        self.lines = b""
        environment = dict(
            environment, UCX_MODULE_DIR=build.modules,
            LD_LIBRARY_PATH=":".join([environment["LD_LIBRARY_PATH"],
                                      *build.libraries, build.modules]))
        self.process = subprocess.Popen(
            [os.path.join(build.programs, program)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def send(self, command):
        """Tell it a command."""
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.closed() from None

    def closed(self):
        """It has closed its end. Returns what is to be said of it."""
        try:
            ended = self.process.wait(self.hang)
        except subprocess.TimeoutExpired:
            return no_success(f"the {self.role} neither answers nor ends")
        return crash(f"the {self.role} {ended_text(ended)}")

    def read_line(self, seconds):
        """The next line, or None if there is none by then."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.lines:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                return None
            read = os.read(self.process.stdout.fileno(), 65536)
            if not read:
                raise self.closed()
            self.lines += read
        line, self.lines = self.lines.split(b"\n", 1)
        return line.decode()

    def answered(self, seconds):
        """What the last command has answered, {name: value}, or None if it has
        not by then."""
        line = self.read_line(seconds)
        if line is None:
            return None
        state, _, text = line.partition(" ")
        if state != "ok":
            raise no_success(f"{self.role}: {text}")
        return dict(word.split("=", 1) for word in text.split())

    def ask(self, command):
        """Tell it a command; returns what it answers."""
        self.send(command)
        return self.must_answer(command)

    def must_answer(self, command):
        """What it answers to a command that it was told."""
        answer = self.answered(self.hang)
        if answer is None:
            raise no_success(f"the {self.role} hangs in: {command.split()[0]}")
        return answer

    def end(self):
        """Let it end by itself."""
        self.process.stdin.close()
        try:
            status = self.process.wait(self.hang)
        except subprocess.TimeoutExpired:
            raise no_success(f"the {self.role} does not end") from None
        if status != 0:
            raise crash(f"the {self.role} {ended_text(status)}")

    def stop(self):
        """If it is still there: let it end and print what it has to say, or
        else make it end. Returns its status, 0 if that was so."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = 0
        try:
            status = self.process.wait(LAST_WORDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return status


def check_loaded(role, build, told):
    """A process has what its build has, and nothing of another one."""
    for library, path in told.items():
        if not library.startswith("lib"):
            continue
        own = [file for folder in (*build.libraries, build.modules)
               for file in glob.glob(os.path.join(folder, library + "*"))]
        if not path or not any(os.path.samefile(path, file) for file in own):
            raise no_success(f"the {role} has loaded {path or 'no'} {library}")
    if told["version"] != build.version:
        raise no_success(f"the {role} has loaded UCX {told['version']}")
    if told["emulated"] != "1":
        raise no_success(f"the {role} does not run on the emulator")


class meeting:
    """One owner and one importer, and what has become of it.

    free        what has become of that
    failure     why it was no success, or ""
    crashed     ... because a process has ended
    impossible  the meeting of stock with stock that was no success, if so
    """

    def __init__(self, runtime, direction, owner, importer):
        self.runtime = runtime
        self.direction = direction
        self.owner = owner
        self.importer = importer
        self.free = self.failure = ""
        self.crashed = False
        self.impossible = None

    @property
    def name(self):
        """The test's."""
        return (f"{self.runtime} {self.direction}: {self.owner.name} owns, "
                f"{self.importer.name} imports")

    @property
    def kinds(self):
        """Whether they are stock or patched."""
        return self.owner.kind, self.importer.kind

    @property
    def hang(self):
        """How long something may take, in seconds."""
        if self.impossible:
            return HANG_IMPOSSIBLE
        same = self.owner.version == self.importer.version
        return HANG if same else HANG_OTHER

    @property
    def frees_at_once(self):
        """Whether the free has to finish while the importer lives. CUDA's does
        anyway."""
        return self.runtime == "cuda" or \
            self.kinds == (PATCHED, PATCHED)

    def run(self, where, log):
        """Let them meet on a new node."""
        program, variables = RUNTIMES[self.runtime]
        hang = self.hang * (SANITIZER_FACTOR if where.sanitizer else 1)
        log.write(f"\n=== {self.name}\n")
        log.flush()
        with where.environment(
                "", self.runtime, **VARIABLES, **variables,
                UCX_RNDV_SCHEME=f"{self.direction}_zcopy") as environment:
            peers = []
            try:
                for role, build in (("owner", self.owner),
                                    ("importer", self.importer)):
                    peers.append(peer(role, build, program, environment, log,
                                      hang))
                self.play(*peers)
            except no_success as error:
                self.failure = str(error)
                self.crashed = isinstance(error, crash)
            finally:
                for process in reversed(peers):
                    self.see_end(process)

    def see_end(self, process):
        """What is left of a process. If it has not ended well, this is to be
        told, and not what the other one said of it."""
        status = process.stop()
        if status != 0:
            self.failure = f"the {process.role} {ended_text(status)}"
            self.crashed = True

    def play(self, owner, importer):
        """What the two do."""
        workers = []
        for process, build in ((owner, self.owner), (importer, self.importer)):
            told = process.ask("open")
            check_loaded(process.role, build, told)
            process.ask(f"allocate {SIZE}")
            workers.append(told["worker"])
        owner.ask(f"connect {workers[1]}")
        importer.ask(f"connect {workers[0]}")
        self.transfer(owner, importer)
        importer.ask("sleep")
        self.free_while_imported(owner, importer)
        owner.ask("close")
        owner.end()

    def transfer(self, owner, importer):
        """The importer's GPU has to copy, through a mapping, and the owner's
        nothing."""
        sender, receiver = (owner, importer) if self.direction == "get" else \
            (importer, owner)
        sender.ask("fill 1")
        receiver.ask("fill 2")
        before, own_before = importer.ask("counts"), owner.ask("counts")
        sender.send("send")
        receiver.ask("receive")
        sender.must_answer("send")
        after, own_after = importer.ask("counts"), owner.ask("counts")
        right = int(receiver.ask("check 1")["right"])
        if right != SIZE:
            raise no_success(f"byte {right} of {SIZE} is wrong")
        if int(after["attached"]) < 1 or \
           after["copies"] == before["copies"] or \
           own_after["copies"] != own_before["copies"]:
            raise no_success("data right, but not through a mapping")

    def free_while_imported(self, owner, importer):
        """The owner frees while the importer sleeps; then that ends."""
        owner.send("free")
        finished = self.see_free(owner, importer)
        if finished:
            self.free = "finished while the importer slept"
            attached = int(importer.ask("counts")["attached"])
            if attached and self.runtime == "rocm":
                raise no_success("the importer still has the freed memory "
                                 "mapped")
        importer.ask("close")
        importer.ask("free")
        importer.end()
        if not finished:
            if owner.answered(owner.hang) is None:
                self.free = "never finished"
                raise no_success("the owner's free does not finish once the "
                                 "importer has ended")
            self.free = "finished when the importer ended"
        if self.frees_at_once and not finished:
            raise no_success("the owner's free did not finish while the "
                             "importer lived")

    def see_free(self, owner, importer):
        """Whether the free finishes. Blocked is what the emulator says is so
        for a while, if nothing else is due."""
        deadline = time.monotonic() + owner.hang
        blocked = None
        while time.monotonic() < deadline:
            if owner.answered(0.05) is not None:
                return True
            if int(importer.ask("counts")["blocked_frees"]) == 0:
                blocked = None
            elif blocked is None:
                blocked = time.monotonic()
            elif not self.frees_at_once and \
                    time.monotonic() - blocked > BLOCKED:
                return False
        return False

    def result(self):
        """Its outcome. What stock with stock fails as well is not possible, and
        no success either."""
        if not self.failure:
            return outcome(PASSED)
        stock = self.impossible
        if stock and (stock.crashed or not self.crashed):
            return outcome(SKIPPED, "not possible: stock with stock fails as "
                           f"well: {stock.failure}")
        return outcome(FAILED, self.failure)

    def row(self):
        """Its line of the matrix."""
        said = self.result().text or f"data right, the free {self.free}"
        return ROW.format(self.runtime, self.direction, self.owner.name,
                          self.importer.name, said)


HEAD = ROW.format("", "", "owner", "importer", "").rstrip()


def meet_of_versions(where, log, runtime, direction, owners, importers):
    """All that own for all that import, each of one version; yields meetings.
    Stock with stock is the first. Two versions of UCX need not understand each
    other; one has to understand itself."""
    meetings = sorted((meeting(runtime, direction, owner, importer)
                       for owner in owners for importer in importers),
                      key=lambda each: each.kinds != (STOCK, STOCK))
    impossible = None
    for each in meetings:
        each.impossible = impossible
        each.run(where, log)
        if each.failure and each.kinds == (STOCK, STOCK) and \
           each.owner.version != each.importer.version:
            impossible = each.impossible = each
        log.write(each.row() + "\n")
        log.flush()
        yield each


def meet(where, log, runtimes, builds, say=None):
    """Every one of the builds owns for every one; returns {name: outcome}. @a
    say: called with each line of the matrix."""
    versions = {}
    for build in builds:
        versions.setdefault(build.version, []).append(build)
    results = {}
    for runtime, direction, owners, importers in itertools.product(
            runtimes, DIRECTIONS, versions.values(), versions.values()):
        for each in meet_of_versions(where, log, runtime, direction, owners,
                                     importers):
            results[each.name] = each.result()
            if say:
                say(each.row())
    return results


def suite_interop(where, log):
    """Stock and patched UCX share device memory"""
    runtimes = [name for name in RUNTIMES
                if name != "cuda" or not where.cuda_reason]
    return meet(where, log, runtimes, builds_of(where.build))
