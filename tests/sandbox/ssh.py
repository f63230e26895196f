"""Keys, known hosts and an ssh configuration of the sandbox's own; nothing of the user's is read or written."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from . import settings
from .files import write
from .locking import lock
from .records import Record, everyone
from .shell import SandboxError, run

KEY = settings.SSH / "id_ed25519"
CONFIG = settings.SSH / "config"
KNOWN_HOSTS = settings.SSH / "known_hosts"

_COMMON = f"""\
Host *
  User root
  IdentityFile {KEY}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {KNOWN_HOSTS}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ConnectTimeout 10
  LogLevel ERROR
"""


def public_key() -> str:
    """The key that hosts accept; made on first use."""
    with lock("state"):
        _make_key(KEY, "inferops-sandbox")
    return KEY.with_suffix(".pub").read_text(encoding="utf-8")


def _make_key(path: Path, comment: str) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def make_host_key(record: Record, folder: Path) -> None:
    """A host's own key, made once and kept with its disk."""
    _make_key(folder / "ssh_host_ed25519_key", record.name)
    write(record.folder / "host_key.pub", (folder / "ssh_host_ed25519_key.pub").read_text(encoding="utf-8"))


def render(hosts: Sequence[tuple[str, str]]) -> str:
    """The ssh configuration for hosts given as (name, address); names need no name service."""
    entries = [f"Host {name}\n  HostName {address}\n  HostKeyAlias {name}\n" for name, address in hosts]
    return "".join(entries) + _COMMON


def publish() -> None:
    """Write configuration and known hosts for all hosts there are."""
    with lock("state"):
        records = [record for record in everyone() if (record.folder / "host_key.pub").exists()]
        keys = [(record, (record.folder / "host_key.pub").read_text(encoding="utf-8").split()) for record in records]
        write(KNOWN_HOSTS, "".join(f"{r.name},{r.address} {key[0]} {key[1]}\n" for r, key in keys), 0o600)
        write(CONFIG, render([(record.name, record.address) for record in records]), 0o600)


def wait(record: Record, alive: Path, timeout: float = 90.0) -> None:
    """Until sshd greets. Raises SandboxError when the container ends (``alive`` goes) or after ``timeout`` seconds."""
    limit = time.monotonic() + timeout
    while not greets(record.address):
        if not alive.exists():
            raise SandboxError(f"{record.name} ended while it booted; its console: {record.folder}/console.log")
        if time.monotonic() > limit:
            raise SandboxError(
                f"{record.name} has no sshd on {record.address} after {timeout:.0f} s; its console: "
                f"{record.folder}/console.log"
            )
        time.sleep(0.1)


def greets(address: str) -> bool:
    """Whether an SSH server answers there."""
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def become(name: str, command: Sequence[str]) -> None:
    """Turn into ssh to that host; does not return."""
    os.execvp("ssh", ["ssh", "-F", str(CONFIG), name, *command])
