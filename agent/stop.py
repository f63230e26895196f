# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``stop``: ends a server as SGLang must be ended, within a bound.

SGLang drains on a SIGTERM to its main process, without a limit of its own, and then ends itself by SIGKILL; the same
signal to the whole group is taken for a crash. While it loads there is nothing to drain, in its warm-up it would hang
for minutes, and without its scheduler it can finish nothing: there it is ended at once. What was asked for and how it
went is noted, since the status cannot tell a clean stop from a crash.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils import layout, procfs
from ansible_collections.inferops.sglang.plugins.module_utils.files import write_atomic
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.milestones import SERVES

#: What every release says when it serves: the first node of several, or the only one, and any other.
READY = re.compile(b"|".join(re.escape(text.encode()) for text in SERVES))
#: As much of a block as may be the beginning of such words.
OVERLAP = max(map(len, SERVES)) - 1
#: Seconds for which a dead child under a living server may be the end of a clean drain.
DEAD_CHILD_GRACE = 5.0
#: Seconds that the rest of the group has to go after a SIGKILL.
REST = 20.0


def run(
    instance: str,
    drain: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """End the main process of this unit and everything in its control group.

    systemd calls this after a server that ended by itself, too: then nobody asked, and only its rest is ended.
    """
    main = procfs.read(int(os.environ.get("MAINPID") or 0))
    invocation = os.environ.get("INVOCATION_ID", "")
    paths = layout.Instance(instance)
    if main is None or main.state == "Z":
        _end_rest(None, clock, sleep)
        return 0
    note = {"invocation_id": invocation, "requested_at": time.time(), "drain_s": drain, "main_pid": main.pid}
    _write(paths.run, note)
    hurry = reason_to_hurry(main, os.path.join(paths.logs, f"{invocation}.log"))
    note["how"] = f"killed: {hurry}" if hurry else _drain(main, drain, clock, sleep)
    _signal(main, signal.SIGKILL)
    note["left"] = _end_rest(main, clock, sleep)
    note["ended_at"] = time.time()
    _write(paths.run, note)
    return 0


def reason_to_hurry(main: procfs.Process, log: str) -> str:
    """Why the server cannot drain, in words; empty when it can."""
    if not has_served(log):
        return "it was not ready yet"
    # a compiler that nobody waited for is no worker
    dead = [child for child in _dead_children(main) if child.name.startswith("sglang::")]
    return f"its child {dead[0].name} (pid {dead[0].pid}) was dead" if dead else ""


def has_served(log: str) -> bool:
    """Whether a log says that the server was ready. It is read in blocks: a log may be large."""
    tail = b""
    try:
        with open(log, "rb") as stream:
            while block := stream.read(1 << 20):
                if READY.search(tail + block):
                    return True
                tail = (tail + block)[-OVERLAP:]
    except FileNotFoundError:
        return False
    return False


def _drain(main: procfs.Process, drain: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> str:
    _signal(main, signal.SIGTERM)
    begin = clock()
    dead_since: float | None = None
    while _lives(main):
        now = clock()
        if now - begin >= drain:
            return f"killed: requests were still running after {drain:g} s"
        if not _dead_children(main):
            dead_since = None
        elif dead_since is None:
            dead_since = now
        elif now - dead_since > DEAD_CHILD_GRACE:
            return "killed: a child died while it drained"
        sleep(0.1)
    return "drained"


def _end_rest(main: procfs.Process | None, clock: Callable[[], float], sleep: Callable[[float], None]) -> list[int]:
    """End what else is in this unit's control group, and see all of it gone; the pids that do not go.

    A killed process is there until the kernel has run it once more, which a busy machine may put off.
    """
    begin = clock()
    while True:
        rest = [process for pid in _members() if (process := procfs.read(pid)) is not None and process.state != "Z"]
        if main is not None and _lives(main) and main.pid not in {process.pid for process in rest}:
            rest.append(main)
        if not rest or clock() - begin > REST:
            return [process.pid for process in rest]
        for process in rest:
            _signal(process, signal.SIGKILL)
        sleep(0.05)


def _members() -> list[int]:
    """The processes of this control group without this one and those that started it."""
    with open("/proc/self/cgroup", encoding="ascii") as stream:
        groups = [line.rstrip("\n").split(":", 2) for line in stream]
    name = next((path for number, kind, path in groups if kind in ("", "name=systemd")), "/")
    if not name.endswith(".service"):
        # not in a unit: called by hand, so nothing but the main process is known to be the server's
        return []
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"):
        try:
            with open(f"{base}{name}/cgroup.procs", encoding="ascii") as stream:
                return [pid for pid in map(int, stream) if pid not in (os.getpid(), os.getppid(), 0)]
        except OSError:
            continue
    return []


def _dead_children(main: procfs.Process) -> list[procfs.Process]:
    return [process for process in procfs.descendants(main.pid) if process.ppid == main.pid and process.state == "Z"]


def _lives(process: procfs.Process) -> bool:
    now = procfs.read(process.pid)
    return now is not None and now.started == process.started and now.state != "Z"


def _signal(process: procfs.Process, number: int) -> None:
    """Signal exactly this process; one that has gone is left in peace."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if _lives(process):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _write(folder: str, note: dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    write_atomic(os.path.join(folder, "stop.json"), (json.dumps(note) + "\n").encode())
