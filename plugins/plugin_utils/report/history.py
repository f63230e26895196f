# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What earlier runs came to: one line of JSON a run, beside the report; the oldest go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.files import write_atomic

#: So many runs are kept: two weeks of one an hour.
KEEP = 336


def read(path: Path) -> list[dict[str, Any]]:
    """The runs that are kept, oldest first; a line that is no JSON (a disk that was full) is passed over."""
    if not path.exists():
        return []
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            runs.append(json.loads(line))
        except ValueError:
            continue
    return runs


def add(path: Path, report: Mapping[str, Any], earlier: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Keep what this run came to, in place of its ``earlier`` report; all runs that are kept then."""
    entry = {"made_at": report["made_at"], "correct": report["correct"], **report["summary"]}
    runs = [run for run in read(path) if earlier is None or run["made_at"] != earlier["made_at"]]
    runs = [*runs, entry][-KEEP:]
    write_atomic(str(path), "".join(json.dumps(run) + "\n" for run in runs).encode())
    return runs
