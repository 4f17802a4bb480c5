#!/usr/bin/env python3
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
Format C and C++ as UCX wants it, as far as clang-format of the distribution can.

usage: ucx_format.py check|fix TREE FILE...

check prints each line that is not as TREE's .clang-format wants it, and fails if
there are any; fix rewrites the files.

UCX formats with a clang-format of its own, which has keys that others do not
know. They are left out here, and so is what they decide: the columns of the
members of a structure, the breaks in an initializer with names, and the
backslashes of a macro stay as they are. So do lines that differ in nothing but
blanks where versions of clang-format disagree: before an assignment and a star,
around a macro in a string, and in a directive.
"""

import difflib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Lines that were joined or broken are changed lines then
MAX_PASSES = 4

SUFFIXES = (".c", ".h", ".cc", ".inl")

# What clang-format says of a key, or of its value, that it does not know
UNKNOWN = re.compile(r":(\d+):\d+: error: ")

# What can be neither a brace nor the word before one
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|"
                     r"'(?:\\.|[^'\\\n])*'", re.DOTALL)
# What stands before a brace: "names" of an initializer or of an enumeration are
# one piece to clang-format, each of the "members" of a structure is one
BRACES = (
    ("names", re.compile(r"=\s*(?:\([^()]*\)\s*)?$|\benum\b[^();={}]*$")),
    ("members", re.compile(r"\b(?:struct|union|class)\b[^();={}]*$")),
)
# One piece, too: a variable with a structure of its own, and with its value
UNNAMED = re.compile(r"\bstruct\s*\{[^{}]*\}\s*\w+\s*=\s*\{[^{}]*\};")
MEMBER = re.compile(r"\s*(?:[\w:<>,\s\*\[\]\(\)\.]*;|)\s*$")


# Blanks before an assignment and before a star, around a macro between strings,
# and behind the sign of a directive
DISPUTED = re.compile(r"\s+[-+*/%&|^]?=(?!=)|\s+\*|(?<=\")\s*PRI\w+\s*(?=\"|,|\))|"
                      r"^#\s+")


class format_error(Exception):
    """clang-format cannot be used. The text says why."""


def run_clang_format(content, *arguments):
    """What clang-format makes of a content."""
    run = subprocess.run(["clang-format", *arguments], input=content, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False)
    return run.returncode, run.stdout, run.stderr


@functools.lru_cache(maxsize=None)
def known_keys(text):
    """A .clang-format without the lines that clang-format does not know."""
    if shutil.which("clang-format") is None:
        raise format_error("formatting needs clang-format, which is not "
                           "installed (Debian package clang-format)")
    lines = text.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, ".clang-format")
        while True:
            with open(path, "w", encoding="utf-8") as output:
                output.write("\n".join(lines) + "\n")
            status, _, said = run_clang_format("int a;\n", f"--style=file:{path}",
                                               "--assume-filename=x.c")
            unknown = UNKNOWN.search(said)
            if status == 0:
                return "\n".join(lines) + "\n"
            if not unknown:
                raise format_error(f"clang-format fails: {said.strip()}")
            del lines[int(unknown.group(1)) - 1]


def without_comments(text):
    """The text with comments and strings blanked out, line by line."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def kept_lines(text):
    """The numbers of the lines that UCX's own keys decide about."""
    code, kept, kinds = without_comments(text), set(), []
    before, number, braces = "", 1, {}
    for letter in code:
        if letter == "{":
            kinds.append(next((kind for kind, head in BRACES
                               if head.search(before)),
                              "names" if "names" in kinds else "code"))
            if kinds[-1] == "names":
                kept.add(number)
            before = ""
        elif letter == "}":
            if kinds:
                braces.setdefault(number, kinds[-1])
                kinds.pop()
            before = ""
        elif letter == ";":
            before = ""
        else:
            before += letter
        if letter == "\n":
            number += 1
        if kinds:
            braces.setdefault(number, kinds[-1])
            if kinds[-1] == "names":
                kept.add(number)
    for found in UNNAMED.finditer(code):
        kept.update(range(code.count("\n", 0, found.start()) + 1,
                          code.count("\n", 0, found.end()) + 2))
    for number, (line, code_line) in enumerate(zip(text.splitlines(),
                                                   code.splitlines()), 1):
        if line.endswith("\\"):
            kept.update((number, number + 1))
        elif braces.get(number) == "members" and MEMBER.match(code_line):
            kept.add(number)
    return kept


