# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What systemd says of an instance's unit, in one word; and the record and log of a start."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import files, systemd
from ..errors import InferopsError, nearest
from ..layout import Instance
from ..running import Runner

_STATES = re.compile(
    r"active|activating|activating:auto-restart|deactivating|inactive|failed|"
    r"dead:exit=\d+|dead:signal=[A-Z][A-Z0-9+-]*"
)
_EXITED = "1"


@dataclass(frozen=True)
class Unit:
    """The unit of an instance as systemd sees it now. ``pid`` is 0 where no main process runs.

    ``ended`` is how its last main process ended, ``oom_killed`` whether systemd blames that on memory.
    """

    state: str
    pid: int = 0
    invocation: str = ""
    restarts: int = 0
    control_group: str = ""
    found: bool = True
    ended: str = ""
    oom_killed: bool = False


@dataclass(frozen=True)
class Start:
    """One start of an instance, as its launcher recorded it (``<InvocationID>.json``)."""

    invocation: str
    log: str
    host: str = "127.0.0.1"
    port: int = 30000
    started_at: float | None = None
    release: str = ""
    speculative: Mapping[str, Any] | None = None
    tp_size: int = 1
    dp_size: int = 1
    argv: tuple[str, ...] = field(default=())

    @property
    def nodes(self) -> int:
        """How many hosts serve together."""
        return self._given("--nnodes", 1)

    @property
    def node(self) -> int:
        """Which of them this one is. Only the first (0) has a tokenizer and answers requests."""
        return self._given("--node-rank", 0)

    def _given(self, option: str, default: int) -> int:
        given = [word.partition("=")[2] for word in self.argv if word.startswith(option + "=")]
        return int(given[-1]) if given else default


def check_state(text: str) -> str:
    """The given unit state, if it is one; a shell's 128 + N is told as the signal that it means.

    :raises InferopsError: otherwise.
    """
    if _STATES.fullmatch(text):
        code = int(text.partition("exit=")[2] or 0)
        return f"dead:signal={signal_name(code - 128)}" if code > 128 else text
    known = ("active", "activating:auto-restart", "dead:exit=1", "dead:signal=KILL")
    raise InferopsError(
        f"unit_state is {text!r}; wanted active, activating, activating:auto-restart, inactive, dead:exit=N or "
        f"dead:signal=NAME{nearest(text, known)}"
    )


def observe(runner: Runner, instance: Instance) -> Unit:
    """The unit now.

    :raises InferopsError: when systemd does not answer.
    """
    return of_properties(systemd.show(runner, [instance.unit])[instance.unit])


def of_properties(shown: Mapping[str, str]) -> Unit:
    """The unit from the properties that ``systemctl show`` printed."""
    return Unit(
        _word(shown),
        int(shown.get("MainPID") or 0),
        shown.get("InvocationID", ""),
        int(shown.get("NRestarts") or 0),
        shown.get("ControlGroup", ""),
        shown.get("LoadState") != "not-found",
        ended(shown),
        shown.get("Result") == "oom-kill",
    )


def _word(shown: Mapping[str, str]) -> str:
    active = shown.get("ActiveState", "")
    if active == "activating" and shown.get("SubState") == "auto-restart":
        return "activating:auto-restart"
    if active in ("active", "activating", "reloading", "deactivating"):
        return "active" if active == "reloading" else active
    return ended(shown) or "inactive"


def ended(shown: Mapping[str, str]) -> str:
    """How the last main process ended (``dead:exit=3``, ``dead:signal=KILL``), or nothing where none has run."""
    code, status = shown.get("ExecMainCode", "0"), int(shown.get("ExecMainStatus") or 0)
    if code in ("", "0"):
        return ""
    if code == _EXITED:
        # A shell or a launcher reports a signal of what it ran as 128 + N.
        return f"dead:signal={signal_name(status - 128)}" if status > 128 else f"dead:exit={status}"
    return f"dead:signal={signal_name(status)}"


def signal_name(number: int) -> str:
    """``KILL`` for 9, or the number where it has no name."""
    try:
        return signal.Signals(number).name[3:]
    except ValueError:
        return str(number)


def start_of(instance: Instance, invocation: str) -> Start | None:
    """The record of a start, or ``None`` where there is none (yet)."""
    record = files.read_json(record_path(instance, invocation))
    if record is None:
        return None
    return Start(
        invocation,
        record.get("log") or os.path.join(instance.logs, invocation + ".log"),
        record.get("host") or "127.0.0.1",
        int(record.get("port") or 30000),
        record.get("started_at"),
        record.get("release") or "",
        record.get("speculative"),
        int(record.get("tp_size") or 1),
        int(record.get("dp_size") or 1),
        tuple(record.get("argv") or ()),
    )


def record_path(instance: Instance, invocation: str) -> str:
    """Where the launcher keeps the record of a start."""
    return os.path.join(instance.logs, invocation + ".json")


def newest(instance: Instance) -> str:
    """The invocation whose log was begun last.

    :raises InferopsError: when the instance has never been started.
    """
    try:
        names = [name for name in os.listdir(instance.logs) if re.fullmatch(r"[0-9a-f]{32}\.log", name)]
    except OSError:
        names = []
    if not names:
        raise InferopsError(
            f"no log of instance {instance.name!r} in {instance.logs}: it has not been started on this host; "
            "start it with deploy.yml, or give path"
        )
    return max(names, key=lambda name: os.stat(os.path.join(instance.logs, name)).st_mtime_ns)[:-4]


def stop_asked(instance: Instance, invocation: str) -> bool:
    """Whether our own record says that this start was asked to stop."""
    record = files.read_json(os.path.join(instance.run, "stop.json"))
    return bool(record) and record.get("invocation_id") == invocation
