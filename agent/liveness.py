# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``liveness``: restarts a server that is dead, and only such a one.

A busy server answers late and a loading one not at all; neither is dead. A dead worker is looked at twice, so that
SGLang's own watchdog (and systemd after it) comes first; a silent server has longer than that watchdog waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.files import read_json, write_atomic
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import live
from ansible_collections.inferops.sglang.plugins.module_utils.server.process import record_file

from agent.running import run as runner

#: Between two looks at a dead worker; SGLang ends itself about 5 s after one from 0.5.10 on.
DEAD_AGAIN = 20.0
#: SGLang's default, and what we add to it.
WATCHDOG = 300.0
MARGIN = 60.0


def run(
    instance: str,
    quiet: float,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    look: Callable[..., live.Life] = live.alive,
) -> int:
    """Look once; restart the unit when it is dead."""
    life = look(runner, instance, quiet_s=quiet)
    since = _silent_since(instance, life, clock())
    why = ""
    if life.state == live.DEAD:
        sleep(DEAD_AGAIN)
        again = look(runner, instance, quiet_s=quiet)
        if again.state == live.DEAD and again.invocation == life.invocation:
            why = again.why
    elif since is not None and clock() - since > _patience(instance, life.invocation):
        why = f"silent for {clock() - since:.0f} s: {life.why}"
    if why:
        unit = layout.Instance(instance).unit
        print(f"sglang agent: {unit} is dead and is restarted: {why}", file=sys.stderr)
        subprocess.run(["systemctl", "restart", "--no-block", unit], check=True)
    elif life.state not in (live.ALIVE, live.STOPPED):
        print(f"sglang agent: {instance} is {life.state}: {life.why}", file=sys.stderr)
    return 0


def _silent_since(instance: str, life: live.Life, now: float) -> float | None:
    """Since when this start has been silent; kept between looks, forgotten at the first sign of life."""
    path = os.path.join(layout.Instance(instance).run, "silent.json")
    kept: dict[str, Any] | None = read_json(path)
    if life.state != live.SILENT:
        if kept is not None:
            os.unlink(path)
        return None
    if kept is None or kept["invocation_id"] != life.invocation:
        kept = {"invocation_id": life.invocation, "since": now}
        write_atomic(path, json.dumps(kept).encode())
    return float(kept["since"])


def _patience(instance: str, invocation: str) -> float:
    """Longer than the watchdog of this start waits."""
    record = read_json(record_file(instance, invocation)) or {}
    given = [word.partition("=")[2] for word in record.get("argv", []) if word.startswith("--watchdog-timeout=")]
    return (float(given[-1]) if given else WATCHDOG) + MARGIN
