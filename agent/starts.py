# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The starts of an instance on this host, from their records and logs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.files import read_json
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.story import Reader
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import Observation, State, judge

#: So much of a log is read from its beginning: a start that fails is far shorter, a long life of serving is longer.
HEAD = 32 << 20


@dataclass(frozen=True)
class Start:
    """One start; ``record`` is what the launcher noted."""

    record: dict[str, Any]

    @property
    def invocation(self) -> str:
        return str(self.record["invocation_id"])

    @property
    def started_at(self) -> float:
        return float(self.record["started_at"])

    @property
    def log(self) -> str:
        return str(self.record["log"])


def past(instance: str) -> list[Start]:
    """The starts that are on record, the newest first."""
    logs = layout.Instance(instance).logs
    if not os.path.isdir(logs):
        return []
    records = [read_json(os.path.join(logs, name)) for name in os.listdir(logs) if name.endswith(".json")]
    return sorted((Start(record) for record in records if record), key=lambda start: -start.started_at)


def judged(start: Start, unit: str = "dead:signal=KILL", asked: bool = False) -> State:
    """What became of a start, by its log. ``unit`` is its end as systemd tells it; ``asked``: a stop was asked for."""
    reader = Reader()
    try:
        with open(start.log, "rb") as stream:
            reader.feed(stream.read(HEAD))
    except FileNotFoundError:
        pass
    reader.finish()
    return judge(reader.story, Observation(unit=unit, stop_asked=asked))


def stop_asked(start: Start) -> bool:
    """Whether the end of this start was asked for, by our own record."""
    note = read_json(os.path.join(layout.Instance(str(start.record["instance"])).run, "stop.json"))
    return note is not None and note["invocation_id"] == start.invocation
