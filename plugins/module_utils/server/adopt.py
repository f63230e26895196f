# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""SGLang servers that someone started by hand: recognised by their command and port, ended politely."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import procfs
from ..errors import InferopsError
from ..hiding import redacted

#: SGLang's own default.
DEFAULT_PORT = 30000


@dataclass(frozen=True)
class Stranger:
    """The main process of a server that is not ours."""

    pid: int
    started: int
    argv: list[str]
    unit: str | None

    @property
    def command(self) -> str:
        """The command line, without the keys in it."""
        return " ".join(redacted(self.argv))

    @property
    def age(self) -> int:
        """Seconds since it was started."""
        with open("/proc/uptime", encoding="ascii") as stream:
            up = float(stream.read().split()[0])
        return int(up - self.started / os.sysconf("SC_CLK_TCK"))

    def describe(self) -> dict[str, Any]:
        return {"pid": self.pid, "age_s": self.age, "unit": self.unit, "command": self.command}


def strangers(port: int, own_unit: str) -> list[Stranger]:
    """The SGLang servers for this port that do not run in ``own_unit``. Children of a server are not servers.

    A server in a network of its own (a container's) has another port of that number.
    """
    found = {}
    table = procfs.processes()
    for process in table.values():
        argv = procfs.cmdline(process.pid)
        if is_server(argv) and port_of(argv) == port and process.state != "Z" and _shares_network(process.pid):
            unit = procfs.unit(process.pid)
            if unit != own_unit:
                found[process.pid] = Stranger(process.pid, process.started, argv, unit)
    return [server for pid, server in sorted(found.items()) if table[pid].ppid not in found]


def is_server(argv: list[str]) -> bool:
    """Whether a command starts an SGLang server."""
    words = [os.path.basename(word) for word in argv[:4]]
    return (
        "sglang.launch_server" in words
        or "launch_server.py" in words
        or words[-3:-1] == ["sglang", "serve"]
        or (words[:2] == ["sglang", "serve"])
    )


def port_of(argv: list[str]) -> int | None:
    """The port that a server's command names, or SGLang's default."""
    for index, word in enumerate(argv):
        option, separator, value = word.partition("=")
        if option == "--port":
            text = value if separator else (argv[index + 1] if index + 1 < len(argv) else "")
            return int(text) if text.isdigit() else None
    return DEFAULT_PORT


def refuse(name: str, found: list[Stranger]) -> InferopsError:
    """The error for servers that may not be taken over."""
    shown = "; ".join(f"pid {s.pid}, {s.age} s old, {s.unit or 'no unit'}: {s.command}" for s in found)
    return InferopsError(
        f"the port of instance {name!r} belongs to an SGLang server that this collection did not start ({shown}). "
        "To end it, after its running requests, and take its place, run again with -e adopt=true",
        strangers=[s.describe() for s in found],
    )


def end(
    server: Stranger,
    drain: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """End a stranger: SIGTERM to its main process (which drains), SIGKILL to it and its children after ``drain`` s.

    Returns the name of the signal that did it.
    """
    family = [(p.pid, p.started) for p in procfs.descendants(server.pid)]
    _signal(server.pid, server.started, signal.SIGTERM)
    until = clock() + drain
    while _lives(server.pid, server.started) and clock() < until:
        sleep(0.2)
    word = "SIGKILL" if _lives(server.pid, server.started) else "SIGTERM"
    for pid, started in [(server.pid, server.started), *family]:
        _signal(pid, started, signal.SIGKILL)
    until = clock() + 30
    while any(_lives(pid, started) for pid, started in [(server.pid, server.started), *family]):
        if clock() > until:
            raise InferopsError(
                f"pid {server.pid} or a child of it does not end, not even by SIGKILL: {server.command}"
            )
        sleep(0.1)
    return word


def _shares_network(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def _lives(pid: int, started: int) -> bool:
    process = procfs.read(pid)
    return process is not None and process.started == started and process.state != "Z"


def _signal(pid: int, started: int, number: int) -> None:
    """Signal exactly this process: a pid that another one has by now is left alone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _lives(pid, started):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
