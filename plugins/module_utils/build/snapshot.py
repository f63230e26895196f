# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What files a build has: recorded once when it is sealed, compared by every plan.

A record maps a path below the build to ``[size, mtime_ns, sha256]``. A comparison reads no file whose size and time
are as recorded: one walk over the folders, about 10 µs a file. Bytecode is left out, since Python writes it as it
likes; so are the build's own papers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..files import sha256, sha256_file

MANIFEST = "manifest.json"
FILES = "files.json"
OPTIONS = "options.json"
QUARANTINED = "quarantined.json"
#: What the collection itself writes into a build's folder, and the lock file that uv leaves in an environment.
PAPERS = frozenset({MANIFEST, FILES, OPTIONS, QUARANTINED, ".lock"})

CHANGED = "changed"
MISSING = "missing"
EXTRA = "extra"


@dataclass(frozen=True)
class FileDrift:
    """One file that is not as it was sealed; ``before`` is the digest found, ``after`` the digest wanted."""

    path: str
    state: str
    before: str | None
    after: str | None


def walk(root: str) -> dict[str, os.stat_result]:
    """Every file and symbolic link below ``root`` by its relative path; links are not followed.

    A folder that goes away during the walk counts as empty.
    """
    found: dict[str, os.stat_result] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            entries = os.scandir(os.path.join(root, prefix))
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                name = entry.name
                path = prefix + name
                if entry.is_dir(follow_symlinks=False):
                    if name != "__pycache__":
                        pending.append(path + "/")
                elif path not in PAPERS:
                    found[path] = entry.stat(follow_symlinks=False)
    return found


def digest(path: str) -> str:
    """SHA-256 of a file's content; of a symbolic link, of where it points."""
    if os.path.islink(path):
        return sha256(os.fsencode(os.readlink(path)))
    return sha256_file(path)


def record(root: str, earlier: dict[str, list[Any]] | None = None, threads: int = 4) -> dict[str, list[Any]]:
    """The record of everything below ``root``.

    A file with the size and time of an ``earlier`` record keeps its digest. Hashing leaves the interpreter's lock, so
    threads help.
    """
    from concurrent.futures import ThreadPoolExecutor

    found = walk(root)
    made = {path: [status.st_size, status.st_mtime_ns, ""] for path, status in sorted(found.items())}
    for path, entry in made.items():
        known = (earlier or {}).get(path)
        if known is not None and known[:2] == entry[:2]:
            entry[2] = known[2]
    unread = [path for path, entry in made.items() if not entry[2]]
    with ThreadPoolExecutor(threads) as pool:
        for path, value in zip(unread, pool.map(lambda path: digest(os.path.join(root, path)), unread)):
            made[path][2] = value
    return made


def compare(
    root: str, recorded: dict[str, list[Any]], found: dict[str, os.stat_result], thorough: bool = False
) -> list[FileDrift]:
    """What differs below ``root`` from the record, sorted by path.

    A file whose size or time differs is read, and counts only when its content differs. ``thorough`` reads them all.
    """
    drift = []
    for path, (size, mtime, wanted) in recorded.items():
        status = found.get(path)
        if status is None:
            drift.append(FileDrift(path, MISSING, None, wanted))
        elif thorough or status.st_size != size or status.st_mtime_ns != mtime:
            present = _digest_if_there(os.path.join(root, path))
            if present != wanted:
                drift.append(FileDrift(path, CHANGED, present, wanted))
    drift += [FileDrift(path, EXTRA, None, None) for path in found.keys() - recorded.keys()]
    return sorted(drift, key=lambda item: item.path)


def dist_infos(paths: Iterable[str], site_packages: str) -> dict[str, str]:
    """The installed distributions by their ``dist-info`` folders: normalised name -> version.

    Two folders of one name (the leftover of a broken upgrade) give both versions, joined by a comma.
    """
    packages: dict[str, set[str]] = {}
    prefix = site_packages + "/"
    for path in paths:
        if path.endswith(".dist-info/METADATA") and path.startswith(prefix):
            folder = path[len(prefix) : -len(".dist-info/METADATA")]
            name, dummy, version = folder.partition("-")
            if "/" in folder:
                continue  # what a distribution carries inside itself
            packages.setdefault(normalise(name), set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(packages.items())}


def normalise(name: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest_if_there(path: str) -> str | None:
    try:
        return digest(path)
    except OSError:
        return None
