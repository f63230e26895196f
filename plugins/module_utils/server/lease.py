# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Who is working on an instance: a deploy is many module calls, and two of them must not take turns.

The lease is a file that names the run and expires by itself; each call of a module that changes something renews it.
Breaking it by hand is removing the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import layout
from ..errors import InferopsError
from ..files import read_json, write_atomic

#: Seconds that a lease holds without being renewed; a stop with its drain may take longer and asks for more.
TERM = 300
#: How the run that works is told to a module.
RUN = {
    "id": {"type": "str", "required": True},
    "controller": {"type": "str", "required": True},
    "break_id": {"type": "str"},
}


def take(name: str, run: Mapping[str, Any], term: int = TERM, now: float | None = None) -> None:
    """Take the lease on an instance, or renew it.

    ``run`` has ``id`` (of the run), ``controller`` (where it runs) and ``break_id``: the run whose lease may be taken
    away, because its end is known. A lease that this run holds for longer is kept.

    :raises InferopsError: when another run holds it; ``lease`` in the result says which.
    """
    now = time.time() if now is None else now
    paths = layout.Instance(name)
    os.makedirs(paths.root, mode=0o755, exist_ok=True)
    with locked(name):
        held = read_json(paths.lease)
        if held and held["id"] not in (run["id"], run.get("break_id")) and held["expires_at"] > now:
            raise InferopsError(
                f"instance {name!r} is being changed by another run: {held['id']} from {held['controller']}, until "
                f"{time.strftime('%H:%M:%S UTC', time.gmtime(held['expires_at']))} unless it renews; wait for it, or "
                f"remove {paths.lease} on this host if that run is gone",
                lease=held,
            )
        until = round(now + term, 1)
        if held and held["id"] == run["id"]:
            until = max(until, held["expires_at"])
        entry = {"id": run["id"], "controller": run["controller"], "expires_at": until}
        write_atomic(paths.lease, (json.dumps(entry) + "\n").encode())


def release(name: str, run: Mapping[str, Any]) -> None:
    """Give the lease back, if this run holds it."""
    path = layout.Instance(name).lease
    if not os.path.exists(path):
        return
    with locked(name):
        held = read_json(path)
        if held and held["id"] == run["id"]:
            os.unlink(path)


class Renewed:
    """The lease on an instance for as long as a module works: a load of some hundred gigabytes outlasts any term.

    Only one that this run holds is renewed; a module that is called by hand takes none.
    """

    def __init__(self, name: str, run: Mapping[str, Any] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._run, self._clock = name, run, clock
        self._next = 0.0

    def tick(self) -> None:
        """Renew it every now and then; to be called often."""
        if self._clock() >= self._next:
            self._next = self._clock() + TERM / 4
            self.renew()

    def renew(self, term: float = TERM) -> None:
        """Renew it now; it never gets shorter by that."""
        path = layout.Instance(self._name).lease
        if self._run is None or not os.path.exists(path):
            return
        # a full disk is no reason to give up a server that comes up: then the lease ends with its term
        with contextlib.suppress(OSError), locked(self._name):
            held = read_json(path)
            until = round(time.time() + term, 1)
            if held and held["id"] == self._run["id"] and held["expires_at"] < until:
                write_atomic(path, (json.dumps({**held, "expires_at": until}) + "\n").encode())


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other processes on this host out of a single update."""
    with open(os.path.join(layout.Instance(name).root, ".lock"), "a", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
