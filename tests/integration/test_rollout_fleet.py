"""Rollouts over a fleet of stand-in servers behind the real gateway, under load that never pauses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import GATEWAY, ROOT, Fleet, sandbox
from fleet_load import Load

pytestmark = pytest.mark.sandbox
OLD, NEW = "0.5.9", "0.5.23"
Play = Callable[..., Any]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    found = Fleet(["fl1", "fl2", "fl3"], tmp_path_factory.mktemp("fleet"))
    found.up()
    return found


@pytest.fixture
def fleet(machines: Fleet, play: Play, tmp_path: Path) -> Iterator[Fleet]:
    """All servers on the old release, calm, and routable."""
    machines.rollout, machines.variables = {}, {}
    machines.up()
    machines.told()
    gateway = play("tests/integration/gateway.yml", inventory=machines.inventory, fleet_release=OLD)
    assert gateway.status == "successful", gateway.stdout[-2000:]
    reach(machines, play, tmp_path / "start.json", OLD)
    yield machines


def reach(fleet: Fleet, play: Play, file: Path, release: str) -> None:
    """Bring everything to a release, whatever an earlier test left."""
    run = play("playbooks/deploy.yml", inventory=fleet.inventory, fleet_release=release)
    assert run.status == "successful", run.stdout[-3000:]
    for host in fleet.hosts:
        words = json.dumps({"url": f"http://{host}:30000", "state": "present"})
        argv = [str(Path(sys.executable).parent / "ansible"), "-i", fleet.inventory, GATEWAY, "-b"]
        argv += ["-m", "inferops.sglang.gateway_worker", "-a", words]
        run = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout


def roll(fleet: Fleet, play: Play, file: Path, release: str = NEW, **variables: Any) -> Any:
    return play(
        "playbooks/rollout.yml",
        inventory=fleet.inventory,
        fleet_release=release,
        rollout_file=str(file),
        **variables,
    )


def kept(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())["sglang_rollout_plan"])


def states(file: Path) -> dict[str, str]:
    return {unit["name"]: unit["state"] for unit in kept(file)["units"]}


def note(file: Path, unit: str) -> str:
    return str(next(entry["note"] for entry in kept(file)["units"] if entry["name"] == unit))


def test_a_rollout_loses_no_request_and_again_there_is_nothing_to_do(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    with Load(fleet.url, clients=6, tokens=60) as load:
        run = roll(fleet, play, file)
    assert run.status == "successful", run.stdout[-3000:]
    assert load.lost == []
    assert len(load.done) > 50
    assert {outcome.worker for outcome in load.done} == {f"http://{host}:30000" for host in fleet.hosts}
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert [fleet.release(host) for host in fleet.hosts] == [NEW] * 3
    again = roll(fleet, play, file)
    assert again.status == "successful"
    assert all(again.count("changed", host) == 0 for host in fleet.hosts if host != fleet.hosts[0])
    assert {entry["note"] for entry in kept(file)["units"]} == {"nothing to do"}


@pytest.mark.parametrize(
    ("fault", "wishes", "why"),
    [
        ({"crash": "weights"}, {}, "stand-in fault: told to crash"),
        ({"stall": "capture"}, {}, "stalled"),
        ({"dead_after_s": 20}, {"hold": 30}, "died while it was held"),
        ({"slowdown": 0.3}, {"bench": True, "bench_output_len": 40}, "times the tokens per second"),
    ],
)
def test_a_bad_release_is_taken_back_on_the_canary_and_reaches_nobody_else(
    fleet: Fleet, play: Play, tmp_path: Path, fault: dict[str, Any], wishes: dict[str, Any], why: str
) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = wishes
    fleet.told(new=fault)
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = roll(fleet, play, file, sglang_stall_timeout=20)
    assert run.status == "failed"
    assert states(file) == {"fl1": "restored", "fl2": "planned", "fl3": "planned"}, run.stdout[-3000:]
    assert why in note(file, "fl1")
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 3
    assert set(fleet.routable().values()) == {"present"}
    died_in_use = "dead_after_s" in fault
    assert [o for o in load.lost if not (died_in_use and "fl1" in o.worker)] == []


def test_a_host_that_loses_power_is_left_out_and_resume_brings_it_back(
    fleet: Fleet, play: Play, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = {"max_failures": 1}
    sandbox("stop", "--hard", "fl2")
    with Load(fleet.url, clients=4, tokens=60) as load:
        time.sleep(1)
        before = len(load.done)
        run = roll(fleet, play, file)
    assert run.status == "failed"
    assert states(file) == {"fl1": "done", "fl2": "unreachable", "fl3": "done"}, run.stdout[-3000:]
    assert [o for o in load.done[before:] if o.error and "fl2" not in o.worker] == []
    sandbox("up", "fl2")
    again = roll(fleet, play, file, rollout_resume=True)
    assert again.status == "successful", again.stdout[-3000:]
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert fleet.release("fl2") == NEW


@pytest.mark.parametrize("moment", ["Drain", "Switch and start|Put the servers in force", "Let it work for a while"])
def test_a_controller_that_is_killed_resumes_without_a_lost_request(
    fleet: Fleet, play: Play, tmp_path: Path, moment: str
) -> None:
    import re

    file = tmp_path / "rollout.json"
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/rollout.yml", "-i", fleet.inventory]
    argv += ["-e", json.dumps({"fleet_release": NEW, "rollout_file": str(file)})]
    with Load(fleet.url, clients=4, tokens=60) as load:
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as controller:
            assert controller.stdout is not None
            for line in controller.stdout:
                if line.startswith("TASK") and re.search(moment, line):
                    time.sleep(0.5)
                    os.killpg(controller.pid, signal.SIGKILL)
                    break
        assert states(file)["fl1"] == "started"
        run = roll(fleet, play, file, rollout_resume=True)
    assert run.status == "successful", run.stdout[-3000:]
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert load.lost == []
    assert [fleet.release(host) for host in fleet.hosts] == [NEW] * 3
    assert set(fleet.routable().values()) == {"present"}


def test_a_rollback_takes_all_hosts_back_without_a_lost_request(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    assert roll(fleet, play, tmp_path / "rollout.json").status == "successful"
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW)
    assert run.status == "successful", run.stdout[-3000:]
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 3
    assert load.lost == []
    again = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW)
    assert all(again.count("changed", host) == 0 for host in fleet.hosts)


def test_the_gateway_restarts_in_the_middle_and_keeps_who_is_drained(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    fleet.ssh(GATEWAY, "systemctl kill -s KILL sglang-gateway")
    before = fleet.routable()
    file = tmp_path / "rollout.json"
    run = roll(fleet, play, file)
    assert run.status == "successful", run.stdout[-3000:]
    assert fleet.routable() == before
