# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Edits of plain text, for what no structural edit can say: an exact replacement, or a unified diff."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

from .diff import Hunk, parse_diff
from .outcome import Outcome
from .source import Conflict, Source, Splice, first_line, scopes

Span = tuple[int, int]
_LINE_END = re.compile(rb"(?:\r\n|\n|\r)")


def replace(source: Source, edit: dict[str, Any]) -> Outcome:
    """Replace exactly ``count`` occurrences of ``old`` by ``new``, in one scope or in the whole file.

    Where the text is in neither form, the syntax tree is asked: statements that mean what ``new`` means satisfy the
    edit, however they are formatted.
    """
    old, new = edit["old"].encode(), edit["new"].encode()
    regions, bodies = _regions(source, edit["in"])
    if old in new:
        done = _spans(source.text, new, regions)
        todo = _outside(_spans(source.text, old, regions), done)
    else:
        todo = _spans(source.text, old, regions)
        done = _outside(_spans(source.text, new, regions), todo) if new else []
    count = edit["count"]
    if len(todo) == count or (todo and len(todo) + len(done) == count):
        found = 0 if len(todo) == count else len(done)
        return Outcome(missing=[(start, end, _as_there(source, start, end, new)) for start, end in todo], found=found)
    if not todo and (not new or len(done) >= count):
        return Outcome(found=count)
    if not todo and not done and source.is_python and _means_new(bodies, edit):
        return Outcome(found=count, notes=[f"{source.path}: the new statements are there in another form"])
    raise Conflict(
        f"{source.path}: the text to replace stands {len(todo)} times in {edit['in'] or 'the file'} and the new text "
        f"{len(done)} times, not {count} times; it begins with {edit['old'].strip().splitlines()[0]!r}"
    )


def _as_there(source: Source, start: int, end: int, text: bytes) -> bytes:
    """A text of several lines with the line endings of the place that it goes to; a file may have several kinds."""
    there = _LINE_END.search(source.text, start, end)
    return (there[0] if there else source.newline).join(text.split(b"\n"))


def _regions(source: Source, scope: str) -> tuple[list[Span], list[Any]]:
    if not scope:
        return [(0, len(source.text))], [source.tree] if source.is_python else []
    nodes = scopes(source.tree, scope)
    if not nodes:
        raise Conflict(f"{source.path} has no {scope}")
    return [(source.offset(first_line(node), 0), source.end(node)) for node in nodes], nodes


def _spans(text: bytes, part: bytes, regions: list[Span]) -> list[Span]:
    pattern = re.compile(_LINE_END.pattern.join(re.escape(line) for line in part.split(b"\n")))
    return [(found.start(), found.end()) for start, end in regions for found in pattern.finditer(text, start, end)]


def _outside(spans: list[Span], others: list[Span]) -> list[Span]:
    return [span for span in spans if not any(span[0] < other[1] and other[0] < span[1] for other in others)]


def _means_new(bodies: list[Any], edit: dict[str, Any]) -> bool:
    """Whether the statements of ``new`` stand in the tree, and those of ``old`` do not."""
    try:
        old = [ast.dump(node) for node in ast.parse(dedent(edit["old"])).body]
        new = [ast.dump(node) for node in ast.parse(dedent(edit["new"])).body]
    except SyntaxError:
        return False  # parts of statements: only the text can be compared
    if not new:
        return False
    blocks = [
        [ast.dump(node) for node in block]
        for body in bodies
        for parent in ast.walk(body)
        for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
        if isinstance(block, list)
    ]
    return sum(_runs(block, new) for block in blocks) >= edit["count"] and not any(
        _runs(block, old) for block in blocks
    )


def _runs(block: list[str], part: list[str]) -> int:
    return sum(block[at : at + len(part)] == part for at in range(len(block) - len(part) + 1))


def unified_diff(source: Source, edit: dict[str, Any]) -> Outcome:
    """Apply a unified diff without fuzz: each hunk must match exactly, at its line or at one other place."""
    lines = re.findall(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", source.text)
    bare = [line.rstrip(b"\r\n") for line in lines]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    outcome = Outcome()
    shift = 0
    for number, hunk in enumerate(parse_diff(edit["diff"]), 1):
        new = _matches(bare, hunk.side("+"))
        old = [
            at
            for at in _matches(bare, hunk.side("-"))
            if not any(at < top + len(hunk.side("+")) and top < at + len(hunk.side("-")) for top in new)
        ]
        if not old and new:
            outcome.found += 1
            continue
        expected = hunk.line - 1 + shift
        if expected in old:
            at = expected
        elif len(old) == 1:
            at = old[0]
            shift = at - (hunk.line - 1)
        else:
            raise Conflict(_unmatched(source.path, number, hunk, bare, len(old)))
        outcome.missing += _splices(source, hunk, lines, starts, at)
    return outcome


def _matches(lines: list[bytes], block: Sequence[bytes]) -> list[int]:
    return [at for at in range(len(lines) - len(block) + 1) if lines[at : at + len(block)] == block] if block else []


def _splices(source: Source, hunk: Hunk, lines: list[bytes], starts: list[int], at: int) -> list[Splice]:
    splices: list[Splice] = []
    kept = lines[at - 1] if at else b"\n"  # the line that stands before an inserted one
    for sign, line, ended in hunk.body:
        if sign == "+":
            ending = source.newline if ended else b""
            if not kept.endswith((b"\r", b"\n")):  # the file ends without a newline, and goes on doing so
                splices.append((starts[at], starts[at], source.newline + line))
            else:
                splices.append((starts[at], starts[at], line + ending))
            kept = line + source.newline
            continue
        if sign == "-":
            splices.append((starts[at], starts[at + 1], b""))
        else:
            kept = lines[at]
        at += 1
    return splices


def _unmatched(path: str, number: int, hunk: Hunk, lines: list[bytes], places: int) -> str:
    if places:
        return f"{path}: hunk {number} ({hunk.header}) fits at {places} places, none of them its own line"
    stranger = next((line for line in hunk.side("-") if line not in lines), None)
    hint = f"; the file has no line {stranger.decode()!r}" if stranger is not None else "; its lines stand apart"
    return f"{path}: hunk {number} ({hunk.header}) fits nowhere{hint}"
