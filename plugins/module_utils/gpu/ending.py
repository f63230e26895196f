# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""End processes: politely first, and never another one that has got the same pid meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import procfs
from .holders import Holder, describe


@dataclass(frozen=True)
class Ended:
    holder: Holder
    signal: str

    def to_dict(self) -> dict[str, Any]:
        return {**self.holder.to_dict(), "signal": self.signal}


def targets(endable: Iterable[Holder]) -> list[Holder]:
    """Whom to send SIGTERM: the main process of a server instead of those of its ranks that hold a GPU.

    SGLang drains when its main process is told to end, and takes a signal to a rank for a crash.
    """
    found: dict[int, Holder] = {}
    for holder in endable:
        top = _server_of(holder)
        found[top.pid] = top
    return list(found.values())


def _server_of(holder: Holder) -> Holder:
    top = holder
    while True:
        parent = describe(top.ppid)
        if parent is None or (parent.uid, parent.unit) != (holder.uid, holder.unit) or "sglang" not in parent.cmd:
            return top
        if os.path.basename(parent.cmd.split(" ")[0]) in ("sh", "bash", "dash", "nohup", "timeout", "sudo", "tmux"):
            return top
        top = parent


def with_descendants(roots: Iterable[Holder]) -> list[Holder]:
    """The processes and all below them that are there now."""
    table = procfs.processes()
    found = {root.pid: root for root in roots}
    for root in list(found.values()):
        for child in procfs.descendants(root.pid, table):
            described = describe(child.pid)
            if described is not None and described.started == child.started:
                found[child.pid] = described
    return list(found.values())


def grip(processes: Iterable[Holder]) -> dict[int, Holder]:
    """A pidfd of each process that still lives and still is the one that was looked at; the caller closes them.

    The pidfd is opened first and the process looked at after: what the pidfd names cannot change any more.
    """
    gripped: dict[int, Holder] = {}
    for process in processes:
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        now = procfs.read(process.pid)
        if now is not None and now.started == process.started:
            gripped[fd] = process
        else:
            os.close(fd)
    return gripped


def await_end(gripped: dict[int, Holder], seconds: float) -> dict[int, Holder]:
    """Wait until all have ended, at the most so long; those that have not."""
    deadline = time.monotonic() + seconds
    poller = select.poll()
    left = dict(gripped)
    for fd in left:
        poller.register(fd, select.POLLIN)
    while left:
        ready = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            break
        for fd, dummy in ready:
            poller.unregister(fd)
            del left[fd]
    return left


def end(endable: list[Holder], term_timeout: float, kill_timeout: float) -> tuple[list[Ended], list[Holder]]:
    """SIGTERM, a bounded wait, then SIGKILL for what is left; who ended by what, and who would not end at all."""
    polite = targets(endable)
    first = {holder.pid for holder in polite}
    gripped = grip({holder.pid: holder for holder in [*endable, *polite]}.values())
    killed: set[int] = set()
    try:
        for fd, holder in gripped.items():
            if holder.pid in first:
                _signal(fd, signal.SIGTERM)
        left = await_end(gripped, term_timeout)
        if left:
            known = {holder.pid for holder in gripped.values()}
            more = grip(holder for holder in with_descendants(left.values()) if holder.pid not in known)
            gripped.update(more)
            left.update(more)
            killed = {holder.pid for holder in left.values()}
            for fd in left:
                _signal(fd, signal.SIGKILL)
            left = await_end(left, kill_timeout)
    finally:
        for fd in gripped:
            os.close(fd)
    immortal = {holder.pid for holder in left.values()}
    ended = [
        Ended(holder, "KILL" if holder.pid in killed else "TERM")
        for holder in gripped.values()
        if holder.pid not in immortal
    ]
    return sorted(ended, key=lambda entry: entry.holder.pid), list(left.values())


def _signal(fd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended, which is what was wanted
        signal.pidfd_send_signal(fd, number)
