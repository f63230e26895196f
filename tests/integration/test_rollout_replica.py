"""A replica over two hosts is one unit of a rollout: changed together, failed together; a third host serves meanwhile.

Three hosts with the stand-in behind a real gateway; about five minutes on two cores.
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


def rank(number: int) -> dict[str, Any]:
    """The variables of one host of the replica, as in inventories/fleet-example."""
    args = {"tp_size": 2, "nnodes": 2, "node_rank": number, "dist_init_addr": "rp1:20000"}
    override = {"tiny": {"args": args}}
    return {"sglang_replica": "wide", "sglang_node_rank": number, "sglang_instances_override": override}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, play: Play) -> Iterator[Fleet]:
    fleet = Fleet(["rp1", "rp2", "rp3"], tmp_path_factory.mktemp("fleet"), gateway="rp-gw")
    with fleet.standing(play) as found:
        yield found


@pytest.fixture
def fleet(machines: Fleet, play: Play) -> Fleet:
    return machines.anew(play, OLD, {"rp1": rank(0), "rp2": rank(1)})


def running(fleet: Fleet) -> list[str]:
    """The release that each host's main process runs; rank 1 has no API to ask."""
    command = "readlink -f /opt/sglang/tiny/current && systemctl is-active sglang-tiny"
    found = [fleet.ssh(host, command).split() for host in fleet.hosts]
    return [build.rpartition("/")[2].split("-")[2] if state == "active" else state for build, state in found]


def test_two_hosts_are_rolled_as_one(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = fleet.roll(play, file, NEW)
    assert run.status == "successful", run.stdout[-3000:]
    assert load.lost == []
    assert {outcome.worker for outcome in load.done} == {"http://rp1:30000", "http://rp3:30000"}
    assert kept(file)["batches"] == [["wide"], ["rp3"]]
    assert states(file) == {"wide": "done", "rp3": "done"}
    assert running(fleet) == [NEW] * 3


def test_one_host_that_fails_takes_the_other_back_with_it(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    fleet.told(new={"crash": "weights", "fault_rank": 1})
    with Load(fleet.url, clients=4, tokens=60) as load:
        run = fleet.roll(play, file, NEW, sglang_stall_timeout=20)
    assert run.status == "failed"
    assert states(file) == {"wide": "restored", "rp3": "planned"}, run.stdout[-3000:]
    assert "stand-in fault" in note(file, "wide") or "did not come up" in note(file, "wide")
    assert running(fleet) == [OLD] * 3
    assert set(fleet.routable().values()) == {"present"}
    assert load.lost == []
