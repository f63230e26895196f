"""Rollouts over a fleet of stand-in servers behind the real gateway, under load that never pauses.

Three hosts and a gateway; about twelve minutes on two cores. What goes wrong around servers: test_rollout_faults.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet, Play, kept, note, states
from fleet_load import Load

pytestmark = pytest.mark.sandbox
OLD, NEW = "0.5.9", "0.5.23"
SPECULATING = {
    "speculative": {
        "policy": "always",
        "algorithm": "EAGLE3",
        "draft_model_path": "/srv/models/tiny-eagle3",
        "num_steps": 3,
        "eagle_topk": 1,
        "num_draft_tokens": 4,
    },
    # the stand-in has no classes of models
    "acknowledge": ["unit_limits", "model_class", "draft_class"],
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, play: Play) -> Iterator[Fleet]:
    with Fleet(["fl1", "fl2", "fl3"], tmp_path_factory.mktemp("fleet")).standing(play) as found:
        yield found


@pytest.fixture
def fleet(machines: Fleet, play: Play) -> Fleet:
    return machines.anew(play, OLD)


def test_a_rollout_loses_no_request_and_again_there_is_nothing_to_do(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    with Load(fleet.url, clients=6, tokens=60) as load:
        run = fleet.roll(play, file, NEW)
    assert run.status == "successful", run.stdout[-3000:]
    assert load.lost == []
    assert len(load.done) > 50
    assert {outcome.worker for outcome in load.done} == {f"http://{host}:30000" for host in fleet.hosts}
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert [fleet.release(host) for host in fleet.hosts] == [NEW] * 3
    again = fleet.roll(play, file, NEW)
    assert again.status == "successful"
    assert all(again.count("changed", host) == 0 for host in fleet.hosts if host != fleet.hosts[0])
    assert {entry["note"] for entry in kept(file)["units"]} == {"nothing to do"}


@pytest.mark.parametrize(
    ("fault", "wishes", "why"),
    [
        ({"crash": "weights"}, {}, "stand-in fault: told to crash"),
        ({"stall": "capture"}, {}, "stalled"),
        ({"dead_after_s": 20}, {"hold": 30}, "died while it was held"),
        ({"accept_length": 1.0}, {"bench": True, "bench_output_len": 40}, "accept length 1.00"),
        ({"slowdown": 0.2}, {"bench": True, "bench_output_len": 40}, "times the tokens per second"),
    ],
)
def test_a_bad_release_is_taken_back_on_the_canary_and_reaches_nobody_else(
    fleet: Fleet, play: Play, tmp_path: Path, fault: dict[str, Any], wishes: dict[str, Any], why: str
) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = wishes
    if "accept_length" in fault:
        fleet.instance = SPECULATING
        fleet.reach(play, OLD)
    fleet.told(new=fault)
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = fleet.roll(play, file, NEW, sglang_stall_timeout=20)
    assert run.status == "failed"
    assert states(file) == {"fl1": "restored", "fl2": "planned", "fl3": "planned"}, run.stdout[-3000:]
    assert why in note(file, "fl1")
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 3
    assert set(fleet.routable().values()) == {"present"}
    died_in_use = "dead_after_s" in fault
    assert [o for o in load.lost if not (died_in_use and "fl1" in o.worker)] == []


def test_a_rollback_takes_all_hosts_back_without_a_lost_request(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    fleet.rollout = {"min_routable": "50%"}
    assert fleet.roll(play, tmp_path / "rollout.json", NEW).status == "successful"
    out = play("tests/integration/fleet_workers.yml", inventory=fleet.inventory, limit="fl3", fleet_state="drained")
    assert out.status == "successful", out.stdout[-2000:]
    early = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW, sglang_hosts="fl1")
    assert early.status == "failed"
    assert "min_routable is 2" in early.failure("fl1")
    assert fleet.release("fl1") == NEW
    fleet.reach(play, NEW)
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW)
    assert run.status == "successful", run.stdout[-3000:]
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 3
    assert load.lost == []
    again = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW)
    assert all(again.count("changed", host) == 0 for host in fleet.hosts)
