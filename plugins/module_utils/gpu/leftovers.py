# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What dead servers leave behind: build locks that nobody holds, shared memory that nobody has open.

A file counts as left over only when no process that we can see has it open or mapped, and its owner is one of ours.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from . import holders

LOCK = "lock"
SHARED_MEMORY = "shared memory"
SHM = "/dev/shm"
#: Caches of compiled kernels, below a home or its .cache. flashinfer locks with ``*.lock``; torch's extensions, with a
#: file ``lock`` whose mere existence blocks every later build.
_CACHES = ("flashinfer", "torch_extensions", "tvm-ffi")
_LOCKS = ("*.lock", "lock")
#: Names in /dev/shm that NCCL, Python's multiprocessing, torch and SGLang give.
_SEGMENTS = ("nccl-*", "psm_*", "sem.mp-*", "torch_*", "sglang*")


@dataclass(frozen=True)
class Leftover:
    path: str
    kind: str
    size: int

    def to_dict(self) -> dict[str, object]:
        return {"path": self.path, "kind": self.kind, "bytes": self.size}


def find(homes: Iterable[str], uids: Collection[int], shm: str = SHM) -> list[Leftover]:
    """The leftovers in the caches below these folders (homes, or folders of homes) and in shared memory."""
    candidates = [*((path, LOCK) for path in _locks(homes)), *((path, SHARED_MEMORY) for path in _segments(shm))]
    if not candidates:
        return []
    paths = {os.path.realpath(path) for path, dummy in candidates}
    used = set().union(*holders.open_paths(paths.__contains__, mapped=True).values())
    found = []
    for path, kind in candidates:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if status.st_uid in uids and os.path.realpath(path) not in used:
            found.append(Leftover(path, kind, status.st_size))
    return sorted(found, key=lambda leftover: leftover.path)


def remove(leftovers: Iterable[Leftover]) -> list[Leftover]:
    """Remove them; those that were still there."""
    removed = []
    for leftover in leftovers:
        try:
            os.unlink(leftover.path)
        except FileNotFoundError:
            continue
        removed.append(leftover)
    return removed


def _locks(homes: Iterable[str]) -> list[str]:
    found = []
    for cache in _caches(homes):
        for folder, dummy, files in os.walk(cache):
            found += [os.path.join(folder, name) for name in files if _named(name, _LOCKS)]
    return found


def _caches(homes: Iterable[str]) -> list[str]:
    bases = []
    for home in homes:
        below = sorted(entry.path for entry in os.scandir(home) if entry.is_dir()) if os.path.isdir(home) else []
        bases += [path for base in (home, *below) for path in (base, os.path.join(base, ".cache"))]
    found = {os.path.join(base, name) for base in bases for name in _CACHES}
    return sorted(path for path in found if os.path.isdir(path))


def _segments(shm: str) -> list[str]:
    names = os.listdir(shm) if os.path.isdir(shm) else []
    return [os.path.join(shm, name) for name in names if _named(name, _SEGMENTS)]


def _named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
