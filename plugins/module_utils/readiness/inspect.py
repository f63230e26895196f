# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Diagnosis after the fact: a log file, what systemd said, and a moment of looking."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ..errors import InferopsError
from ..layout import Instance
from ..running import Runner
from . import evidence
from . import unit as units
from .lines import moment
from .story import Reader
from .verdict import Observation, judge

_BLOCK = 1 << 20


def read(path: str, began_at: float | None = None) -> Reader:
    """The story of a log file, read to its end.

    :raises InferopsError: when it cannot be read.
    """
    reader = Reader(began_at)
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                reader.feed(block)
    except OSError as error:
        raise InferopsError(f"cannot read the log {path}: {error.strerror}; give the path of a start's log") from error
    reader.finish()
    return reader


def of_file(path: str, unit_state: str = "", observed_at: str = "", started_at: str = "") -> dict[str, Any]:
    """The diagnosis of a log file; times as the log has them.

    :raises InferopsError: when the file cannot be read, or a time or the unit state is not one.
    """
    state = units.check_state(unit_state) if unit_state else ""
    seen = Observation(unit=state, now=when(observed_at, "observed_at") if observed_at else None)
    reader = read(path, when(started_at, "started_at") if started_at else None)
    return {**judge(reader.story, seen).to_dict(), "log": path}


def of_instance(
    runner: Runner, name: str, invocation: str = "", unit_state: str = "", observed_at: str = ""
) -> dict[str, Any]:
    """The diagnosis of an instance's present or past start.

    :raises InferopsError: as ``of_file``, and when the instance has no log.
    """
    instance = Instance(name)
    unit = units.observe(runner, instance)
    chosen = invocation or unit.invocation
    start = units.start_of(instance, chosen) if chosen else None
    if start is None and not invocation:
        chosen = units.newest(instance)
        start = units.start_of(instance, chosen)
    path = start.log if start else f"{instance.logs}/{chosen}.log"
    seen = observed(instance, unit) if chosen == unit.invocation else Observation(unit="inactive")
    seen = replace(
        seen,
        unit=units.check_state(unit_state) if unit_state else seen.unit,
        now=when(observed_at, "observed_at") if observed_at else seen.now,
        stop_asked=units.stop_asked(instance, chosen),
    )
    return {**judge(read(path).story, seen).to_dict(), "log": path, "invocation": chosen, "unit_state": seen.unit}


def observed(instance: Instance, unit: units.Unit) -> Observation:
    """What can be seen of an instance's present start just now, beside its log."""
    dead: list[tuple[str, str]] = []
    live = False
    if unit.pid:
        processes = evidence.Processes(unit.pid, unit.control_group)
        dead = [(process.name, evidence.exit_of(process.pid)) for process in processes.dead_children()]
        live = not dead and processes.has_workers()
    return Observation(
        unit=unit.state if unit.pid else (unit.ended or unit.state),
        now=local_clock(time.time()) if unit.pid else None,
        stop_asked=units.stop_asked(instance, unit.invocation),
        dead_children=tuple(dead),
        workers_live=live,
    )


def when(text: str, option: str) -> float:
    """A time of the log's clock, from the log's own form, ISO 8601 or Unix seconds.

    :raises InferopsError: when it is none of these.
    """
    try:
        return local_clock(float(text))
    except ValueError:
        pass
    try:
        return moment(text)
    except ValueError as error:
        raise InferopsError(
            f"{option} is {text!r}; wanted a time like 2026-11-20 10:01:04 (the log's local time) or Unix seconds"
        ) from error


def local_clock(unix: float) -> float:
    """Unix seconds as the host's local time read as if it were UTC: the clock of the logs."""
    return unix + time.localtime(unix).tm_gmtoff
