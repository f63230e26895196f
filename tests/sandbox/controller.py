"""What this machine itself must offer: root, the programs, a place where nspawn can work."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from . import settings
from .files import write
from .shell import SandboxError, run, step, succeeds

#: Program -> the package that brings it, on Debian and Ubuntu alike.
PROGRAMS = {
    "debootstrap": "debootstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "nsenter": "util-linux",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

#: We mount a tmpfs at ``/run/systemd`` where there is no systemd; this marks the mount as ours.
_MARKER = Path("/run/systemd/made-by-inferops-sandbox")


#: Every systemd takes seven or eight of them, counted for the whole machine: 17 hosts use up the usual 128, and further
#: ones would not come up.
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_WANTED = 1024
#: The limit as it was before us.
_INOTIFY_BEFORE = settings.STATE / "inotify-before"


def pid1_is_systemd() -> bool:
    """As ``sd_booted(3)`` decides it."""
    return Path("/run/systemd/system").is_dir()


def prepare() -> None:
    """Install what is missing and make nspawn able to run; quick when nothing is to do.

    Raises SandboxError where the user is not root or the machine is no Debian or Ubuntu.
    """
    if os.geteuid() != 0:
        raise SandboxError("the sandbox makes containers and a bridge and must run as root (try sudo)")
    packages = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if importlib.util.find_spec("ensurepip") is None:
        packages.add("python3-venv")
    if not KEYRING.exists():
        packages.add("debian-archive-keyring")
    if packages:
        _install(sorted(packages))
    if not pid1_is_systemd() and not os.path.ismount("/run/systemd"):
        # nspawn keeps its propagation folders there and wants them on a mount that it can share.
        Path("/run/systemd").mkdir(parents=True, exist_ok=True)
        run(["mount", "-t", "tmpfs", "-o", "mode=0755,size=16m", "tmpfs", "/run/systemd"])
        _MARKER.touch()
    for folder in (settings.HOSTS, settings.SSH, *settings.MOUNTS):
        folder.mkdir(parents=True, exist_ok=True)
    settings.SSH.chmod(0o700)
    limit = _INOTIFY.read_text(encoding="utf-8")
    if int(limit) < _INOTIFY_WANTED:
        write(_INOTIFY_BEFORE, limit)
        _INOTIFY.write_text(str(_INOTIFY_WANTED), encoding="utf-8")


def _install(packages: list[str]) -> None:
    if shutil.which("apt-get") is None:
        raise SandboxError(f"needs {', '.join(packages)}; there is no apt-get here to install them with")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(f"installing {', '.join(packages)} on this machine"):
        if not succeeds(["apt-get", "install", "-y", "--no-install-recommends", *packages]):
            run(["apt-get", "update"], env=env)
            run(["apt-get", "install", "-y", "--no-install-recommends", *packages], env=env)


def restore() -> None:
    """Undo what ``prepare`` mounted and raised; programs that it installed stay."""
    if _INOTIFY_BEFORE.exists():
        _INOTIFY.write_text(_INOTIFY_BEFORE.read_text(encoding="utf-8"), encoding="utf-8")
    if _MARKER.exists():
        run(["umount", "/run/systemd"])
