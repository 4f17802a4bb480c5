#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""What a UCX tree has of what differs between versions, and the overlay's files
with the branches for other trees cut out."""

import re
import subprocess

PREFIX = "UCX_HAS_"
USED = re.compile(r"\b" + PREFIX + r"\w+")

# A C comment, or a string, which may hold what looks like one
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")', re.DOTALL)

# What a file of each kind may hold and still be empty
HASH_COMMENTS = re.compile(r"(#[^\n]*\n|\s)*\Z")
NOTHING = {
    ".am.add": HASH_COMMENTS,
    ".cocci": re.compile(r"(//[^\n]*\n|\s)*\Z"),
    "/series": HASH_COMMENTS,
    "": re.compile(r"(//[^\n]*\n|/\*(?:(?!\*/).)*\*/|\s)*\Z", re.DOTALL),
}


class unclear(Exception):
    """A file of ours says something that cannot be followed."""


def probes(listing):
    """[(name, file, pattern)] of a list as buildlib/features is one."""
    found = []
    for line in listing.splitlines():
        rule = line.partition("#")[0].split()
        if not rule:
            continue
        if len(rule) != 3 or not rule[0].startswith(PREFIX):
            raise unclear(f"buildlib/features: '{line}': should be "
                          f"'{PREFIX}... FILE REGEX'")
        found.append((rule[0], rule[1], re.compile(rule[2])))
    return found


def code_of(content):
    """C code without comments, and with one blank for each run of them."""
    if content is None:
        return ""
    text = COMMENT.sub(lambda found: found.group(1) or " ",
                       content.decode(errors="replace"))
    return re.sub(r"\s+", " ", text)


def features(listing, content_of):
    """{name: whether the tree has it}. @a content_of gives the content of a file
    of the tree, None if there is no such file."""
    codes, result = {}, {}
    for name, path, pattern in probes(listing):
        if path not in codes:
            codes[path] = code_of(content_of(path))
        result[name] = bool(pattern.search(codes[path]))
    return result


def kind_of_text(name):
    """The key in NOTHING."""
    return next(end for end in NOTHING if name.endswith(end))


def resolve(name, content, having):
    """The content of an overlay's file for a tree with these features; None if
    nothing but comments is left of it."""
    text = content.decode()
    if not USED.search(text):
        return content
    unknown = sorted(set(USED.findall(text)) - set(having))
    if unknown:
        raise unclear(f"{name}: {', '.join(unknown)}: not in buildlib/features")
    kind = kind_of_text(name)
    # Only C has comments and strings that could hide a directive
    command = ["unifdef", "-B"] + (["-t"] if kind else [])
    command += [f"-D{feature}={int(has)}" for feature, has in having.items()]
    try:
        run = subprocess.run(command, input=content, capture_output=True,
                             check=False)
    except FileNotFoundError:
        raise unclear(f"{name}: files with '#if {PREFIX}...' need unifdef, which "
                      "is not installed (Debian package unifdef)") from None
    if run.returncode > 1:
        raise unclear(f"{name}: {run.stderr.decode().strip()}")
    left = USED.search(run.stdout.decode())
    if left:
        raise unclear(f"{name}: {left.group()} is more than '#if' with !, && and "
                      "|| can say")
    return None if NOTHING[kind].match(run.stdout.decode()) else run.stdout
