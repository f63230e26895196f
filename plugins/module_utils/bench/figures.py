# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""From timed requests to figures, and from two sets of figures to a verdict. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from .client import Timed

ON, OFF, UNDECIDED = "on", "off", "undecided"
#: A difference that chance alone would show more often than this decides nothing.
CHANCE = 0.05


def of_run(requests: Sequence[Timed]) -> dict[str, Any]:
    """The figures of one run: output tokens per second over the whole run, and the medians of its requests."""
    wall = max(request.last for request in requests) - min(request.began for request in requests)
    tokens = sum(request.tokens for request in requests)
    verifies = sum(request.verifies for request in requests)
    gaps = [request.itl_s for request in requests if request.itl_s is not None]
    return {
        "output_tok_s": tokens / wall,
        "ttft_ms": 1000 * statistics.median(request.ttft_s for request in requests),
        "itl_ms": 1000 * statistics.median(gaps) if gaps else None,
        "accept_length": tokens / verifies if verifies else None,
    }


def summary(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Median, least, greatest and relative spread (median distance from the median) of repeated runs."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    middle = statistics.median(there)
    return {
        "median": round(middle, 3),
        "min": round(min(there), 3),
        "max": round(max(there), 3),
        "spread": round(_mad(there) / middle, 4) if middle else 0.0,
        "runs": [round(value, 3) for value in there],
    }


def verdict(base: Sequence[float], changed: Sequence[float], min_gain: float = 0.01) -> dict[str, Any]:
    """Whether ``changed`` is faster than ``base`` (tokens per second of repeated runs), in spite of the noise.

    ``decision`` is ``on`` (faster), ``off`` (slower) or ``undecided``; ``ratio`` is that of the medians; ``chance`` is
    how likely so clear an order of the runs would be if there were no difference (Mann-Whitney, both sides, exact): it
    assumes nothing of the noise, and one run that was disturbed cannot decide. A difference counts when it is more than
    ``min_gain`` and its chance at most 5 %; with fewer than four runs on each side that cannot be.
    """
    ratio = statistics.median(changed) / statistics.median(base)
    chance = mann_whitney(base, changed)
    decision = UNDECIDED
    if abs(ratio - 1) > min_gain and chance <= CHANCE:
        decision = ON if ratio > 1 else OFF
    return {"decision": decision, "ratio": round(ratio, 4), "chance": round(chance, 4)}


def mann_whitney(one: Sequence[float], two: Sequence[float]) -> float:
    """The exact two-sided p-value; equal values count for the side that is behind, which is the careful reading."""
    above = sum(a > b for a in one for b in two)
    below = sum(a < b for a in one for b in two)
    smaller = len(one) * len(two) - max(above, below)
    ways = _orders(len(one), len(two))
    return min(1.0, 2 * sum(ways[: smaller + 1]) / math.comb(len(one) + len(two), len(one)))


def _orders(one: int, two: int) -> list[int]:
    """In how many orders of ``one`` + ``two`` different values exactly u pairs are the wrong way round, for each u."""
    ways = {(0, m): [1] for m in range(two + 1)}
    for n in range(1, one + 1):
        ways[n, 0] = [1]
        for m in range(1, two + 1):
            size = n * m + 1
            shifted = [0] * m + ways[n - 1, m]  # the greatest value is of the first kind: above all m of the second
            other = ways[n, m - 1]
            ways[n, m] = [
                (shifted[u] if u < len(shifted) else 0) + (other[u] if u < len(other) else 0) for u in range(size)
            ]
    return ways[one, two]


def _mad(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)
