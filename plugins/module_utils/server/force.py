# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Puts an activation in force: the writing side of ``activation``."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from typing import Any

from .. import layout
from ..errors import InferopsError
from ..files import fsync_dir, read_bytes, sha256, write_atomic
from .activation import (
    PENDING,
    RECORD,
    SECRET_MODES,
    describe_content,
    exposed,
    folder,
    gid_of,
    last_good,
    link_of,
    newest,
    numbers,
    paths_of,
    permissions,
    record,
)

#: So many activations are kept, and the last good one in any case.
KEEP = 5


def store(name: str, desired: Mapping[str, Any], files: Mapping[str, str], outcome: str = PENDING) -> int:
    """Keep an activation with its content, and return its number. The newest is kept on if it is the same."""
    content = describe_content(files)
    last = newest(name)
    same = last is not None and all(last.get(key) == desired.get(key) for key in ("root", "patches"))
    if last is not None and same and last["content"] == content:
        return int(last["n"])
    number = (numbers(name) or [0])[-1] + 1
    paths = layout.Instance(name)
    group = gid_of(desired["run_as"])
    for base in (paths.root, paths.activations):
        os.makedirs(base, mode=0o755, exist_ok=True)
    unfinished = os.path.join(paths.activations, f".{number}")
    if os.path.isdir(unfinished):
        shutil.rmtree(unfinished)
    os.mkdir(unfinished, 0o750)
    os.chown(unfinished, 0, group)
    for path, text in files.items():
        mode, uid, gid = permissions(path, name, desired["run_as"])
        mode, gid = (0o640, group) if mode == 0o644 else (mode, gid)
        write_atomic(os.path.join(unfinished, paths_of(name)[path]), _bytes(text), mode, uid, gid)
    entry = {"format": 1, "n": number, **desired, "content": content, "outcome": outcome, "made_at": int(time.time())}
    write_atomic(os.path.join(unfinished, RECORD), _json(entry), 0o640, 0, group)
    os.rename(unfinished, folder(name, number))
    fsync_dir(paths.activations)
    return number


def put_in_force(name: str, desired: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Write what differs, remove what no longer belongs, and let ``current`` name the build."""
    os.makedirs(layout.ETC, mode=0o755, exist_ok=True)
    for path in paths_of(name):
        if path in files:
            mode, uid, gid = permissions(path, name, desired["run_as"])
            if _differs(path, files[path], mode, uid, gid):
                write_atomic(path, _bytes(files[path]), mode, uid, gid)
        elif os.path.lexists(path):
            os.unlink(path)
    for path in exposed(name):
        os.chown(path, 0, -1)
        os.chmod(path, SECRET_MODES[os.path.basename(path)])
    link = layout.Instance(name).current
    if link_of(link) != desired["root"]:
        temporary = link + ".new"
        if os.path.lexists(temporary):
            os.unlink(temporary)
        os.symlink(desired["root"], temporary)
        os.replace(temporary, link)


def files_of(name: str, number: int) -> dict[str, str]:
    """The content of an activation, by the path where it is in force.

    :raises InferopsError: when a file of it is missing or is not as recorded.
    """
    found = record(name, number)
    if found is None:
        raise InferopsError(f"there is no activation {number} of instance {name!r}")
    files = {}
    for path, wanted in found["content"].items():
        kept = os.path.join(folder(name, number), paths_of(name)[path])
        raw = read_bytes(kept)
        if raw is None or sha256(raw) != wanted:
            raise InferopsError(
                f"activation {number} of instance {name!r} cannot be restored: {kept} is not as recorded"
            )
        files[path] = raw.decode("utf-8", "surrogateescape")
    return files


def set_outcome(name: str, number: int, outcome: str) -> bool:
    """Note what became of an activation, and of the later ones that its server runs on under; whether that is news."""
    news = False
    for later in numbers(name):
        found = record(name, later)
        if found is None or number not in (later, found.get("started_as")) or found["outcome"] == outcome:
            continue
        _write_record(name, later, {**found, "outcome": outcome})
        news = True
    return news


def ask(name: str) -> None:
    """Note that a start is asked for: the breaker does not count what died before."""
    run = layout.Instance(name).run
    os.makedirs(run, mode=0o755, exist_ok=True)
    write_atomic(os.path.join(run, "asked.json"), _json({"at": time.time()}))


def prune(name: str, keep: int = KEEP) -> list[int]:
    """Remove old activations; the last good one stays. Returns the numbers that went."""
    good = last_good(name)
    gone = [number for number in numbers(name)[:-keep] if good is None or number != good["n"]]
    for number in gone:
        shutil.rmtree(folder(name, number))
    return gone


def _differs(path: str, text: str, mode: int, uid: int, gid: int) -> bool:
    if read_bytes(path) != _bytes(text):
        return True
    status = os.lstat(path)
    found = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return not stat.S_ISREG(status.st_mode) or found != (mode, uid, gid)


def _write_record(name: str, number: int, entry: Mapping[str, Any]) -> None:
    path = os.path.join(folder(name, number), RECORD)
    status = os.stat(path)
    write_atomic(path, _json(entry), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
