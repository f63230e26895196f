# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One file, its text before any patch, and the edits of all patches on it: the text after them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from .edits import evaluate
from .source import Conflict, Source

Work = list[tuple[str, dict[str, Any]]]  # (patch name, edit), in order


@dataclass
class Part:
    """What became of one patch in one file: parts that were there, parts that were added, and remarks."""

    found: int = 0
    added: int = 0
    notes: list[str] = field(default_factory=list)
    conflict: str = ""


@dataclass
class Derived:
    data: bytes
    parts: dict[str, Part]

    @property
    def conflicts(self) -> dict[str, str]:
        return {name: part.conflict for name, part in self.parts.items() if part.conflict}


def derive(raw: bytes, path: str, work: Work) -> Derived:
    """Apply the edits, one patch after the other.

    Nothing is raised: a patch that cannot be applied carries its conflict, and the data is then of no use.
    """
    parts: dict[str, Part] = {name: Part() for name, dummy in work}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" in files that are not ours
        try:
            original = source = Source(raw, path)
        except Conflict as error:
            for part in parts.values():
                part.conflict = str(error)
            return Derived(raw, parts)
        changed_by: list[str] = []
        for name, edit in work:
            part = parts[name]
            if part.conflict:
                continue
            try:
                source = _step(original, source, name, edit, part, changed_by)
            except Conflict as error:
                part.conflict = str(error)
        data = source.encoded(source.text) if source is not original else raw
        if changed_by and not any(part.conflict for part in parts.values()):
            _prove(source, data, work, parts)
    return Derived(data, parts)


def _step(
    original: Source, source: Source, name: str, edit: dict[str, Any], part: Part, changed_by: list[str]
) -> Source:
    others = [other for other in changed_by if other != name]
    try:
        outcome = evaluate(source, edit)
    except Conflict as error:
        if others and _fits(original, edit):
            raise Conflict(f"{error}; the patch {' or '.join(others)} changes the same place") from error
        raise
    if outcome.notes and others and not _noted(original, edit):
        raise Conflict(f"{outcome.notes[0]}, as the patch {' or '.join(others)} wants it")
    part.found += outcome.found
    part.notes += outcome.notes
    if outcome.satisfied:
        return source
    part.added += len(outcome.missing)
    result = Source(source.encoded(source.spliced(outcome.missing)), source.path)
    after = evaluate(result, edit)
    if not after.satisfied or len(after.notes) != len(outcome.notes):  # their line numbers may be others now
        raise Conflict(
            f"{source.path}: the edit ({edit['kind']}) was made, and what it promises does not hold after it"
        )
    changed_by.append(name)
    return result


def _fits(source: Source, edit: dict[str, Any]) -> bool:
    try:
        evaluate(source, edit)
    except Conflict:
        return False
    return True


def _noted(source: Source, edit: dict[str, Any]) -> bool:
    try:
        return bool(evaluate(source, edit).notes)
    except Conflict:
        return False


def _prove(source: Source, data: bytes, work: Work, parts: dict[str, Part]) -> None:
    """After all edits: what every patch promised still holds, and the file compiles."""
    for name, edit in work:
        try:
            kept = evaluate(source, edit).satisfied
        except Conflict:
            kept = False
        if not kept:
            parts[name].conflict = f"{source.path}: what the patch {name} adds is undone by another patch"
    if source.is_python:
        try:
            compile(data, source.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            for part in parts.values():
                part.conflict = f"{source.path} does not compile after the edits: {error}"
