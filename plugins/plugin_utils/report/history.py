# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What earlier runs came to: one line of JSON a run, beside the report; the oldest go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.files import write_atomic

from .drift import STATES

#: So many runs are kept: two weeks of one an hour.
KEEP = 336


def read(path: Path) -> list[dict[str, Any]]:
    """The runs that are kept, oldest first; a line that is no run (a disk that was full, another's file) is passed
    over."""
    if not path.exists():
        return []
    return [run for run in map(_run, path.read_bytes().splitlines()) if run is not None]


def _run(line: bytes) -> dict[str, Any] | None:
    try:
        run = json.loads(line)
    except ValueError:
        return None
    if not isinstance(run, dict) or not isinstance(run.get("made_at"), str):
        return None
    return run if all(isinstance(run.get(part), int) for part in ("hosts", *STATES)) else None


def add(path: Path, report: Mapping[str, Any], earlier: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Keep what this run came to, in place of its ``earlier`` report; all runs that are kept then."""
    entry = {"made_at": report["made_at"], "correct": report["correct"], **report["summary"]}
    runs = [run for run in read(path) if earlier is None or run["made_at"] != earlier["made_at"]]
    runs = [*runs, entry][-KEEP:]
    write_atomic(str(path), "".join(json.dumps(run) + "\n" for run in runs).encode())
    return runs
