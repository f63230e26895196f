# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What ``/proc`` says of processes. Everything here tolerates a process that ends while it is looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

PROC = "/proc"


@dataclass(frozen=True)
class Process:
    """One line of ``/proc/PID/stat``.

    ``state`` is the kernel's letter (``Z``: defunct, ``T``: stopped); ``started`` counts clock ticks since boot, so
    that (pid, started) names one process for ever.
    """

    pid: int
    name: str
    state: str
    ppid: int
    started: int
    cpu_ticks: int


def read(pid: int) -> Process | None:
    """The process, or ``None`` where there is none."""
    raw = _read(pid, "stat")
    if raw is None:
        return None
    head, dummy, tail = raw.decode("utf-8", "replace").rpartition(")")
    rest = tail.split()
    return Process(pid, head.partition("(")[2], rest[0], int(rest[1]), int(rest[19]), int(rest[11]) + int(rest[12]))


def processes() -> dict[int, Process]:
    """All processes, by pid."""
    found = (read(int(name)) for name in os.listdir(PROC) if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(pid: int, table: dict[int, Process] | None = None) -> list[Process]:
    """The children of ``pid``, their children and so on; defunct ones too."""
    table = processes() if table is None else table
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += [process.pid for process in below]
    return found


def children(pid: int) -> list[Process]:
    """The children of one process, defunct ones too; its threads are asked, not every process of the host."""
    try:
        threads = os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return []
    if not os.path.exists(f"{PROC}/{pid}/task/{pid}/children"):  # a kernel without this file
        return [process for process in processes().values() if process.ppid == pid]
    pids = [int(word) for thread in threads for word in (_read(pid, f"task/{thread}/children") or b"").split()]
    return [process for process in map(read, pids) if process is not None]


def cmdline(pid: int) -> list[str]:
    """The argument vector; empty for a kernel thread, a defunct process or none at all."""
    raw = _read(pid, "cmdline")
    return [] if not raw else [os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")]


def environ(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty where it cannot be read."""
    raw = _read(pid, "environ") or b""
    pairs = (os.fsdecode(part).partition("=") for part in raw.split(b"\0") if part)
    return {key: value for key, dummy, value in pairs}


def unit(pid: int) -> str | None:
    """The systemd service in whose control group the process is (``sglang-kimi.service``)."""
    raw = _read(pid, "cgroup") or b""
    match = re.search(r"/([^/\n]+\.service)(?:/|$)", raw.decode("utf-8", "replace"), re.MULTILINE)
    return match.group(1) if match else None


def uid(pid: int) -> int | None:
    try:
        return os.stat(f"{PROC}/{pid}").st_uid
    except OSError:
        return None


def listeners(port: int) -> Iterator[tuple[str, int]]:
    """Who listens on a TCP port: pairs of local address (hexadecimal, as the kernel prints it) and socket inode."""
    local = f":{port:04X} "  # a busy host has thousands of rows: most are told by a look at the text
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{PROC}/net/{table}", encoding="ascii") as stream:
                rows = [line.split() for line in stream if local in line]
        except OSError:
            continue
        for row in rows:
            address, dummy, hex_port = row[1].rpartition(":")
            if row[3] == "0A" and int(hex_port, 16) == port:
                yield address, int(row[9])


def holders(inode: int) -> list[int]:
    """The processes that have the socket with this inode open (only root sees all of them)."""
    wanted = f"socket:[{inode}]"
    found = []
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        try:
            links = os.listdir(f"{PROC}/{name}/fd")
        except OSError:
            continue
        for link in links:
            try:
                if os.readlink(f"{PROC}/{name}/fd/{link}") == wanted:
                    found.append(int(name))
                    break
            except OSError:
                continue
    return found


def port_owners(port: int) -> list[int]:
    """The processes that listen on a TCP port."""
    return sorted({pid for dummy, inode in listeners(port) for pid in holders(inode)})


def _read(pid: int, name: str) -> bytes | None:
    try:
        with open(f"{PROC}/{pid}/{name}", "rb") as stream:
            return stream.read()
    except OSError:
        return None
