# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The hunks of a unified diff. The line counts in a hunk's header say where it ends: a hunk that lost a line on its way
here is no hunk, and a line that looks like a file header inside one is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import InferopsError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_CONTEXT = 3  # lines of context that diff puts behind a change
_HEADER = re.compile(r"(?:--- |\+\+\+ |diff |index |old mode |new mode |similarity |\\)")


@dataclass
class Hunk:
    """One hunk: its place in the old file, and its lines with their sign (`` ``, ``-``, ``+``) and final newline."""

    header: str
    line: int
    body: list[tuple[str, bytes, bool]] = field(default_factory=list)

    def side(self, sign: str) -> list[bytes]:
        return [line for mark, line, dummy in self.body if mark in (" ", sign)]


def parse_diff(text: str) -> list[Hunk]:
    """The hunks of a diff of one file.

    :raises InferopsError: when the text holds no hunk, one with more or fewer lines than it says, a line that belongs
        to none, or the changes of a second file.
    """
    hunks: list[Hunk] = []
    lines = text.rstrip("\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        found = _HUNK.match(line)
        if found:
            hunk = Hunk(line, int(found[1]))
            at = _body(hunk, lines, at + 1, int(found[2] or 1), int(found[3] or 1))
            hunks.append(hunk)
            continue
        if line.startswith("--- ") and hunks:
            raise InferopsError(f"the diff changes a second file ({line[4:]}); give each file an edit of its own")
        if line.strip() and not _HEADER.match(line):
            raise InferopsError(f"the diff has a line that belongs to no hunk: {line!r}")
        at += 1
    if not hunks:
        raise InferopsError("the diff has no hunk (@@ -1,3 +1,4 @@)")
    return hunks


def _body(hunk: Hunk, lines: list[str], at: int, old: int, new: int) -> int:
    """Take the lines of a hunk that has ``old`` and ``new`` of them; where they end."""
    wanted = f"{old} old and {new} new lines"
    while old or new:
        # editors strip the space of an empty context line, and YAML the last empty lines of a text
        line = lines[at] if at < len(lines) else ""
        sign, rest = (line[0], line[1:]) if line else (" ", "")
        left_old, left_new = old - (sign in " -"), new - (sign in " +")
        if sign not in " -+" or left_old < 0 or left_new < 0 or at >= len(lines) + _CONTEXT:
            raise InferopsError(
                f"the hunk {hunk.header} promises {wanted} and has others, at line {at + 1} of the diff: {line!r}"
            )
        hunk.body.append((sign, rest.encode(), True))
        old, new = left_old, left_new
        at += 1
        if at < len(lines) and lines[at].startswith("\\"):
            hunk.body[-1] = (sign, rest.encode(), False)
            at += 1
    return at
