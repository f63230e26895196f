"""What is written down of each host: one JSON file in the host's folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import network, settings
from .files import remove_tree, write
from .locking import lock
from .shell import SandboxError


@dataclass(frozen=True)
class Record:
    """One host: who it is and what it stands on. ``mounts`` are further read-only folders, ``SOURCE:TARGET``; ``cache``
    is the folder that holds its image and the folders it mounts."""

    name: str
    address: str
    image: str
    mounts: tuple[str, ...] = ()
    cache: str = str(settings.CACHE)

    @property
    def folder(self) -> Path:
        """Everything of this host on the controller: disk, keys, console log."""
        return settings.HOSTS / self.name


def checked(name: str) -> str:
    """The name, if a host can have it. Raises SandboxError otherwise."""
    if not re.fullmatch(settings.NAME_PATTERN, name):
        raise SandboxError(f"{name!r} cannot be a host's name: it must match {settings.NAME_PATTERN}")
    return name


def everyone() -> list[Record]:
    """All hosts that exist, by name."""
    found = sorted(settings.HOSTS.glob("*/host.json"))
    return [
        Record(**{**(data := json.loads(path.read_text("utf-8"))), "mounts": tuple(data["mounts"])}) for path in found
    ]


def find(name: str) -> Record | None:
    """The record of a host, if there is one."""
    return next((record for record in everyone() if record.name == name), None)


def require(name: str) -> Record:
    """The record of a host. Raises SandboxError that names the hosts there are when it is not among them."""
    record = find(checked(name))
    if record is None:
        known = ", ".join(other.name for other in everyone()) or "none"
        raise SandboxError(f"there is no host {name!r} (hosts: {known}); make it with `up {name}`")
    return record


def create(name: str, image: str, mounts: Sequence[str] = ()) -> Record:
    """Give a new host an address of its own and write it down."""
    with lock("state"):
        address = network.free_address(network.network(), [record.address for record in everyone()])
        record = Record(name, address, image, tuple(mounts))
        write(record.folder / "host.json", json.dumps(asdict(record), indent=1) + "\n")
        _share_names()
    return record


def forget(record: Record) -> None:
    """Delete the host's folder and its entry in the hosts file."""
    with lock("state"):
        remove_tree(record.folder)
        _share_names()


def _share_names() -> None:
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{network.gateway()} controller"]
    lines += [f"{record.address} {record.name}" for record in everyone()]
    write(settings.SHARED / "hosts", "\n".join(lines) + "\n")
