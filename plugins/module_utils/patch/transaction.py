# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Several files replaced as one: all or none, whatever happens in between.

1. A journal, ``journal.staging``, names every file that is going to be replaced.
2. Beside each target the new file is written (``.NAME.inferops-new``) and the old one is linked
   (``.NAME.inferops-old``): all space is taken before anything changes.
3. The journal is renamed to ``journal.commit``: from here on the new state wins.
4. Each new file is renamed over its target. A hard link or symbolic link at the target is replaced, never written
   through.
5. The journal is renamed to ``journal.clean``; old links and stale bytecode go, then the journal.

``recover`` finishes what a killed run left: ``staging`` and ``rollback`` go back, ``commit`` and ``clean`` go forward.
A step that fails while the run lives (a file made immutable, say) renames the journal to ``journal.rollback``, and the
old files are put back; nothing of that needs space on the disk.
"""

from __future__ import annotations

import os
from typing import Any

from ..errors import InferopsError
from ..files import fsync_dir, read_bytes, read_json, sha256, write_atomic

_NEW = ".inferops-new"
_OLD = ".inferops-old"
STAGING, COMMIT, CLEAN, ROLLBACK = "staging", "commit", "clean", "rollback"


class Replacement:
    """A file that is to be, with its mode and owner."""

    def __init__(self, path: str, data: bytes) -> None:
        """Mode and owner are those of the file that is there; a new file is 0644 and belongs to its folder's owner."""
        self.path = path
        self.data = data
        try:
            there = os.stat(path)
            self.mode = there.st_mode & 0o7777
        except FileNotFoundError:
            there = os.stat(os.path.dirname(path))
            self.mode = 0o644
        self.owner = (there.st_uid, there.st_gid)


