"""Hosts of the sandbox, made for real: isolated, repaired, limited, and gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox import settings

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("itest-sb1", "itest-sb2")

pytestmark = pytest.mark.sandbox


def sandbox(*words: str, ok: bool = True) -> str:
    """Run the command line; its stdout."""
    argv = [sys.executable, "-m", "tests.sandbox", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


def row(name: str) -> dict[str, object] | None:
    return next((entry for entry in json.loads(sandbox("list", "--json")) if entry["name"] == name), None)


def nspawn(name: str) -> int:
    """The process id of the container's supervisor."""
    return int(json.loads((settings.HOSTS / name / "running.json").read_text(encoding="utf-8"))["pid"])


@pytest.fixture(scope="module", autouse=True)
def hosts() -> Iterator[None]:
    sandbox("down", *NAMES)
    sandbox("up", *NAMES)
    yield
    sandbox("down", *NAMES)
    assert not any((settings.HOSTS / name).exists() for name in NAMES)
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    assert not any(f"/{name}/" in mounts for name in NAMES)


def test_a_host_is_a_machine_with_systemd_python_and_its_neighbours_name() -> None:
    said = sandbox("ssh", NAMES[0], "hostname; ps -p 1 -o comm=; python3 -V; getent hosts itest-sb2; ls /srv")
    name, init, python, neighbour, *folders = said.splitlines()
    assert (name, init) == (NAMES[0], "systemd")
    assert python.startswith("Python 3.11.")
    assert neighbour.split() == [row(NAMES[1])["address"], NAMES[1]]  # type: ignore[index]
    assert folders == ["models", "sandbox", "wheelhouse"]


def test_hosts_have_identities_of_their_own_and_no_way_out() -> None:
    machine_ids = {sandbox("ssh", name, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") for name in NAMES}
    assert len(machine_ids) == 2
    assert "default" not in sandbox("ssh", NAMES[0], "ip route")


def test_shared_folders_cannot_be_written() -> None:
    assert "Read-only" in sandbox("ssh", NAMES[0], "touch /srv/wheelhouse/x 2>&1 || true")


def test_up_leaves_a_running_host_alone() -> None:
    before = nspawn(NAMES[0])
    sandbox("up", NAMES[0])
    assert nspawn(NAMES[0]) == before


@pytest.mark.parametrize("end", ["stop", "power cut", "supervisor killed", "reboot"])
def test_a_host_that_ended_comes_back_with_its_disk_address_and_keys(end: str) -> None:
    name = NAMES[1]
    address = row(name)["address"]  # type: ignore[index]
    sandbox("ssh", name, f"echo {end} > /root/note; sync")
    if end == "supervisor killed":
        os.kill(nspawn(name), signal.SIGKILL)
    elif end == "reboot":
        sandbox("ssh", name, "systemctl reboot --no-block")
    else:
        sandbox("stop", *(["--hard"] if end == "power cut" else []), name)
    limit = time.monotonic() + 60
    while row(name)["running"] and time.monotonic() < limit:  # type: ignore[index]
        time.sleep(0.2)
    sandbox("up", name)
    assert sandbox("ssh", name, "cat /root/note").strip() == end
    assert row(name)["address"] == address  # type: ignore[index]


def test_a_memory_limit_from_outside_really_kills() -> None:
    eat = "python3 -c 'bytearray(500_000_000)'; echo $?"
    sandbox("limit", NAMES[0], "200000000")
    try:
        assert sandbox("ssh", NAMES[0], eat).strip() == "137"
    finally:
        sandbox("limit", NAMES[0], "max")
    assert sandbox("ssh", NAMES[0], eat).strip() == "0"


def test_runs_at_the_same_time_do_not_disturb_each_other() -> None:
    argv = [sys.executable, "-m", "tests.sandbox", "up", *NAMES]
    runs = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for dummy in range(3)]
    outputs = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(outputs) == 1


def test_a_host_that_is_not_there_is_named_with_those_that_are() -> None:
    assert NAMES[0] in sandbox("ssh", "itest-none", "true", ok=False)


def test_the_users_own_ssh_folder_plays_no_part(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh"
    folder.mkdir()
    (folder / "config").write_text("Host *\n  HostName 192.0.2.1\n  ConnectTimeout 1\n", encoding="utf-8")
    argv = [sys.executable, "-m", "tests.sandbox", "ssh", NAMES[0], "true"]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, "HOME": str(tmp_path)}, check=True)
    assert [path.name for path in folder.iterdir()] == ["config"]
