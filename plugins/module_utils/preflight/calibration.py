# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the last good start of an instance really took of a GPU's memory, from the log that it left."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import layout
from ..files import read_json
from ..server import activation

# The ready line comes within the first megabytes of a log; what follows is traffic.
_LONGEST = 64 << 20
_WEIGHTS = re.compile(r"Load weight end\..*?type=(\w+).*?mem usage=([\d.]+) GB")
_SERVES = re.compile(r"max_total_num_tokens=(\d+).*?(?:available_gpu_mem=([\d.]+) GB)?$")


@dataclass(frozen=True)
class Measured:
    """Sizes are GiB on one GPU (SGLang prints GB and means GiB); ``tokens`` fit into the KV cache."""

    weights: float
    draft: float
    tokens: int
    left: float | None
    log: str


def last_good_start(instance: dict[str, Any]) -> Measured | None:
    """The figures of the newest start of the last good activation, if it served the same model on as many GPUs."""
    name = instance["name"]
    good = activation.last_good(name)
    if good is None:
        return None
    records = [read_json(path) for path in glob.glob(os.path.join(layout.Instance(name).logs, "*.json"))]
    starts = [r for r in records if r and r.get("activation") == good["n"]]
    starts = [r for r in starts if f"--model-path={instance['model_path']}" in r["argv"]]
    if not starts:
        return None
    newest = max(starts, key=lambda record: float(record["started_at"]))
    try:
        with open(newest["log"], encoding="utf-8", errors="replace") as stream:
            return measure(stream.read(_LONGEST).splitlines(), newest["log"])
    except FileNotFoundError:
        return None


def measure(lines: Iterable[str], log: str) -> Measured | None:
    """The figures of the first rank that a log shows; ``None`` where the start never came to serve."""
    loaded: list[float] = []
    rank: str | None = None
    for line in lines:
        prefix = line.partition("]")[0]
        who = prefix.rpartition(" ")[2] if re.search(r" (TP|DP|PP)\d+", prefix) else ""
        found = _WEIGHTS.search(line)
        if found and rank in (None, who):
            rank = who
            loaded.append(float(found.group(2)))
        served = _SERVES.search(line)
        if served and loaded:
            left = float(served.group(2)) if served.group(2) else None
            return Measured(loaded[0], sum(loaded[1:]), int(served.group(1)), left, log)
    return None