class Journal:
    """The record of one transaction in a folder; which phase it is in is the name of its file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, phase: str) -> str:
        return os.path.join(self.folder, f"journal.{phase}")

    def read(self) -> tuple[str, list[dict[str, Any]]] | None:
        """The phase and the files of a transaction that was not finished; ``None`` where there is none."""
        for phase in (STAGING, COMMIT, CLEAN, ROLLBACK):
            entries = read_json(self.path(phase))
            if entries is not None:
                return phase, entries
        return None

    def move(self, before: str, after: str) -> None:
        os.rename(self.path(before), self.path(after))
        fsync_dir(self.folder)


def carry_out(folder: str, replacements: list[Replacement]) -> None:
    """Replace all files, or none. ``folder`` is where the journal lies; it must exist.

    :raises InferopsError: when a file cannot be written; then nothing has changed.
    """
    journal = Journal(folder)
    entries = [{"path": one.path, "old": _digest(one.path), "new": sha256(one.data)} for one in replacements]
    try:
        write_atomic(journal.path(STAGING), _json(entries))
        for one in replacements:
            _stage(one)
        journal.move(STAGING, COMMIT)
        _commit(journal, entries)
    except OSError as error:
        _give_up(journal, error)


def unfinished(folder: str) -> bool:
    """Whether a run was killed in the middle."""
    return Journal(folder).read() is not None


def recover(folder: str) -> list[str]:
    """Finish a run that was killed; returns the files that were part of it (empty: there was nothing to finish).

    Where somebody has changed one of the files since then, the run is given up instead, and that file is left alone.

    :raises InferopsError: when it cannot be finished.
    """
    journal = Journal(folder)
    left = journal.read()
    if left is None:
        return []
    phase, entries = left
    try:
        if phase == COMMIT and any(_digest(entry["path"]) not in (entry["old"], entry["new"]) for entry in entries):
            journal.move(COMMIT, ROLLBACK)
            phase = ROLLBACK
        if phase == COMMIT:
            _commit(journal, entries)
        elif phase == CLEAN:
            _clean(journal, entries)
        else:
            _put_back(journal, phase, entries)
    except OSError as error:
        raise InferopsError(
            f"a run before this one was killed while it replaced {len(entries)} files, and finishing it failed: "
            f"cannot write {error.filename2 or error.filename}: {error.strerror}. Make the place writable and run again"
        ) from error
    return [entry["path"] for entry in entries]


def overlay(folder: str) -> dict[str, bytes]:
    """What ``recover`` would put in place, for a run that may not write: path -> content."""
    left = Journal(folder).read()
    if left is None:
        return {}
    phase, entries = left
    if phase == CLEAN:
        return {}
    suffix = _NEW if phase == COMMIT else _OLD
    contents = {entry["path"]: read_bytes(_beside(entry["path"], suffix)) for entry in entries}
    return {path: data for path, data in contents.items() if data is not None}


def _commit(journal: Journal, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        new = _beside(entry["path"], _NEW)
        if os.path.lexists(new):
            os.replace(new, entry["path"])
    for folder in sorted({os.path.dirname(entry["path"]) for entry in entries}):
        fsync_dir(folder)
    journal.move(COMMIT, CLEAN)
    _clean(journal, entries)


def _clean(journal: Journal, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        _drop_bytecode(entry["path"])
        _remove(_beside(entry["path"], _OLD))
    os.unlink(journal.path(CLEAN))


def _put_back(journal: Journal, phase: str, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        path = entry["path"]
        old, new = _beside(path, _OLD), _beside(path, _NEW)
        if phase == ROLLBACK and _digest(path) == entry["new"] != entry["old"]:
            if entry["old"] is None:
                _remove(path)
            elif os.path.lexists(old):
                os.replace(old, path)
            _drop_bytecode(path)
        _remove(old)
        _remove(new)
    os.unlink(journal.path(phase))


def _give_up(journal: Journal, cause: OSError) -> None:
    """Go back after a step that failed, and say so.

    :raises InferopsError: always.
    """
    message = f"cannot write {cause.filename2 or cause.filename or journal.folder}: {cause.strerror}"
    try:
        left = journal.read()
        if left is not None:
            phase, entries = left
            if phase == CLEAN:
                raise InferopsError(f"{message}, after all files had been replaced; the next run cleans up") from cause
            if phase == COMMIT:
                journal.move(COMMIT, ROLLBACK)
                phase = ROLLBACK
            _put_back(journal, phase, entries)
    except OSError as error:
        raise InferopsError(
            f"{message}, and going back failed too: cannot write {error.filename2 or error.filename}: "
            f"{error.strerror}. Files may be partly old and partly new; make the place writable and run again: "
            "the next run puts them right"
        ) from cause
    raise InferopsError(
        f"{message}; nothing was changed. Make room, or make the place writable, and run again"
    ) from cause


def _stage(one: Replacement) -> None:
    new, old = _beside(one.path, _NEW), _beside(one.path, _OLD)
    _remove(new)
    _remove(old)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(one.data)
            stream.flush()
            there = os.fstat(fd)
            if (there.st_uid, there.st_gid) != one.owner:
                os.fchown(fd, *one.owner)
            os.fchmod(fd, one.mode)
            os.fsync(fd)
    except OSError as error:
        error.filename = error.filename or new  # a full disk shows in write(), which names no file
        raise
    if os.path.lexists(one.path):
        os.link(one.path, old, follow_symlinks=False)


def _drop_bytecode(path: str) -> None:
    """Remove the compiled forms of a module: one that is checked against nothing would live on."""
    folder, name = os.path.split(path)
    cache = os.path.join(folder, "__pycache__")
    if not name.endswith(".py") or not os.path.isdir(cache):
        return
    for compiled in os.listdir(cache):
        if compiled.startswith(name[:-2]) and compiled.endswith(".pyc"):
            _remove(os.path.join(cache, compiled))


def _beside(path: str, suffix: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{suffix}")


def _digest(path: str) -> str | None:
    data = read_bytes(path)
    return None if data is None else sha256(data)


def _json(entries: list[dict[str, Any]]) -> bytes:
    import json

    return json.dumps(entries).encode()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