def ranges(numbers):
    """[(first, last)] of runs of numbers."""
    result = []
    for number in sorted(numbers):
        if result and result[-1][1] == number - 1:
            result[-1] = (result[-1][0], number)
        else:
            result.append((number, number))
    return result


def changed_numbers(before, after):
    """The numbers of the lines of a text that are not those of an earlier one."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(),
                                      after.splitlines(), autojunk=False)
    return {number + 1 for what, _, _, first, last in matcher.get_opcodes()
            if what != "equal" for number in range(first, last)}


def same_but_blanks(old, new):
    """Whether lines are the same, apart from blanks where versions disagree."""
    def plain(line):
        return DISPUTED.sub(lambda found: "".join(found.group(0).split()), line)

    return [*map(plain, old)] == [*map(plain, new)]


def with_new_breaks(before, after):
    """A formatted text, with the lines of the text before it where these differ in
    such blanks only."""
    old, new = before.splitlines(True), after.splitlines(True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return "".join("".join(
        old[a:b] if same_but_blanks(old[a:b], new[c:d]) else new[c:d])
        for _, a, b, c, d in matcher.get_opcodes())


class formatter:
    """Formats by the .clang-format of a UCX tree; in a 'with' statement."""

    def __init__(self, style):
        known = known_keys(style)
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, ".clang-format")
        with open(self.path, "w", encoding="utf-8") as output:
            output.write(known)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.folder.cleanup()

    def formatted(self, name, text, numbers=None):
        """The text as UCX wants it; with numbers, only these lines of it."""
        if not name.endswith(SUFFIXES):
            return text
        if numbers is None:
            numbers = set(range(1, text.count("\n") + 2))
        numbers = set(numbers) - kept_lines(text)
        if not numbers:
            return text
        status, result, said = run_clang_format(
            text, f"--style=file:{self.path}", f"--assume-filename={name}",
            *(f"--lines={first}:{last}" for first, last in ranges(numbers)))
        if status != 0:
            raise format_error(f"clang-format fails on {name}: {said.strip()}")
        return with_new_breaks(text, result)

    def format_changes(self, name, before, after):
        """A text with those of its lines formatted that an earlier text does not
        have."""
        for _ in range(MAX_PASSES):
            text = self.formatted(name, after, changed_numbers(before, after))
            if text == after:
                break
            after = text
        return after

    def unclean(self, name, before, after):
        """[(number, line)] of the lines of a text that are not clean, and that
        an earlier text does not have."""
        wanted = self.format_changes(name, before, after)
        matcher = difflib.SequenceMatcher(None, after.splitlines(),
                                          wanted.splitlines(), autojunk=False)
        lines = after.splitlines()
        return [(number + 1, lines[number]) for what, first, last, _, _
                in matcher.get_opcodes() if what != "equal"
                for number in range(first, max(last, first + 1))
                if number < len(lines)]


def style_of(tree):
    """The text of a tree's .clang-format."""
    path = os.path.join(tree, ".clang-format")
    try:
        with open(path, encoding="utf-8") as source:
            return source.read()
    except FileNotFoundError:
        raise format_error(f"{path}: does not exist") from None


def treat(style, verb, name):
    """Check or fix a file; returns how many of its lines are not clean."""
    with open(name, encoding="utf-8") as source:
        text = source.read()
    lines = style.unclean(name, "", text)
    if verb == "check":
        for number, line in lines:
            print(f"{name}:{number}: {line}")
    elif lines:
        with open(name, "w", encoding="utf-8") as output:
            output.write(style.format_changes(name, "", text))
    return len(lines)


def main(arguments):
    """See the module's text."""
    if len(arguments) < 3 or arguments[0] not in ("check", "fix"):
        print(__doc__.strip())
        return 2
    verb, tree, *names = arguments
    try:
        with formatter(style_of(tree)) as style:
            found = sum(treat(style, verb, name) for name in names)
    except format_error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{found} lines {'were' if verb == 'fix' else 'are'} not clean")
    return 1 if found and verb == "check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
