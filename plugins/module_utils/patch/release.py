# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Versions and ranges of versions, as far as patches need them (the order of PEP 440, without epochs)."""

from __future__ import annotations

import re

from ..errors import InferopsError

_VERSION = re.compile(
    r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|b|rc)(\d*))?(?:[._-]?post(\d*))?(?:[._-]?dev(\d*))?(?:\+.*)?", re.IGNORECASE
)
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*(\S+)")
_PRE = {"a": -3, "b": -2, "rc": -1}

Key = tuple[tuple[int, ...], int, int, int, int]


def key(version: str) -> Key | None:
    """What versions are ordered by, or ``None`` for a text that names no release.

    A checkout without tags calls itself ``0.0.0`` or ``0.0.0.dev0``: that names no release either.
    """
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if not numbers:
        return None
    pre, post, dev = found[2], found[4], found[5]
    phase = _PRE[pre.lower()] if pre else 0
    if dev is not None and not pre and post is None:
        phase = -4  # a development version comes before the first alpha
    return (
        tuple(numbers),
        phase,
        int(found[3] or 0),
        -1 if post is None else int(post or 0),
        int(dev or 0) if dev is not None else 1 << 62,
    )


def clauses(text: str) -> list[tuple[str, Key]]:
    """The clauses of a range such as ``>=0.5.9,<0.5.14``; an empty text has none and holds every version.

    :raises InferopsError: when the text is no range.
    """
    result = []
    for clause in filter(None, (part.strip() for part in text.split(","))):
        found = _CLAUSE.fullmatch(clause)
        bound = key(found[2]) if found else None
        if found is None or bound is None:
            raise InferopsError(
                f"{text!r} is no range of releases: {clause!r} must be one of >=, <=, ==, !=, <, > and a version, "
                "for example '>=0.5.9,<0.5.14'"
            )
        result.append((found[1], bound))
    return result


def contains(text: str, version: str | None) -> bool:
    """Whether the range holds the version. A version that is unknown is in every range."""
    value = key(version) if version else None
    if value is None:
        return True
    tests = {
        ">=": value.__ge__,
        "<=": value.__le__,
        "==": value.__eq__,
        "!=": value.__ne__,
        "<": value.__lt__,
        ">": value.__gt__,
    }
    return all(tests[operator](bound) for operator, bound in clauses(text))
