"""One host from nothing to a greeting sshd, and back to nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from . import cgroups, container, image, network, records, settings, ssh
from .files import write
from .locking import lock
from .records import Record
from .shell import SandboxError, run, say


def up(name: str, mounts: Sequence[str] = ()) -> Record:
    """Create the host, or repair it: booted, reachable, its keys known. A running host is left alone.

    The caller has made sure of the controller, the image and the bridge. Raises SandboxError.
    """
    records.checked(name)
    with lock(f"host-{name}"):
        record = records.find(name)
        if record is not None and record.cache != str(settings.CACHE):
            raise SandboxError(
                f"{name} stands on the cache {record.cache}: set INFEROPS_CACHE, or take it `down` first"
            )
        if record is not None and not image.path(record.image).is_dir():
            say(f"{name} stood on image {record.image}, which is gone; made anew")
            _remove(record)
            record = None
        if record is None:
            record = records.create(name, image.digest(), [_mount(value) for value in mounts])
        elif mounts and list(record.mounts) != [_mount(value) for value in mounts]:
            raise SandboxError(f"{name} exists with other mounts ({list(record.mounts)}); take it `down` first")
        elif record.image != image.digest():
            say(f"{name} stands on an older image; `down {name}` and `up {name}` renew it")
        if container.running(record) is None:
            _boot(record)
        return record


def await_ssh(record: Record) -> None:
    """Until the host can be reached. Raises SandboxError when it cannot."""
    found = container.running(record)
    if found is None:
        raise SandboxError(f"{record.name} ended right after its start; its console: {record.folder}/console.log")
    ssh.wait(record, found.proc)


def stop(name: str, *, hard: bool = False) -> None:
    """Power the host off (``hard``: cut its power); its disk stays, and `up` boots it again."""
    record = records.require(name)
    with lock(f"host-{name}"):
        container.stop(record, hard=hard)
        _unmount(record)


def down(name: str) -> None:
    """Remove the host and its disk."""
    record = records.require(name)
    with lock(f"host-{name}"):
        _remove(record)
    ssh.publish()


def limit_memory(name: str, size: str) -> Path:
    """Limit the memory of a running host from the controller's side; it holds until the host is stopped."""
    record = records.require(name)
    found = container.running(record)
    if found is None:
        raise SandboxError(f"{name} is not running; start it with `up {name}`")
    return cgroups.limit_memory(cgroups.groups_of(found.pid), size)


def _mount(value: str) -> str:
    source, dummy, target = value.partition(":")
    if not os.path.isabs(source) or not os.path.isabs(target) or not os.path.exists(source):
        raise SandboxError(f"{value!r}: a mount is SOURCE:TARGET, both absolute, and the source must exist")
    return value


def _root(record: Record) -> Path:
    return record.folder / "root"


def _boot(record: Record) -> None:
    container.stop(record, hard=True)  # what a container that died may have left behind
    upper, work, root = (record.folder / part for part in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir(parents=True, exist_ok=True)
    _identify(record, upper)
    if not os.path.ismount(root):
        options = f"lowerdir={image.path(record.image)},upperdir={upper},workdir={work}"
        run(["mount", "-t", "overlay", f"sandbox-{record.name}", "-o", options, str(root)])
    container.start(record, root)


def _identify(record: Record, upper: Path) -> None:
    """What makes the host itself: name, address, machine id, SSH keys. Written once; its disk is its own afterwards."""
    if (upper / "etc/machine-id").exists():
        return
    subnet = network.network()
    write(upper / "etc/hostname", f"{record.name}\n")
    address = f"[Match]\nName=host0\n\n[Network]\nAddress={record.address}/{subnet.prefixlen}\nLinkLocalAddressing=no\n"
    write(upper / "etc/systemd/network/10-sandbox.network", address)
    write(upper / "root/.ssh/authorized_keys", ssh.public_key(), 0o600)
    for folder, mode in (("root", 0o700), ("root/.ssh", 0o700)):
        (upper / folder).chmod(mode)
    (upper / "etc/ssh").mkdir(parents=True, exist_ok=True)
    ssh.make_host_key(record, upper / "etc/ssh")
    write(upper / "etc/machine-id", f"{uuid.uuid4().hex}\n", 0o444)


def _unmount(record: Record) -> None:
    if os.path.ismount(_root(record)):
        run(["umount", str(_root(record))])


def _remove(record: Record) -> None:
    container.stop(record, hard=True)
    records.forget(record)
