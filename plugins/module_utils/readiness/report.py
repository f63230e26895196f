# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What a person sees of a wait: a line now and then, and at its end the timeline of phases."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import milestones as ms
from .gate import Gate
from .inspect import local_clock
from .story import Story
from .unit import Start

EVERY_S = 15.0
_WORDS = {
    ms.IMPORT: "importing",
    ms.ARGS: "starting its processes",
    ms.DIST_INIT: "distributed init",
    ms.WEIGHTS: "weights",
    ms.WEIGHTS_DRAFT: "draft weights",
    ms.KV_POOL: "KV cache",
    ms.KV_POOL_DRAFT: "draft KV cache",
    ms.CAPTURE: "graph capture",
    ms.CAPTURE_DRAFT: "draft graph capture",
    ms.KV_POOL_HOST: "KV cache in host memory",
    ms.HTTP_BIND: "HTTP",
    ms.WARMUP: "warm-up",
    ms.SERVING: "serving, asking for a generation",
}
_BARS = (ms.WEIGHTS, ms.WEIGHTS_DRAFT, ms.CAPTURE, ms.CAPTURE_DRAFT)


class Line:
    """Says what a start is doing: when the phase changes, and every 15 seconds."""

    def __init__(self, name: str, say: Callable[[str], None] | None) -> None:
        self._name = name
        self._say = say
        self._began = time.monotonic()
        self._phase = ""
        self._at = 0.0

    def tell(self, story: Story, gate: Gate | None) -> None:
        """Say it, if it is time."""
        now = time.monotonic()
        if self._say is None or (story.phase == self._phase and now - self._at < EVERY_S):
            return
        self._phase, self._at = story.phase, now
        self._say(f"{self._name} ▸ {doing(story, gate)}  {clock(now - self._began)}")


def doing(story: Story, gate: Gate | None = None) -> str:
    """The phase in words, with its progress and the rank that is behind."""
    words = _WORDS[story.phase]
    if story.jit is not None:
        words += ", compiling kernels"
    drawn = story.drawn
    if drawn is not None and story.phase in _BARS and drawn.done < drawn.total:
        words += f" {drawn.percent} % ({drawn.done}/{drawn.total}"
        slowest = _behind(story)
        words += f", slowest {slowest})" if slowest else ")"
    if gate is not None and gate.first is not None:
        words = gate.doing
    return words


def _behind(story: Story) -> str:
    """The rank that has reached least, if it is one alone."""
    counts = {rank: len(reached) for rank, reached in story.ranks.items() if rank}
    if not counts:
        return ""
    least = min(counts.values())
    behind = [rank for rank, count in counts.items() if count == least]
    return behind[0] if len(behind) == 1 and len(counts) > 1 else ""


def clock(seconds: float) -> str:
    """``3m12s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def timeline(story: Story, start: Start | None) -> list[dict[str, Any]]:
    """The phases in the order in which the first rank entered them: name, seconds after the start, and how long.

    From the log's own clock, which has whole seconds; the last one has no length before the server serves.
    """
    entered: dict[str, float] = {}
    for reached in story.ranks.values():
        for phase, span in reached.items():
            piece = span.begin or span.end
            if piece is not None and piece.stamp is not None:
                entered[phase] = min(entered.get(phase, piece.stamp), piece.stamp)
    if not entered:
        return []
    ordered = sorted(entered, key=lambda phase: (entered[phase], ms.PHASES.index(phase)))
    zero = entered[ordered[0]]
    if start is not None and start.started_at is not None:
        zero = min(zero, local_clock(start.started_at))
        entered[ms.IMPORT] = zero
        ordered.insert(0, ms.IMPORT)
    ends = [entered[phase] for phase in ordered[1:]]
    return [
        {
            "name": phase,
            "started": round(entered[phase] - zero, 3),
            "seconds": round(ends[index] - entered[phase], 3) if index < len(ends) else None,
        }
        for index, phase in enumerate(ordered)
    ]
