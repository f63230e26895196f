# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``activation``: which build, unit, environment and secrets are in force, as one.

Each activation is kept in a numbered folder with the content of its files, so that the one before can be put back
whatever has become of the description since. The record is complete before the first file in force is touched: a run
that is killed in between leaves files that differ from it, which the next plan sees. This reads; ``force`` writes.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import hiding, layout
from ..changes import NONE, Plan
from ..errors import InferopsError
from ..files import read_bytes, read_json, sha256

PENDING, GOOD, FAILED, RESTORED = "pending", "good", "failed", "restored"
RECORD = "activation.json"
_KEYS = ("n", "root", "content", "outcome")
#: The most that the modes of secret files may allow, by their names in an activation's folder.
SECRET_MODES = {"secret.env": 0o600, "secrets.yaml": 0o640}


@dataclass(frozen=True)
class InForce:
    """One file that is in force: its text, and who may read it."""

    text: str = field(repr=False)
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Observed:
    """What is in force for an instance. ``last`` is the record of the newest activation; ``exposed`` are kept secrets
    that others than root and the service user's group may read or write, with their permissions."""

    name: str
    files: dict[str, InForce]
    current: str | None
    last: dict[str, Any] | None
    exposed: dict[str, str] = field(default_factory=dict)


def paths_of(name: str) -> dict[str, str]:
    """Every file that an instance may have in force, and its name in an activation's folder."""
    paths = layout.Instance(name)
    return {
        paths.unit_file: "unit",
        paths.liveness_file: "liveness",
        paths.timer_file: "timer",
        paths.env_file: "env",
        paths.secret_env_file: "secret.env",
        paths.secrets_file: "secrets.yaml",
    }


def permissions(path: str, name: str, run_as: str) -> tuple[int, int, int]:
    """Mode, user and group of a file in force. The service user reads the API keys through its group.

    :raises InferopsError: when there is no such user.
    """
    paths = layout.Instance(name)
    if path == paths.secrets_file:
        return SECRET_MODES["secrets.yaml"], 0, gid_of(run_as)
    return (SECRET_MODES["secret.env"] if path == paths.secret_env_file else 0o644), 0, 0


def gid_of(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_gid
    except KeyError:
        raise InferopsError(
            f"there is no user {user!r} on this host to run the server; deploy.yml makes 'sglang', "
            "another one named by 'run_as' is yours to make"
        ) from None


def observe(name: str) -> Observed:
    """What is there; a file that is not there is not in ``files``."""
    files = {}
    for path in paths_of(name):
        raw = read_bytes(path)
        if raw is not None:
            status = os.lstat(path)
            text = raw.decode("utf-8", "surrogateescape")
            files[path] = InForce(text, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return Observed(name, files, link_of(layout.Instance(name).current), newest(name, *_KEYS), exposed(name))


def exposed(name: str) -> dict[str, str]:
    """The secret files of all kept activations that are open to more than whom they are for."""
    paths = layout.Instance(name)
    found = {}
    for number in numbers(name):
        for path in (paths.secret_env_file, paths.secrets_file):
            kept = os.path.join(folder(name, number), paths_of(name)[path])
            try:
                status = os.lstat(kept)
            except FileNotFoundError:
                continue
            allowed = SECRET_MODES[os.path.basename(kept)]
            if status.st_uid != 0 or stat.S_IMODE(status.st_mode) & ~allowed:
                found[kept] = _permissions(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return found


def plan(observed: Observed, desired: Mapping[str, Any], files: Mapping[str, str], secret: frozenset[str]) -> Plan:
    """The changes that put ``files`` in force.

    ``desired`` is the record without its number and outcome (``describe``). The consequence for a running server is
    not known here: ``process`` compares with what the process has loaded.
    """
    resource = f"activation/{observed.name}"
    changes = Plan()
    for path in paths_of(observed.name):
        found, text = observed.files.get(path), files.get(path)
        before = found.text if found else None
        if path in secret or path == layout.Instance(observed.name).secrets_file:
            before, text = _hidden(before, text)
        elif before != text:
            # what was written by hand may be a secret of its own; an edit of it alone is told by the labels
            before, text = hiding.lines(before, text, hiding.AS_FOUND), hiding.lines(text, before, hiding.AS_DESCRIBED)
        changes.add(resource, path, before, text, NONE)
        if found and path in files:
            wanted = permissions(path, observed.name, desired["run_as"])
            changes.add(
                resource,
                f"permissions of {path}",
                _permissions(found.mode, found.uid, found.gid),
                _permissions(*wanted),
            )
    for path, permitted in observed.exposed.items():
        changes.add(resource, f"permissions of {path}", permitted, "as it was kept: for root, or the service user too")
    changes.add(resource, "current", observed.current, desired["root"], NONE)
    if not changes.changed:
        last = observed.last
        changes.add(resource, "record", last and digest(last["content"]), digest(describe_content(files)), NONE)
    return changes


def _hidden(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """What a plan may say of a secret file: whether it is there, and whether it would change."""
    if before == after:
        return None, None
    return (None if before is None else hiding.AS_FOUND), (None if after is None else hiding.AS_DESCRIBED)


def _permissions(mode: int, uid: int, gid: int) -> str:
    return f"{mode:04o}, user {uid}, group {gid}"


def describe_content(files: Mapping[str, str]) -> dict[str, str]:
    """The digest of each file, by path."""
    return {path: sha256(text.encode("utf-8", "surrogateescape")) for path, text in sorted(files.items())}


def digest(content: Mapping[str, str]) -> str:
    """One digest of a whole activation's content."""
    return sha256("\n".join(f"{path} {value}" for path, value in sorted(content.items())).encode())[:16]


def numbers(name: str) -> list[int]:
    """The numbers of the activations that are there, in order."""
    try:
        names = os.listdir(layout.Instance(name).activations)
    except FileNotFoundError:
        return []
    return sorted(int(entry) for entry in names if entry.isdigit())


def record(name: str, number: int, *keys: str) -> dict[str, Any] | None:
    """The record of one activation, which is to have these keys."""
    found: dict[str, Any] | None = read_json(os.path.join(folder(name, number), RECORD), *keys)
    return found


def newest(name: str, *keys: str) -> dict[str, Any] | None:
    """The record of the newest activation, which is to have these keys."""
    there = numbers(name)
    return record(name, there[-1], *keys) if there else None


def last_good(name: str, before: int | None = None) -> dict[str, Any] | None:
    """The newest activation that served; with ``before``, the newest of those with a smaller number."""
    for number in reversed(numbers(name)):
        if before is not None and number >= before:
            continue
        found = record(name, number)
        if found is not None and found["outcome"] == GOOD:
            return found
    return None


def builds_in_use(name: str, last: int = 3) -> list[str]:
    """The folders of the builds that the last activations, and the last good one, name."""
    kept = [record(name, number) for number in numbers(name)[-last:]]
    return sorted({found["root"] for found in [*kept, last_good(name)] if found is not None})


def folder(name: str, number: int) -> str:
    """Where an activation is kept."""
    return os.path.join(layout.Instance(name).activations, str(number))


def link_of(path: str) -> str | None:
    """Where a symbolic link points; ``None`` where there is none."""
    return os.readlink(path) if os.path.islink(path) else None
