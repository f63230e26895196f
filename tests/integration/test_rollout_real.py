"""Two real SGLang servers on the CPU behind the gateway, rolled from 0.5.15 to 0.5.23 and back under load.

Hosts with `--serving`; twenty minutes on two cores, most of it builds and starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, Play, sandbox, states
from fleet_load import Load

pytestmark = pytest.mark.sandbox
OLD, NEW = "0.5.15", "0.5.23"
MODEL = "/srv/models/tiny-llama-echo"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, play: Play) -> Iterator[Fleet]:
    sandbox("fill")
    fleet = Fleet(["rr1", "rr2"], tmp_path_factory.mktemp("fleet"), gateway="rr-gw", rollout={"hold": 5, "soak": 3})
    fleet.instance = {
        "model_path": MODEL,
        "lock": "sglang-{{ fleet_release }}-cpu",
        "args": {"device": "cpu", "grammar_backend": "none", "max_total_tokens": 4096, "max_running_requests": 8},
    }
    # the stand-in's wheels have the same names
    fleet.variables = {host: {"sglang_find_links": ["/srv/wheelhouse"]} for host in fleet.hosts}
    with fleet.standing(play) as found:
        found.reach(play, OLD)
        yield found


def test_there_and_back_again_without_a_lost_request(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 2
    with Load(fleet.url, clients=2, tokens=12, model=MODEL, pause=1.0) as load:
        there = fleet.roll(play, file, NEW)
        assert there.status == "successful", there.stdout[-3000:]
        assert states(file) == dict.fromkeys(fleet.hosts, "done")
        assert [fleet.release(host) for host in fleet.hosts] == [NEW] * 2
        back = play("playbooks/rollback.yml", inventory=fleet.inventory, fleet_release=NEW)
    assert back.status == "successful", back.stdout[-3000:]
    assert [fleet.release(host) for host in fleet.hosts] == [OLD] * 2
    print(load.summary())
    assert load.lost == []
    assert {outcome.worker for outcome in load.done} == {f"http://{host}:30000" for host in fleet.hosts}
