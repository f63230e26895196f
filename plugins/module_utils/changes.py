# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The vocabulary of plans: what would change, why, and what follows from it.

Every resource of the collection has the same three verbs::

    observe()        -> what is there (read-only, fast, never raises for "absent")
    plan(desired)    -> the changes needed (pure)
    apply(change)    -> do it (atomic, safe to repeat, safe to be killed in)

A module is ``plan``, then, outside check mode, ``apply``, then ``exit_json``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NONE = "none"
RESTART = "restart"
REBUILD = "rebuild"
_ORDER = (NONE, RESTART, REBUILD)


@dataclass(frozen=True)
class Change:
    """One difference between what is there and what is wanted.

    ``resource`` is the kind and, after a slash, the name (``activation/kimi``); ``what`` names the part
    (a file, a package, an option); ``before`` and ``after`` are JSON values and never hold a secret;
    ``consequence`` is what applying it means for a running server: ``none``, ``restart`` or ``rebuild``.
    """

    resource: str
    what: str
    before: Any = None
    after: Any = None
    consequence: str = NONE

    def to_dict(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "what": self.what,
            "before": self.before,
            "after": self.after,
            "consequence": self.consequence,
        }


@dataclass
class Plan:
    """The changes of one or several resources, in the order in which they must be applied.

    ``deferred`` lists what cannot be known yet (a build that does not exist has no options to check). ``noticed`` are
    differences that nothing here ever puts right: a stranger's process, the driver.
    """

    changes: list[Change] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    noticed: list[Change] = field(default_factory=list)

    def add(self, resource: str, what: str, before: Any, after: Any, consequence: str = NONE) -> None:
        """Record the difference, if there is one."""
        if before != after:
            self.changes.append(Change(resource, what, before, after, consequence))

    def notice(self, resource: str, what: str, before: Any, after: Any) -> None:
        """Record a difference that is reported and never corrected, if there is one."""
        if before != after:
            self.noticed.append(Change(resource, what, before, after))

    def extend(self, other: Plan) -> None:
        self.changes.extend(other.changes)
        self.deferred.extend(other.deferred)
        self.noticed.extend(other.noticed)

    @property
    def changed(self) -> bool:
        return bool(self.changes)

    @property
    def consequence(self) -> str:
        """The weightiest consequence of all changes."""
        return max((c.consequence for c in self.changes), key=_ORDER.index, default=NONE)

    def diff(self) -> list[dict[str, Any]]:
        """The changes in the form that ``--diff`` shows: one entry for each resource and part."""
        return [
            {
                "before_header": f"{c.resource}: {c.what}",
                "after_header": f"{c.resource}: {c.what}",
                "before": _text(c.before),
                "after": _text(c.after),
            }
            for c in self.changes
        ]

    def to_list(self) -> list[dict[str, Any]]:
        return [c.to_dict() for c in self.changes]


def _text(value: Any) -> str:
    """A value as lines of text, for a diff."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.endswith("\n") else value + "\n"
    import json

    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
