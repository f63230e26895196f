"""A host with no way out and no wheels of its own: the controller brings them, through the role."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import fleet
import pytest
from conftest import Play
from test_builds import LOCK, Site, changes, on
from unit_host import SSH_CONFIG, sandbox

pytestmark = pytest.mark.sandbox

HOST = "bare1"
FOLDER = "/opt/sglang/wheelhouse"
PART = 1 << 20


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    fleet.fill_caches()
    sandbox("up", HOST)
    yield HOST
    sandbox("down", HOST)


def bring() -> subprocess.Popen[str]:
    """The module by itself, in small parts, in a session of its own."""
    argv = [str(fleet.ROOT / ".venv/bin/ansible"), "all", "-i", f"{HOST},", "-m", "inferops.sglang.wheelhouse"]
    argv += ["-e", "ansible_python_interpreter=/usr/bin/python3", "--ssh-common-args", f"-F {SSH_CONFIG}"]
    argv += ["-a", f"lock={LOCK} src={fleet.STAND_IN} part_size={PART}"]
    return subprocess.Popen(
        argv, cwd=fleet.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def test_a_host_with_no_way_out_is_served_from_the_controller(bare: str, tmp_path: Path, play: Play) -> None:
    total = sum(
        path.stat().st_size
        for path in [*fleet.STAND_IN.glob("uv-*.whl"), *fleet.STAND_IN.glob("sglang-0.5.9+standin-*.whl")]
    )
    # cut in the middle of the transfer
    cut = bring()
    deadline = time.monotonic() + 120
    while int(on(f"ls {FOLDER}/.incoming 2>/dev/null | wc -l", HOST)) < 2:
        assert cut.poll() is None and time.monotonic() < deadline, "nothing came"
    os.killpg(cut.pid, signal.SIGKILL)
    cut.communicate()
    there = int(on(f"ls {FOLDER}/.incoming | wc -l", HOST))
    assert there > 0 and on(f"ls {FOLDER}/uv-*.whl 2>/dev/null || true", HOST) == "", (
        "a wheel has its name when it is whole"
    )

    again = bring()
    said = again.communicate()[0]
    assert again.returncode == 0, said
    [sent] = re.findall(r'transferred"?: (\d+)', said)
    assert 0 < int(sent) <= total - (there - 1) * PART, (sent, total, there)

    site = Site(tmp_path, play, HOST, sglang_wheels=str(fleet.STAND_IN))
    foretold = site.deploy(check=True)
    assert foretold.status == "successful" and "build environment" in changes(foretold, HOST)
    first = site.deploy()
    assert first.status == "successful", first.stdout[-3000:]
    [brought] = first.results(HOST, "wheelhouse")
    assert brought["results"][0]["missing"] == {} and brought["results"][0]["transferred"] == 0
    assert on("curl -s --fail http://127.0.0.1:30000/v1/models | wc -c", HOST) != "0"
    second = site.deploy()
    assert second.count("changed", HOST) == 0 and changes(second, HOST) == []

    # a wheel that rots on the host is brought again before another build is made of it
    on(f"rm -rf /opt/sglang/cache && truncate -s -1 {FOLDER}/sglang-0.5.9*.whl", HOST)
    other = site.deploy(patches=[])
    assert other.status == "successful", other.stdout[-3000:]
    [brought] = other.results(HOST, "wheelhouse")
    assert brought["results"][0]["changed"] and brought["results"][0]["transferred"] > 0


def test_a_wheel_that_the_controller_lacks_is_named_before_anything_is_sent(
    bare: str, tmp_path: Path, play: Play
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    site = Site(tmp_path, play, HOST, sglang_wheels=str(empty))
    failed = site.deploy(lock=str(LOCK).replace("0.5.9", "0.5.15"))
    said = [str(e["event_data"]["res"]["msg"]) for e in failed.events if e["event"] == "runner_item_on_failed"]
    assert failed.status == "failed" and "lacks 1 of 1 wheels: sglang==0.5.15+standin" in said[0], failed.stdout[-3000:]
