"""Locks between people who use the sandbox at the same time.

Order, to stay clear of a deadlock: a host's lock, then ``image``, ``wheelhouse`` or ``models``, then ``state``.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from . import settings
from .shell import say


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock of that name; it falls with the process, so none is ever left behind."""
    settings.LOCKS.mkdir(parents=True, exist_ok=True)
    with (settings.LOCKS / f"{name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if name != "state":
                say(f"waiting for another run that holds {name!r}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
