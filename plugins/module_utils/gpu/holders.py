# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Who has which files open: GPUs, locks, shared memory. Found in /proc, not asked of the driver.

The driver's process list is no ground to act on: inside a container its pids may be those of another pid namespace.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .. import procfs
from ..hiding import redacted

#: Programs that keep the GPUs ready or watch them, and hold them open for ever. They own no work.
SERVANTS = ("nvidia-persiste", "nvidia-persistenced", "nv-hostengine", "nv-fabricmanage", "nv-fabricmanager", "dcgm")


@dataclass(frozen=True)
class Holder:
    """A process that has one of the wanted files open. (``pid``, ``started``) names it for ever."""

    pid: int
    started: int
    ppid: int
    name: str
    state: str
    uid: int
    user: str
    unit: str | None
    cmd: str
    paths: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "user": self.user,
            "unit": self.unit,
            "cmd": self.cmd,
            "orphan": self.ppid == 1 and self.unit is None,
        }


def open_paths(wanted: Callable[[str], bool], *, mapped: bool = False) -> dict[int, set[str]]:
    """The files that each process has open and ``wanted`` accepts, by pid; with ``mapped``, those mapped too.

    Only root sees everybody's. A process that ends meanwhile is left out.
    """
    found: dict[int, set[str]] = {}
    for entry in os.listdir(procfs.PROC):
        if not entry.isdigit():
            continue
        paths = {path for path in _open(entry) if wanted(path)}
        if mapped:
            paths |= {path for path in _mapped(entry) if wanted(path)}
        if paths:
            found[int(entry)] = paths
    return found


def holders(wanted: Callable[[str], bool]) -> list[Holder]:
    """The processes that have a wanted file open, other than this one, by pid."""
    listed = (describe(pid, paths) for pid, paths in sorted(open_paths(wanted).items()) if pid != os.getpid())
    return [holder for holder in listed if holder is not None]


def gpu_holders(dev: str = "/dev") -> list[Holder]:
    """The processes that have a GPU itself open (``/dev/nvidia0``; the control nodes alone are no use of a GPU)."""
    node = re.compile(re.escape(dev) + r"/nvidia\d+$")
    return [holder for holder in holders(lambda path: node.match(path) is not None) if not is_servant(holder)]


def minors(holder: Holder) -> set[int]:
    """The minor numbers of the GPUs that the process has open."""
    found = (re.search(r"/nvidia(\d+)$", path) for path in holder.paths)
    return {int(match.group(1)) for match in found if match}


def is_servant(holder: Holder) -> bool:
    return holder.name.startswith(SERVANTS)


def describe(pid: int, paths: Iterable[str] = ()) -> Holder | None:
    """The process, or ``None`` if it has ended."""
    process = procfs.read(pid)
    uid = procfs.uid(pid)
    if process is None or uid is None:
        return None
    words = procfs.cmdline(pid) or [f"[{process.name}]"]
    return Holder(
        pid=pid,
        started=process.started,
        ppid=process.ppid,
        name=process.name,
        state=process.state,
        uid=uid,
        user=user_name(uid),
        unit=procfs.unit(pid),
        cmd=" ".join(" ".join(redacted(words)).split())[:500],
        paths=tuple(sorted(paths)),
    )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _open(entry: str) -> list[str]:
    folder = f"{procfs.PROC}/{entry}/fd"
    try:
        links = os.listdir(folder)
    except OSError:
        return []
    found = []
    for link in links:
        try:
            found.append(os.readlink(f"{folder}/{link}"))
        except OSError:
            continue
    return found


def _mapped(entry: str) -> list[str]:
    try:
        with open(f"{procfs.PROC}/{entry}/maps", encoding="utf-8", errors="surrogateescape") as stream:
            return [line.rstrip("\n").split(None, 5)[5] for line in stream if line.count("/")]
    except OSError:
        return []
