# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One look at a running server, without waiting: is it alive, what is it doing, what became of it.

For the host agent's liveness timer and its ``status`` and ``diagnose`` commands; no Ansible here.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Any

from ..layout import Instance
from ..running import Runner
from . import evidence, http, report
from . import signatures as sig
from . import unit as units
from .inspect import local_clock, observed, of_instance, read
from .lines import Splitter
from .verdict import STARTING as STILL_STARTING
from .verdict import judge

ALIVE = "alive"
BUSY = "busy"
STARTING = "starting"
SILENT = "silent"
DEAD = "dead"
STOPPED = "stopped"

_TAIL = 256 << 10
_COUNTERS = re.compile(
    r"^sglang:(?:generation_tokens_total|prompt_tokens_total|num_requests_total|realtime_tokens_total)\S* (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Life:
    """What a look found.

    ``state``: ``alive`` (tokens came), ``busy`` (no answer in time, and batches go on), ``starting`` (not serving
    yet, which is not this look's business), ``silent`` (no answer, and nothing moves: dead if it stays so beyond
    SGLang's own watchdog), ``dead`` (now, certainly), ``stopped`` (no process). ``category`` and ``why`` say more.
    """

    state: str
    why: str = ""
    category: str = ""
    pid: int = 0
    invocation: str = ""
    generation: http.Generation | None = None


def alive(runner: Runner, name: str, *, quiet_s: float = 60.0, patience_s: float = 60.0) -> Life:
    """Whether the server of an instance generates.

    A dead worker under a living main process is found at once, without asking anything. A server that worked in the
    last ``quiet_s`` seconds is alive; any other is asked for one token (of every data-parallel rank) and has
    ``patience_s`` for it.

    :raises InferopsError: when systemd does not answer.
    :raises OSError: when the key of the server cannot be read.
    """
    instance = Instance(name)
    unit = units.observe(runner, instance)
    if unit.pid == 0:
        return Life(STOPPED, f"{instance.unit} is {unit.state}", invocation=unit.invocation)
    start = units.start_of(instance, unit.invocation)
    processes = evidence.Processes(unit.pid, unit.control_group)
    dead = processes.dead_children()
    if dead:
        names = ", ".join(f"{process.name} (pid {process.pid}) {evidence.exit_of(process.pid)}" for process in dead)
        return Life(DEAD, f"ended: {names}", "child_sigkill_zombie_service", unit.pid, unit.invocation)
    if start is not None and start.node > 0:
        return _follower(start, unit, processes)
    if start is None or not processes.own(start.port):
        return Life(STARTING, "does not listen yet", pid=unit.pid, invocation=unit.invocation)
    worked = last_batch(start.log)
    if worked is not None and local_clock(time.time()) - worked <= quiet_s:
        return Life(ALIVE, "worked just now", pid=unit.pid, invocation=unit.invocation)
    return _ask(instance, start, unit, patience_s)


def _follower(start: units.Start, unit: units.Unit, processes: evidence.Processes) -> Life:
    """A node other than the first cannot be asked, and its health answer says nothing: its workers are looked at."""
    if read(start.log).story.ready is None or not processes.has_workers():
        return Life(STARTING, "its workers are not ready yet", pid=unit.pid, invocation=unit.invocation)
    return Life(ALIVE, "its workers live; node 0 is asked for tokens", pid=unit.pid, invocation=unit.invocation)


def _ask(instance: Instance, start: units.Start, unit: units.Unit, patience_s: float) -> Life:
    key = http.api_key(instance)
    asked_at, before = local_clock(time.time()), counters(start, key)
    ranks: list[int | None] = list(range(start.dp_size)) if start.dp_size > 1 else [None]
    answer = None
    for rank in ranks:
        answer = http.generate(start.host, start.port, key=key, dp_rank=rank, timeout=patience_s)
        if answer.ok:
            continue
        who = "" if rank is None else f" of data-parallel rank {rank}"
        worked = last_batch(start.log)
        after = counters(start, key)
        moving = (worked is not None and worked > asked_at + 1) or (before is not None and after != before)
        state, category = (BUSY, "") if moving else (SILENT, "no_generation")
        return Life(state, f"no token{who}: {answer.error}", category, unit.pid, unit.invocation, answer)
    return Life(ALIVE, "a token came back", "", unit.pid, unit.invocation, answer)


def counters(start: units.Start, key: str | None) -> tuple[str, ...] | None:
    """The server's counters of tokens and requests, or ``None`` where it does not tell (metrics are off)."""
    try:
        status, text = http.request(start.host, start.port, "GET", "/metrics", key=key, timeout=5.0)
    except OSError:
        return None
    return tuple(_COUNTERS.findall(text)) if status == 200 and isinstance(text, str) else None


def last_batch(log: str) -> float | None:
    """When the scheduler last said that it had run a batch, on the log's clock."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
            pieces = Splitter().feed(stream.read())
    except OSError:
        return None
    stamps = [piece.stamp for piece in pieces if piece.stamp is not None and sig.BATCH.match(piece.message)]
    return stamps[-1] if stamps else None


def status(runner: Runner, name: str) -> dict[str, Any]:
    """What an instance is doing: unit, release, address, phase in words, since when."""
    instance = Instance(name)
    unit = units.observe(runner, instance)
    start = units.start_of(instance, unit.invocation) if unit.invocation else None
    told: dict[str, Any] = {
        "instance": name,
        "unit": instance.unit,
        "unit_state": unit.state,
        "pid": unit.pid,
        "invocation": unit.invocation,
        "release": start.release if start else "",
        "url": f"http://{http.reachable(start.host)}:{start.port}" if start else "",
        "started_at": start.started_at if start else None,
        "log": start.log if start else "",
        "restarts": unit.restarts,
    }
    if start is None or not os.path.exists(start.log):
        return {**told, "verdict": STOPPED if unit.pid == 0 else STILL_STARTING, "doing": unit.state}
    story = read(start.log).story
    state = judge(story, observed(instance, unit))
    return {
        **told,
        "verdict": state.verdict,
        "category": state.category,
        "doing": report.doing(story) if state.verdict == STILL_STARTING else state.verdict,
        "phases": report.timeline(story, start),
        "hint": state.hint,
    }


def diagnose(runner: Runner, name: str, invocation: str = "") -> dict[str, Any]:
    """What became of a start: the verdict with its cause, and, where it runs, the state of its processes."""
    told = of_instance(runner, name, invocation)
    unit = units.observe(runner, Instance(name))
    if unit.pid and told["invocation"] == unit.invocation:
        processes = evidence.Processes(unit.pid, unit.control_group)
        told["processes"] = evidence.stacks(runner, processes.members(), unit.pid)
    return told
