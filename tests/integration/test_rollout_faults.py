"""What goes wrong around a rollout: power, SSH, the controller, the gateway, a disk, a second rollout, bad clients.

Three hosts with the stand-in behind a real gateway, under load; about twenty-five minutes on two cores. Each test ends
with the fleet serving. What is wrong with a release itself: test_rollout_fleet.py.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, Play, end_of, kept, note, sandbox, states, until
from fleet_load import Load

pytestmark = pytest.mark.sandbox
OLD, NEW = "0.5.9", "0.5.23"
HOSTS = ["ro1", "ro2", "ro3"]
SWITCH = "Put the servers in force"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, play: Play) -> Iterator[Fleet]:
    with Fleet(HOSTS, tmp_path_factory.mktemp("fleet"), gateway="ro-gw").standing(play) as found:
        yield found


@pytest.fixture
def fleet(machines: Fleet, play: Play) -> Fleet:
    return machines.anew(play, OLD)


def all_new(fleet: Fleet, file: Path) -> None:
    """The rollout came to its end everywhere."""
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert [fleet.release(host) for host in fleet.hosts] == [NEW] * len(fleet.hosts)
    assert set(fleet.routable().values()) == {"present"}


def test_a_host_that_loses_power_in_the_middle_is_left_out_and_resume_brings_it_back(
    fleet: Fleet, play: Play, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = {"max_failures": 1}
    with Load(fleet.url, clients=4, tokens=60) as load:
        with fleet.rolling(file, NEW) as controller:
            until(controller, SWITCH, times=2)
            sandbox("stop", "--hard", "ro2")
            status, text = end_of(controller)
        assert status != 0
        assert states(file) == {"ro1": "done", "ro2": "unreachable", "ro3": "done"}, text[-3000:]
        assert fleet.routable()["ro2"] == "drained"
        sandbox("up", "ro2")
        again = fleet.roll(play, file, NEW, rollout_resume=True)
    assert again.status == "successful", again.stdout[-3000:]
    all_new(fleet, file)
    assert load.lost == [], "it was drained when it died"


def test_a_host_that_loses_power_while_it_serves_loses_only_what_ran_there(
    fleet: Fleet, play: Play, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = {"max_failures": 1}
    with Load(fleet.url, clients=4, tokens=60) as load, fleet.rolling(file, NEW) as controller:
        until(controller, SWITCH)
        sandbox("stop", "--hard", "ro2")
        died = time.time()
        status, text = end_of(controller)
    assert status != 0
    assert states(file) == {"ro1": "done", "ro2": "unreachable", "ro3": "done"}, text[-3000:]
    assert [o for o in load.lost if o.began > died or "ro2" not in o.worker] == []
    sandbox("up", "ro2")
    assert fleet.roll(play, file, NEW, rollout_resume=True).status == "successful"
    all_new(fleet, file)


def test_ssh_is_cut_in_the_middle_and_resume_goes_on(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    """The SSH server dies with all its sessions, and what ran in them; the host itself serves on."""
    file = tmp_path / "rollout.json"
    cut = "systemctl kill -s KILL ssh; systemctl stop ssh; sleep 40; systemctl start ssh"
    with Load(fleet.url, clients=4, tokens=60) as load:
        with fleet.rolling(file, NEW) as controller:
            until(controller, "Wait until real generations")
            fleet.ssh("ro1", f"systemd-run --quiet --no-block sh -c '{cut}'", check=False)
            status, text = end_of(controller)
        assert status != 0
        assert states(file) == {"ro1": "unreachable", "ro2": "planned", "ro3": "planned"}, text[-3000:]
        assert fleet.routable() == {"ro1": "drained", "ro2": "present", "ro3": "present"}
        sandbox("up", "ro1")
        again = fleet.roll(play, file, NEW, rollout_resume=True)
    assert again.status == "successful", again.stdout[-3000:]
    all_new(fleet, file)
    assert load.lost == []


def test_a_controller_that_is_killed_at_each_step_resumes_without_a_lost_request(
    fleet: Fleet, play: Play, tmp_path: Path
) -> None:
    """One rollout that is killed again and again, each time further on, and resumed each time."""
    file = tmp_path / "rollout.json"
    steps = ["Make the builds", "Check what can be known", "Keep other runs away", "Drain", "Measure$", SWITCH]
    steps += ["Wait until real generations", "Put it back to work", "Let it work for a while"]
    fleet.rollout = {"bench": True, "bench_repeat": 4, "bench_output_len": 10}
    with Load(fleet.url, clients=4, tokens=60) as load:
        for number, step in enumerate(steps):
            with fleet.rolling(file, NEW, rollout_resume=number > 0) as controller:
                until(controller, step.replace("$", r"\]"))
                time.sleep(0.5)
                os.killpg(controller.pid, signal.SIGKILL)
            assert states(file) == {"ro1": "started", "ro2": "planned", "ro3": "planned"}, step
        run = fleet.roll(play, file, NEW, rollout_resume=True)
    assert run.status == "successful", run.stdout[-3000:]
    all_new(fleet, file)
    assert load.lost == []


def test_the_gateway_dies_in_the_middle_and_keeps_who_is_drained(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    drained = {"ro1": "drained", "ro2": "present", "ro3": "present"}
    with Load(fleet.url, clients=4, tokens=60) as load, fleet.rolling(file, NEW) as controller:
        until(controller, SWITCH)
        assert fleet.routable() == drained
        fleet.ssh(fleet.gateway, "systemctl kill -s KILL sglang-gateway")
        answers(fleet.url)
        back = time.time()
        assert fleet.routable() == drained
        until(controller, "Put it back to work")
        returned = time.time()
        status, text = end_of(controller)
    assert status == 0, text[-3000:]
    all_new(fleet, file)
    assert [o for o in load.lost if o.began > back] == []
    early = [o for o in load.done if back < o.began and o.began + o.seconds < returned and "ro1" in o.worker]
    assert early == [], "it got requests while it was drained"


def answers(url: str) -> None:
    """Wait until a generation comes back through the gateway."""
    body = b'{"model": "/srv/models/tiny-llama", "text": "a", "sampling_params": {"max_new_tokens": 1}}'
    head = {"content-type": "application/json"}
    for _ in range(120):
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/generate", body, head), timeout=10):
                return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the gateway does not come back")


def test_a_full_disk_stops_the_host_before_it_is_touched(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    fleet.ssh(
        "ro2",
        "mount -t tmpfs -o size=400m tmpfs /mnt && cp -a /opt/sglang/. /mnt/ && "
        "rm -rf /mnt/builds/stand-in-0.5.23-* && mount --bind /mnt /opt/sglang && "
        "{ dd if=/dev/zero of=/opt/sglang/filler bs=64k 2>/dev/null || true; }",
    )
    try:
        with Load(fleet.url, clients=4, tokens=60) as load:
            run = fleet.roll(play, file, NEW)
        assert run.status == "failed"
        assert states(file) == {"ro1": "done", "ro2": "restored", "ro3": "planned"}, run.stdout[-3000:]
        assert "space" in note(file, "ro2")
        assert fleet.release("ro2") == OLD
        assert set(fleet.routable().values()) == {"present"}
        assert load.lost == []
    finally:
        fleet.ssh("ro2", "umount -l /opt/sglang /mnt")
    again = fleet.roll(play, file, NEW, rollout_resume=True)
    assert again.status == "successful", again.stdout[-3000:]
    all_new(fleet, file)


def test_of_two_rollouts_at_once_one_comes_to_its_end_and_the_other_touches_nothing(
    fleet: Fleet, play: Play, tmp_path: Path
) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    with Load(fleet.url, clients=4, tokens=60) as load, fleet.rolling(files[0], NEW) as first:
        until(first, "Drain")
        second = fleet.roll(play, files[1], NEW)
        same = fleet.roll(play, files[0], NEW)
        status, text = end_of(first)
    assert same.status == second.status == "failed"
    assert "another run" in same.failure("localhost")
    assert status == 0, text[-3000:]
    all_new(fleet, files[0])
    lost = files[1]
    assert states(lost) == {"ro1": "busy", "ro2": "planned", "ro3": "planned"}
    assert "is being changed by another run" in note(lost, "ro1")
    assert load.lost == []


def test_clients_with_bad_requests_take_no_worker_out(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    statuses: list[int] = []
    ended = threading.Event()
    body = b'{"model": "/srv/models/tiny-llama", "text": "a", "sampling_params": {"temperature": -1}}'
    head = {"content-type": "application/json"}

    def bad() -> None:
        while not ended.wait(0.05):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{fleet.url}/generate", body, head), timeout=30).close()
            except urllib.error.HTTPError as error:
                statuses.append(error.code)

    client = threading.Thread(target=bad)
    client.start()
    try:
        with Load(fleet.url, clients=4, tokens=60) as load:
            run = fleet.roll(play, file, NEW)
    finally:
        ended.set()
        client.join()
    assert run.status == "successful", run.stdout[-3000:]
    all_new(fleet, file)
    assert load.lost == []
    assert set(statuses) == {400} and len(statuses) > 100


def test_an_outage_must_be_accepted_and_starts_are_staggered(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = {"min_routable": 3}
    refused = fleet.roll(play, file, NEW)
    assert refused.status == "failed"
    assert "allow_outage" in refused.failure("localhost")
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 3
    fleet.rollout = {"min_routable": 3, "allow_outage": True, "canary": 0, "batch": 3, "max_parallel_loads": 2}
    run = fleet.roll(play, file, NEW)
    assert run.status == "successful", run.stdout[-3000:]
    all_new(fleet, file)
    assert kept(file)["batches"] == [["ro1", "ro2"], ["ro3"]]
