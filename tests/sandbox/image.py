"""The base image of all hosts: a minimal Debian with what a GPU host plausibly has, and nothing of the controller's."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from . import mirrors, records, settings
from .files import remove_tree
from .locking import lock
from .shell import SandboxError, run, step

PACKAGES = [
    # a machine that is reached over SSH
    "systemd", "systemd-sysv", "dbus", "udev", "openssh-server", "sudo", "python3", "python3-venv",
    # compilers: Triton builds its launcher with gcc and the headers of Python
    "build-essential", "python3-dev", "ninja-build", "libnuma1",
    # what people and roles reach for
    "ca-certificates", "gnupg", "procps", "psmisc", "iproute2", "iputils-ping", "curl", "less", "git", "xz-utils",
]  # fmt: skip

#: No timer may do work of its own while a test measures, and no console waits for a login.
MASKED = [
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
    "console-getty.service", "systemd-networkd-wait-online.service",
]  # fmt: skip

#: Traces of the controller and keys that must be each host's own.
_REMOVED = ["etc/ssh/ssh_host_*", "etc/resolv.conf", "etc/hostname", "etc/hosts", "var/cache/apt/archives/*.deb"]

FILES = {
    "etc/ssh/sshd_config.d/sandbox.conf": (
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 100\nMaxSessions 100\n"
    ),
    "etc/resolv.conf": "# no way out of the sandbox\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
}


def digest() -> str:
    """Twelve hex digits over everything that the image is made from."""
    inputs = json.dumps([settings.SUITE, PACKAGES, MASKED, _REMOVED, FILES], sort_keys=True)
    return hashlib.sha256(inputs.encode()).hexdigest()[:12]


def path(which: str | None = None) -> Path:
    """The root of the image with that digest (default: of today's inputs)."""
    return settings.IMAGES / (which or digest())


def ensure() -> str:
    """Build the image unless it is there; return its digest."""
    wanted = path()
    if wanted.is_dir():
        return wanted.name
    with lock("image"):
        if not wanted.is_dir():
            _build(wanted)
            _prune()
    return wanted.name


def _build(wanted: Path) -> None:
    partial = wanted.with_suffix(".partial")
    remove_tree(partial)
    partial.parent.mkdir(parents=True, exist_ok=True)
    settings.PACKAGES.mkdir(parents=True, exist_ok=True)
    mirror = mirrors.debian_mirror()
    log = settings.CACHE / "debootstrap.log"
    with step(
        f"base image {wanted.name}: Debian {settings.SUITE} from {mirror or 'the default mirror of debootstrap'}"
    ):
        argv = ["debootstrap", "--variant=minbase", f"--cache-dir={settings.PACKAGES}"]
        argv += [f"--include={','.join(PACKAGES)}", settings.SUITE, str(partial)]
        run(argv + ([mirror] if mirror else []), env=mirrors.proxies(), log=log)
        _finish(partial)
    os.rename(partial, wanted)


def _finish(root: Path) -> None:
    for pattern in _REMOVED:
        for trace in root.glob(pattern):
            trace.unlink()
    for name, text in FILES.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (root / "etc/hosts").symlink_to("/srv/sandbox/hosts")
    run(["systemctl", f"--root={root}", "mask", *MASKED])
    run(["systemctl", f"--root={root}", "enable", "ssh.service", "systemd-networkd.service"])
    if not (root / "usr/bin/python3").exists():
        raise SandboxError(f"the image at {root} came out without Python; see debootstrap's log in {settings.CACHE}")


def _prune() -> None:
    """Remove images that no host stands on and that today's inputs do not make, and what broken builds left."""
    in_use = {record.image for record in records.everyone()} | {digest()}
    for image in settings.IMAGES.iterdir():
        if image.name not in in_use:
            remove_tree(image)
