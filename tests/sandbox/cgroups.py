"""A control group of its own for every host, where no systemd of this machine gives it one.

Without it, the containers' systemds would share one tree on cgroup v1 and take each other's units for their own. It
is also where a host's memory is limited from outside: under cgroup v1 ``MemoryMax=`` inside a host is accepted and not
enforced. The groups are made below the caller's own, so that whatever accounts for the caller accounts for its hosts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from .shell import SandboxError

_PREFIX = "inferops-sandbox-"


def hierarchies(mounts: str, own: str) -> dict[str, Path]:
    """Our own group in each hierarchy, by its controllers (``memory``, ``cpu,cpuacct``, ``name=systemd``; ``""`` is
    cgroup v2), from the texts of ``/proc/mounts`` and ``/proc/self/cgroup``."""
    points: dict[str, Path] = {}
    for line in mounts.splitlines():
        dummy, point, kind, options = line.split()[:4]
        if kind == "cgroup2":
            points[""] = Path(point)
        elif kind == "cgroup":
            for option in options.split(","):
                points.setdefault(option, Path(point))
    found: dict[str, Path] = {}
    for line in own.splitlines():
        dummy, controllers, path = line.split(":", 2)
        point_of = points.get(controllers.split(",")[0])
        if point_of is not None:
            found[controllers] = point_of / path.lstrip("/")
    return found


def groups_of(pid: int | str) -> dict[str, Path]:
    """The groups of a process (``self``: ours). Raises OSError when it is gone."""
    own = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    return hierarchies(Path("/proc/mounts").read_text(encoding="utf-8"), own)


def create(name: str) -> list[Path]:
    """New groups for a host, one in each hierarchy."""
    groups = [_outside(group) / (_PREFIX + name) for group in groups_of("self").values()]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset (v1) is empty, and an empty one refuses processes
            if (group / file).exists():
                (group / file).write_text((group.parent / file).read_text(encoding="utf-8"), encoding="utf-8")
    return groups


def _outside(group: Path) -> Path:
    """A sandbox that is started from inside a sandbox host's group stays beside it, not below it."""
    return group.parent if group.name.startswith(_PREFIX) else group


def join(groups: Iterable[Path], pid: int) -> None:
    """Move a process into all of the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(pid), encoding="utf-8")


def processes(groups: Iterable[Path]) -> set[int]:
    """The processes that live in the groups, at any depth."""
    found: set[int] = set()
    for group in groups:
        for members in group.rglob("cgroup.procs"):
            try:
                found.update(int(pid) for pid in members.read_text(encoding="utf-8").split())
            except OSError:  # a group that goes away while we look
                continue
    return found


def remove(groups: Iterable[Path], timeout: float = 10.0) -> None:
    """Take emptied groups away. Raises SandboxError when one is still in use after ``timeout`` seconds."""
    limit = time.monotonic() + timeout
    for top in groups:
        while top.is_dir():
            try:
                for group in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                    group.rmdir()
                top.rmdir()
            except OSError as error:
                if time.monotonic() > limit:
                    raise SandboxError(f"control group {top} is still in use: {error}") from error
                time.sleep(0.05)


def limit_memory(groups: dict[str, Path], size: str) -> Path:
    """Limit all processes of a host to ``size`` bytes, or ``max``, swap included.

    Returns the file that took the limit. Raises SandboxError where no memory controller reaches the host.
    """
    if "memory" in groups:
        folder = groups["memory"]
        files = [folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"]
        # first no limit at all: the one that counts swap may at no moment be the smaller of the two
        for file in (file for file in reversed(files) if file.exists()):
            file.write_text("-1", encoding="utf-8")
        for file in (file for file in files if file.exists() and size != "max"):
            file.write_text(size, encoding="utf-8")
        return files[0]
    file = groups.get("", Path("/nonexistent")) / "memory.max"
    if not file.exists():
        raise SandboxError("no memory controller of this machine reaches the sandbox's hosts")
    file.with_name("memory.swap.max").write_text("max" if size == "max" else "0", encoding="utf-8")
    file.write_text(size, encoding="utf-8")
    return file
