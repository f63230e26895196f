# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One entry of the tables of what failures look like (``exceptions``, ``signatures``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECONDARY = 5
WRAPPER = 20
GENERIC = 30
NORMAL = 50
SPECIFIC = 70
EXACT = 90


@dataclass(frozen=True)
class Signature:
    category: str
    pattern: re.Pattern[str]
    priority: int = NORMAL
    frames: re.Pattern[str] | None = None
    header: re.Pattern[str] | None = None
    phase: str = ""
    advice: str = ""
    source: tuple[str, ...] = ()
    since: str = ""
    until: str = ""


def signature(
    category: str,
    pattern: str,
    priority: int = NORMAL,
    *,
    frames: str = "",
    header: str = "",
    phase: str = "",
    advice: str = "",
    source: tuple[str, ...] = (),
    since: str = "",
    until: str = "",
) -> Signature:
    return Signature(
        category,
        re.compile(pattern),
        priority,
        re.compile(frames) if frames else None,
        re.compile(header) if header else None,
        phase,
        advice,
        source,
        since,
        until,
    )
