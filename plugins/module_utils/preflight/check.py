# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The vocabulary of preflight: a check is a pure function from facts to outcomes, in a table with its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from ..errors import InferopsError, nearest
from .facts import Facts

ERROR, WARNING, INFO = "error", "warning", "info"


@dataclass(frozen=True)
class Outcome:
    """What a check found. ``severity`` replaces the check's own; ``deferred``: it cannot be known yet."""

    ok: bool
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    severity: str | None = None
    deferred: bool = False


Result = Union[Outcome, Iterable[Outcome], None]


@dataclass(frozen=True)
class Item:
    """One line of the table: what is checked, how grave it is where it fails, and the function.

    The function returns ``None`` where the check does not apply to the instance.
    """

    name: str
    severity: str
    what: str
    function: Callable[[Facts], Result]


def passed(message: str, **evidence: Any) -> Outcome:
    return Outcome(True, message, evidence)


def failed(message: str, *, severity: str | None = None, **evidence: Any) -> Outcome:
    return Outcome(False, message, evidence, severity)


def deferred(message: str) -> Outcome:
    return Outcome(True, message, deferred=True)


def run(table: Sequence[Item], facts: Facts, acknowledged: Iterable[str]) -> list[dict[str, Any]]:
    """The table's findings for one instance: those that need attention first, in the table's order."""
    accepted = set(acknowledged)
    found = []
    for item in table:
        result = item.function(facts)
        outcomes = [result] if isinstance(result, Outcome) else list(result or [])
        for outcome in outcomes:
            found.append(
                {
                    "name": item.name,
                    "instance": facts.name,
                    "ok": outcome.ok,
                    "severity": outcome.severity or item.severity,
                    "message": outcome.message,
                    "evidence": outcome.evidence,
                    "deferred": outcome.deferred,
                    "acknowledged": not outcome.ok and item.name in accepted,
                }
            )
    order = {ERROR: 0, WARNING: 1, INFO: 2}
    return sorted(found, key=lambda entry: 3 if entry["ok"] else order[str(entry["severity"])])


def refuse_unknown(acknowledged: Iterable[str], table: Sequence[Item], instance: str) -> None:
    """Make sure that every acknowledged name is a check: one that was misspelt would silence nothing, unnoticed.

    :raises InferopsError: naming the nearest check.
    """
    known = [item.name for item in table]
    for name in acknowledged:
        if name not in known:
            raise InferopsError(
                f"instance {instance!r} acknowledges {name!r}, and there is no such check"
                + (nearest(name, known) or f"; the checks are {', '.join(known)}")
            )


def fatal(checks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings that forbid a launch: errors that nobody has acknowledged."""
    return [c for c in checks if not c["ok"] and c["severity"] == ERROR and not c["acknowledged"]]
