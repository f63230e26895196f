# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``breaker``: whether another start makes sense.

A configuration that is wrong stays wrong: two starts that died of the same category are not followed by a third. What
may heal (storage, network, another process's memory, and what nobody knows) is tried again, each time a little later.
A start that was asked for by a deploy is always tried.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.files import read_json, write_atomic
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.categories import (
    BUILD,
    CATEGORIES,
    CONFIGURATION,
)
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation
from ansible_collections.inferops.sglang.plugins.module_utils.server.render import LONGEST_DELAY

from agent import starts

#: Deaths of one kind after which there is no further try.
TRIES = 2
#: Wrong configurations by their look, that storage which is away or a copy that is under way gives, too.
ON_STORAGE = frozenset(
    {"model_path_missing", "weights_missing", "weights_truncated", "model_config_broken", "tokenizer_broken"}
)
#: Seconds before the second retry of what may heal; doubled for each further one.
FIRST_DELAY = 15
#: ExecCondition: any status from 1 to 254 leaves the unit inactive and starts nothing.
REFUSED = 1


@dataclass(frozen=True)
class Death:
    """The end of a start that nobody asked for, before the server was ready."""

    instance: str
    category: str
    cause: str
    log: str

    @property
    def lasting(self) -> bool:
        """Whether the next start would die of it again."""
        return CATEGORIES[self.category].kind in (CONFIGURATION, BUILD) and self.category not in ON_STORAGE


def run(instance: str, sleep: Callable[[float], None] = time.sleep) -> int:
    """Decide, say why, and wait where waiting helps."""
    deaths = recent_deaths(instance)
    refusal = refuse(deaths)
    note = os.path.join(layout.Instance(instance).run, "breaker.json")
    if refusal:
        print(f"sglang agent: not started again: {refusal}", file=sys.stderr)
        entry = {"refused_at": time.time(), "category": deaths[0].category, "why": refusal, "log": deaths[0].log}
        write_atomic(note, (json.dumps(entry) + "\n").encode())
        return REFUSED
    if os.path.exists(note):
        os.unlink(note)
    wait = delay(deaths)
    if wait:
        print(
            f"sglang agent: waiting {wait:g} s after {len(deaths)} starts that died of {deaths[0].category}",
            file=sys.stderr,
        )
        sleep(wait)
    return 0


def recent_deaths(instance: str) -> list[Death]:
    """The deaths in a row, the newest first, since the last start that was asked for or another activation."""
    newest = activation.newest(instance)
    asked = read_json(os.path.join(layout.Instance(instance).run, "asked.json"))
    deaths: list[Death] = []
    for start in starts.past(instance):
        other = newest is not None and start.record["activation"] != newest["n"]
        if other or (asked is not None and start.started_at < asked["at"]) or starts.stop_asked(start):
            break
        state = starts.judged(start)
        if state.was_ready or state.verdict != "failed":
            break
        deaths.append(Death(instance, state.category, state.cause.text.strip()[:300] if state.cause else "", start.log))
        if len(deaths) > 8:
            break
    return deaths


def refuse(deaths: Sequence[Death]) -> str:
    """Why there should be no further start, in words; empty when there should."""
    if len(deaths) < TRIES:
        return ""
    first = deaths[0]
    if not first.lasting or any(death.category != first.category for death in deaths[:TRIES]):
        return ""
    return (
        f"the last {TRIES} starts died of {first.category} ({first.cause}). {CATEGORIES[first.category].advice} "
        f"Log: {first.log}. Once it is cured: deploy.yml, or 'python3 {sys.argv[0]} retry {first.instance}'"
    )


def delay(deaths: Sequence[Death]) -> float:
    """Seconds to wait before a start: more, the more often in a row it died of what may heal."""
    row = 0
    for death in deaths:
        if death.lasting:
            break
        row += 1
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (row - 2)) if row >= 2 else 0.0
