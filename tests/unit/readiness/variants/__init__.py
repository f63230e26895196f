"""Failures that nobody has recorded here, in the words that SGLang, torch, NCCL and Python print them.

Each variant writes a log, and says what must be found: verdict, category, the number of the cause line, the rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.readiness.lines import moment
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.story import Reader
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.unit import check_state
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import Observation, State, judge
from writing import Log

KILLED = "dead:signal=KILL"
ALL: dict[str, Callable[[], Wanted]] = {}


@dataclass
class Wanted:
    """``after``: seconds of silence at the moment of looking; ``more``: what else is observed.

    ``began``: when the start that is meant began, where the log holds an earlier one too.
    """

    log: Log
    line: int | None
    category: str
    verdict: str = "failed"
    unit: str = KILLED
    rank: str = ""
    phase: str = ""
    after: float = 1.0
    more: dict[str, Any] = field(default_factory=dict)
    began: str = ""
    was_ready: bool | None = None


def variant(build: Callable[[], Wanted]) -> Callable[[], Wanted]:
    """Registers a variant under its name."""
    ALL[build.__name__] = build
    return build


def found(wanted: Wanted) -> State:
    """What the engine says of it."""
    reader = Reader(moment(wanted.began) if wanted.began else None)
    reader.feed(wanted.log.data)
    reader.finish()
    now = moment(wanted.log.now) + wanted.after
    return judge(
        reader.story, Observation(unit=check_state(wanted.unit) if wanted.unit else "", now=now, **wanted.more)
    )
