"""Start and end a host's container, as a systemd unit of this machine or, without one, as a process of our own.

Facts about systemd-nspawn (tried with 252): ``--register=no --keep-unit`` needs no machined; where PID 1 is not
systemd, ``/run/systemd`` must be a mount of its own (see ``controller.py``); SIGTERM to nspawn asks the system inside
to power off; the network file inside must sort before ``80-container-host0.network``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import cgroups, settings
from .controller import pid1_is_systemd
from .files import write
from .records import Record
from .shell import SandboxError, run, succeeds


@dataclass(frozen=True)
class Running:
    """A container that was started: nspawn's process (its start time tells it from a later one with the same pid)
    and the control groups that we made for it (none where a unit of systemd holds it)."""

    pid: int
    start_time: str
    groups: tuple[Path, ...]

    @property
    def proc(self) -> Path:
        """Exists as long as nspawn does."""
        return Path(f"/proc/{self.pid}")

    def lives(self) -> bool:
        """Whether it is still that very process."""
        return _start_time(self.pid) == self.start_time


def _start_time(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _unit(record: Record) -> str:
    return f"inferops-sandbox-{record.name}.service"


def recorded(record: Record) -> Running | None:
    """The container that was started last, whether it still lives or not."""
    try:
        data = json.loads((record.folder / "running.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Running(data["pid"], data["start_time"], tuple(map(Path, data["groups"])))


def running(record: Record) -> Running | None:
    """The container of a host, if it lives."""
    found = recorded(record)
    return found if found is not None and found.lives() else None


def command(record: Record, root: Path) -> list[str]:
    """The argument list of nspawn."""
    argv = ["systemd-nspawn", "--quiet", "--boot", f"--directory={root}", f"--machine={record.name}"]
    argv += ["--register=no", "--keep-unit", f"--network-bridge={settings.BRIDGE}", f"--hostname={record.name}"]
    argv += ["--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only"]
    argv += [f"--bind-ro={source}:{target}" for source, target in settings.MOUNTS.items()]
    return argv + [f"--bind-ro={mount}" for mount in record.mounts]


#: How long a host may take to power off, in seconds.
_POWER_OFF_S = 30

#: ``/tmp`` of a host is on its disk, as on most servers, and not a tmpfs of a tenth of the memory.
ENVIRONMENT = {"SYSTEMD_NSPAWN_TMPFS_TMP": "0"}


def start(record: Record, root: Path) -> Running:
    """Boot the container and return at once; whether it comes up is for the caller to watch."""
    argv = command(record, root)
    console = record.folder / "console.log"
    launch = _start_as_unit if pid1_is_systemd() else _start_as_process
    started = launch(record, argv, console)
    data = {"pid": started.pid, "start_time": started.start_time, "groups": [str(group) for group in started.groups]}
    write(record.folder / "running.json", json.dumps(data) + "\n")
    return started


def _start_as_unit(record: Record, argv: list[str], console: Path) -> Running:
    properties = ["Delegate=yes", "KillMode=mixed", "SuccessExitStatus=133", f"StandardOutput=append:{console}"]
    properties += [f"StandardError=append:{console}", f"TimeoutStopSec={_POWER_OFF_S}", "TasksMax=infinity"]
    properties += [f"Environment={name}={value}" for name, value in ENVIRONMENT.items()]
    options = [option for value in properties for option in ("-p", value)]
    run(["systemd-run", "--quiet", "--collect", f"--unit={_unit(record)}", "--service-type=notify", *options, *argv])
    pid = int(run(["systemctl", "show", "--value", "-p", "MainPID", _unit(record)]))
    return Running(pid, _start_time(pid), ())


def _start_as_process(record: Record, argv: list[str], console: Path) -> Running:
    groups = cgroups.create(record.name)
    with console.open("ab") as stream:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=lambda: cgroups.join(groups, os.getpid()),
        )
    return Running(process.pid, _start_time(process.pid), tuple(groups))


def stop(record: Record, *, hard: bool = False) -> None:
    """End the container: asked to power off, and killed if that takes too long (or at once with ``hard``, like a power
    cut). What a container that died left behind goes, too. Raises SandboxError when it outlives even that."""
    found = recorded(record)
    if found is None:
        return
    if not found.groups:
        if hard:
            succeeds(["systemctl", "kill", "--signal=KILL", _unit(record)])
        succeeds(["systemctl", "stop", _unit(record)])  # until all of it is gone; fails only where nothing is left
    elif found.lives() and not hard:
        os.kill(found.pid, signal.SIGTERM)
        _gone(found, _POWER_OFF_S)
    for pid in cgroups.processes(found.groups):  # all at once when hard; otherwise what a dead container left behind
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not _gone(found, 10.0):
        raise SandboxError(f"the container of {record.name} (pid {found.pid}) does not end")
    cgroups.remove(found.groups)
    (record.folder / "running.json").unlink()


def _gone(found: Running, timeout: float) -> bool:
    limit = time.monotonic() + timeout
    while found.lives():
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True
