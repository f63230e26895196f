# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Free GPUs: end what may be ended, wait until the memory is back, clear away what dead servers left.

Whom it may end: processes of the named users that belong to no unit, and processes that are left of the named units
once those no longer run. A running unit is stopped by its own means, never here: its processes would be restarted.
With ``force`` every holder may be ended, other than this program's own ancestors.
"""

from __future__ import annotations

import fnmatch
import os
import pwd
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import layout, procfs, systemd
from ..changes import Plan
from ..errors import InferopsError
from ..running import Runner
from . import ending, facts, holders, leftovers
from .holders import Holder

RESOURCE = "gpus"
#: Units that are a way in for people: what was started from them by hand belongs to a user, not to a service.
_SESSIONS = ("ssh.service", "sshd.service", "ssh@*.service", "user@*.service", "getty@*.service", "container-getty@*")
_RUNNING = ("active", "activating", "reloading", "deactivating")


@dataclass(frozen=True)
class Wish:
    """What is asked for. ``gpus`` are indices or UUIDs, empty for all; times are in seconds, memory in bytes."""

    gpus: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    force: bool = False
    term_timeout: float = 30.0
    kill_timeout: float = 15.0
    memory_timeout: float = 60.0
    memory_limit: int = 1 << 30
    clean: bool = True
    homes: tuple[str, ...] = (layout.STATE,)


@dataclass
class Drained:
    """What was done, or in check mode would be."""

    plan: Plan = field(default_factory=Plan)
    ended: list[dict[str, Any]] = field(default_factory=list)
    cleaned: list[dict[str, Any]] = field(default_factory=list)
    held_elsewhere: list[dict[str, Any]] = field(default_factory=list)
    freed_bytes: int = 0
    waited_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "ended": self.ended,
            "cleaned": self.cleaned,
            "held_elsewhere": self.held_elsewhere,
            "freed_bytes": self.freed_bytes,
            "waited_s": round(self.waited_s, 1),
        }


def drain(
    wish: Wish,
    runner: Runner,
    check_mode: bool,
    dev: str = "/dev",
    shm: str = leftovers.SHM,
    sleep: Callable[[float], None] = time.sleep,
) -> Drained:
    """Drain the GPUs.

    :raises InferopsError: when a process that may not be ended holds one (nothing has been ended then), when one does
        not end, or when memory does not come back; the result says what was done.
    """
    started = time.monotonic()
    gpus = select(facts.query(runner)["gpus"], wish.gpus)
    wanted = {gpu["minor"] for gpu in gpus} if wish.gpus else None
    found = [holder for holder in holders.gpu_holders(dev) if wanted is None or holders.minors(holder) & wanted]
    _refuse_foreign(found, wish, runner)
    result = Drained()
    uids = {holder.uid for holder in found} | _uids((layout.SERVICE_USER, *wish.users))
    if check_mode:
        result.ended = [{**holder.to_dict(), "signal": "TERM"} for holder in found]
        result.held_elsewhere = elsewhere(gpus, found)
        remains = leftovers.find(wish.homes, uids, shm) if wish.clean else []
        result.cleaned = [leftover.to_dict() for leftover in remains]
        return _planned(result)
    before = _used(gpus)
    strangers = {(entry["gpu"], entry["pid"]) for entry in elsewhere(gpus, found)}
    ended, immortal = ending.end(found, wish.term_timeout, wish.kill_timeout)
    result.ended = [entry.to_dict() for entry in ended]
    if immortal:
        raise InferopsError(
            f"{_names(immortal)} did not end within {wish.kill_timeout:g} s of SIGKILL: the kernel waits in the driver "
            "(state D); look at the kernel's log for Xid events, and reset the card or reboot",
            **_planned(result).to_dict(),
        )
    gpus = _await_memory(wish, runner, gpus, strangers, sleep)
    result.freed_bytes = max(0, before - _used(gpus))
    if wish.clean:
        removed = leftovers.remove(leftovers.find(wish.homes, uids, shm))
        result.cleaned = [leftover.to_dict() for leftover in removed]
    result.waited_s = time.monotonic() - started
    result.held_elsewhere = elsewhere(gpus, [])
    _planned(result)
    _require_free(wish, gpus, dev, wanted, result)
    return result


def select(gpus: list[dict[str, Any]], named: Sequence[str]) -> list[dict[str, Any]]:
    """The GPUs that are named by index or UUID; all of them where none is named.

    :raises InferopsError: for a name that no GPU has.
    """
    known = {name: gpu for gpu in gpus for name in (str(gpu["index"]), gpu["uuid"])}
    for name in named:
        if name not in known:
            there = ", ".join(f"{gpu['index']} ({gpu['uuid']})" for gpu in gpus) or "none"
            raise InferopsError(f"gpus: there is no GPU {name!r} here; this host has {there}")
    return [gpu for gpu in gpus if not named or {str(gpu["index"]), gpu["uuid"]} & set(named)]


def why_not(holder: Holder, wish: Wish, running: Collection[str], ancestors: Collection[int]) -> str | None:
    """Why this process may not be ended, in a clause; ``None`` when it may."""
    if holder.pid in ancestors:
        return "is an ancestor of this very program"
    if wish.force:
        return None
    unit = None if holder.unit is None or _matches(holder.unit, _SESSIONS) else holder.unit
    if unit is not None and _matches(unit, wish.units):
        return f"belongs to {unit}, which is running: stop that unit first" if unit in running else None
    if unit is not None:
        return f"belongs to {unit}"
    return None if holder.user in wish.users else f"belongs to user {holder.user}"


def elsewhere(gpus: list[dict[str, Any]], local: list[Holder]) -> list[dict[str, Any]]:
    """What the driver says holds these GPUs and is no process here: somebody outside this container."""
    return [
        {"gpu": gpu["index"], "pid": entry["pid"], "name": entry["name"], "memory_used": entry["memory_used"]}
        for gpu in gpus
        for entry in facts.outside(
            gpu["processes"], [holder for holder in local if gpu["minor"] in holders.minors(holder)]
        )
    ]


def _refuse_foreign(found: list[Holder], wish: Wish, runner: Runner) -> None:
    running = _running_units(found, runner)
    ancestors = _ancestors()
    reasons = [(holder, why_not(holder, wish, running, ancestors)) for holder in found]
    foreign = [(holder, reason) for holder, reason in reasons if reason is not None]
    if foreign:
        said = "; ".join(f"pid {holder.pid} ({holder.cmd}) {reason}" for holder, reason in foreign)
        raise InferopsError(
            f"the GPUs are held by what may not be ended, so nothing was: {said}. Stop it by its own means, name its "
            "user or unit in owned_by, name other gpus, or use force",
            held_by=[{**holder.to_dict(), "reason": reason} for holder, reason in foreign],
            **Drained().to_dict(),
        )


def _running_units(found: list[Holder], runner: Runner) -> set[str]:
    units = sorted({holder.unit for holder in found if holder.unit is not None})
    try:
        shown = systemd.show(runner, units, ("ActiveState",))
    except InferopsError:
        return set(units)  # systemd does not answer: take no unit for ended
    return {unit for unit, values in shown.items() if values.get("ActiveState") in _RUNNING}


def _await_memory(
    wish: Wish,
    runner: Runner,
    gpus: list[dict[str, Any]],
    strangers: Collection[tuple[int, int]],
    sleep: Callable[[float], None],
) -> list[dict[str, Any]]:
    """Look at the GPUs until their memory is back, at the most ``memory_timeout``; what was seen last.

    Where one of the ``strangers`` from outside still holds a card there is nothing to wait for.
    """
    deadline = time.monotonic() + wish.memory_timeout
    while gpus:
        gpus = select(facts.query(runner)["gpus"], [gpu["uuid"] for gpu in gpus])
        waiting = [gpu for gpu in gpus if (gpu["memory_used"] or 0) > wish.memory_limit]
        hopeless = {index for index, pid in strangers for gpu in waiting if _lists(gpu, index, pid)}
        if hopeless == {gpu["index"] for gpu in waiting} or time.monotonic() >= deadline:
            break
        sleep(1.0)
    return gpus


def _lists(gpu: dict[str, Any], index: int, pid: int) -> bool:
    return gpu["index"] == index and any(entry["pid"] == pid for entry in gpu["processes"])


def _require_free(
    wish: Wish, gpus: list[dict[str, Any]], dev: str, wanted: Collection[int] | None, result: Drained
) -> None:
    again = [holder for holder in holders.gpu_holders(dev) if wanted is None or holders.minors(holder) & set(wanted)]
    if again:
        raise InferopsError(
            f"the GPUs are held again by {_names(again)}: something starts it anew; stop that first",
            held_by=[holder.to_dict() for holder in again],
            **result.to_dict(),
        )
    full = [gpu for gpu in gpus if (gpu["memory_used"] or 0) > wish.memory_limit]
    if full:
        words = ", ".join(f"GPU {gpu['index']} {gpu['memory_used'] >> 20} MiB" for gpu in full)
        pids = [str(entry["pid"]) for entry in result.held_elsewhere if entry["pid"] is not None]
        result.held_elsewhere = result.held_elsewhere or [
            {"gpu": gpu["index"], "pid": None, "name": None, "memory_used": gpu["memory_used"]} for gpu in full
        ]
        raise InferopsError(
            f"{words} still in use and no process here has them open: held outside this container"
            + (f", by pids {', '.join(pids)} there" if pids else "")
            + f" (waited {wish.memory_timeout:g} s); end it on the hypervisor or in the other container",
            **result.to_dict(),
        )


def _planned(result: Drained) -> Drained:
    for entry in result.ended:
        result.plan.add(RESOURCE, f"process {entry['pid']} of {entry['user']}", entry["cmd"], None)
    for entry in result.cleaned:
        result.plan.add(RESOURCE, entry["path"], entry["kind"], None)
    return result


def _matches(unit: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(unit, pattern) or unit == f"{pattern}.service" for pattern in patterns)


def _ancestors() -> set[int]:
    found: set[int] = set()
    process = procfs.read(os.getpid())
    while process is not None and process.pid not in found:
        found.add(process.pid)
        process = procfs.read(process.ppid)
    return found


def _uids(names: Sequence[str]) -> set[int]:
    found = set()
    for name in names:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return found


def _used(gpus: list[dict[str, Any]]) -> int:
    return sum(gpu["memory_used"] or 0 for gpu in gpus)


def _names(found: Sequence[Holder]) -> str:
    return ", ".join(f"pid {holder.pid} ({holder.cmd})" for holder in found)
