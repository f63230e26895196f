# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``gateway``: the list of workers, kept in one file on the gateway's host.

A worker is ``present`` (gets requests) or ``drained`` (known, and gets none). The gateway itself (smg 1.13) reads a
manifest, which is derived from the list: it follows changes of that file at once, reads it again when it starts, lets
running requests of a worker that is no longer named end whole, and refuses keys of ours, so the states cannot be kept
there. The list is written first; whoever finds the two apart (a crash in between) writes the manifest anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..changes import Plan
from ..errors import InferopsError
from ..files import read_json, write_atomic

RESOURCE = "gateway"
PRESENT, DRAINED, ABSENT = "present", "drained", "absent"

_URL = re.compile(r"http://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def check_url(url: str) -> str:
    """``url`` in the one form in which it is kept.

    :raises InferopsError: when it is not ``http://HOST:PORT``.
    """
    match = _URL.fullmatch(url.rstrip("/"))
    if match is None or not 1 <= int(match.group(2)) <= 65535:
        raise InferopsError(f"the worker's url is {url!r}; it must be http://HOST:PORT, without a path")
    return url.rstrip("/")


def observe(path: str) -> dict[str, str]:
    """The state of each known worker by its URL; empty where there is no list yet."""
    kept = read_json(path, "workers")
    return {} if kept is None else dict(kept["workers"])


def plan(observed: Mapping[str, str], desired: Mapping[str, str]) -> Plan:
    """The changes that bring the list to ``desired``; a worker that it does not name is left alone."""
    changes = Plan()
    for url in sorted(desired):
        changes.add(RESOURCE, url, observed.get(url, ABSENT), desired[url])
    return changes


def plan_members(observed: Mapping[str, str], urls: Iterable[str]) -> Plan:
    """The changes that make exactly ``urls`` known; one that is drained stays so: someone is working on it."""
    members = sorted(set(urls))
    desired = {url: observed.get(url, PRESENT) for url in members}
    return plan(observed, {**dict.fromkeys(observed, ABSENT), **desired})


def apply(path: str, manifest: str, changes: Plan, allow: Callable[[Mapping[str, str]], None] | None = None) -> None:
    """Write the list, then the manifest. Two calls at once take turns; each changes its own workers only.

    ``allow`` is shown the list before the change, and raises where the change must not be made.
    """
    with _locked(path):
        workers = observe(path)
        if allow is not None:
            allow(workers)
        for change in changes.changes:
            workers[change.what] = change.after
        workers = {url: state for url, state in workers.items() if state != ABSENT}
        _write(path, {"format": 1, "workers": workers})
        _write(manifest, manifest_of(workers))


def manifest_of(workers: Mapping[str, str]) -> dict[str, Any]:
    """What the gateway reads: the workers that get requests."""
    return {"version": 1, "workers": [{"url": url} for url in sorted(workers) if workers[url] == PRESENT]}


def settle(path: str, manifest: str) -> bool:
    """Derive the manifest again where it is not what the list says; whether it was not."""
    with _locked(path):
        wanted = manifest_of(observe(path))
        if read_json(manifest) == wanted:
            return False
        _write(manifest, wanted)
        return True


def _write(path: str, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode(), 0o644)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "a", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
