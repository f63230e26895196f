# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Write what was planned: texts to keep first, then all files and the state as one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InferopsError
from .plan import Planned
from .store import Store
from .transaction import Replacement, carry_out, unfinished


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Hold the store: one run at a time; the folders are there, and gone again when nothing is left to remember.
    (That the release has all that is asked for is worth remembering: to find it out takes reading the sources.)

    :raises InferopsError: when the store cannot be written, or another run holds it.
    """
    try:
        fd = _lock(store)
    except BlockingIOError as error:
        raise InferopsError(
            f"another run is patching this tree ({store.lock_file} is held); run again later"
        ) from error
    except OSError as error:
        raise InferopsError(
            f"cannot write {error.filename}: {error.strerror}; nothing was changed. The pristine texts of patched "
            "files are kept there, so make the place writable and run again"
        ) from error
    with os.fdopen(fd):
        store.sweep()
        yield
        if not _remembers(store.state()):
            shutil.rmtree(store.folder)


def _lock(store: Store) -> int:
    while True:
        store.make_folders()
        fd = os.open(store.lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(store.lock_file) and os.path.samestat(os.fstat(fd), os.stat(store.lock_file)):
                return fd
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # the run before removed the store while we opened its lock


def pending(store: Store, planned: Planned) -> bool:
    """Whether there is anything to write: files, what is remembered of them, or the rest of a killed run."""
    if any(one.changed for one in planned.files) or unfinished(store.folder):
        return True
    there = store.text()
    if there is None:
        return _remembers(planned.state)
    return there != _text(planned)


def _remembers(state: dict[str, Any]) -> bool:
    return bool(state["files"] or state["results"])


def write(store: Store, planned: Planned) -> None:
    """Carry out the plan.

    :raises InferopsError: when something cannot be written; then nothing has changed.
    """
    remembered = planned.state["files"]
    try:
        for one in planned.files:
            if one.base is not None and one.key in remembered:
                store.put(one.base)
            if one.drifted and one.changed and one.current is not None:
                store.put(one.current)
    except OSError as error:
        raise InferopsError(
            f"cannot write {error.filename or store.folder}: {error.strerror}; nothing was changed"
        ) from (error)
    carry_out(
        store.folder,
        [Replacement(one.path, one.wanted) for one in planned.files if one.changed and one.wanted is not None]
        + [Replacement(store.state_file, _text(planned))],
    )


def _text(planned: Planned) -> bytes:
    return (json.dumps(planned.state, indent=1, sort_keys=True) + "\n").encode()
