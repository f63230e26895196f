"""A rollout over eight hosts that are all kept busy: no request lost, no stream cut, and how long it takes.

Eight light hosts with the stand-in behind a real gateway; about nine minutes on two busy cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import ROOT, Fleet, Play, kept, states
from fleet_load import Load

pytestmark = pytest.mark.sandbox
OLD, NEW = "0.5.9", "0.5.23"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, play: Play) -> Iterator[Fleet]:
    hosts = [f"re{number}" for number in range(1, 9)]
    with Fleet(hosts, tmp_path_factory.mktemp("fleet"), gateway="re-gw").standing(play) as found:
        yield found.anew(play, OLD)


def test_eight_busy_hosts_are_rolled_without_a_lost_request(fleet: Fleet, play: Play, tmp_path: Path) -> None:
    file = tmp_path / "rollout.json"
    fleet.rollout = {"min_routable": "50%", "batch": "25%", "soak": 10, "hold": 5}
    fleet.told(start_s=10)
    with Load(fleet.url, clients=16, tokens=80) as load:
        run = fleet.roll(play, file, NEW)
    plan = kept(file)
    report = figures(run, plan, load)
    out = ROOT / "tests" / "output" / "rollout-eight.json"
    out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    assert run.status == "successful", run.stdout[-3000:]
    assert load.lost == []
    assert states(file) == dict.fromkeys(fleet.hosts, "done")
    assert [fleet.release(host) for host in fleet.hosts] == [NEW] * 8
    assert [len(batch) for batch in plan["batches"]] == [1, 2, 2, 2, 1]
    assert min(report["requests by worker"].values()) > 10, "not every worker was kept busy"


def figures(run: Any, plan: dict[str, Any], load: Load) -> dict[str, Any]:
    """The time that it took against the ideal: in each batch the slowest start with its soak, and nothing else."""
    starts = {host: run.results(host, "sglang_ready")[0]["results"][0]["waited_s"] for host in plan["hosts"]}
    ideal = sum(max(starts[host] for host in batch) for batch in plan["batches"])
    times = [event["at"] for event in plan["events"]]
    began = {event["unit"]: event["at"] for event in reversed(plan["events"]) if event["state"] == "started"}
    ended = {event["unit"]: event["at"] for event in plan["events"] if event["state"] == "done"}
    workers = sorted({outcome.worker for outcome in load.done})
    return {
        "seconds": round(max(times) - min(times), 1),
        "ideal, start and soak of each batch": round(ideal, 1),
        "held": plan["options"]["hold"] * len(plan["batches"]),
        "batches": [round(max(ended[h] for h in b) - min(began[h] for h in b), 1) for b in plan["batches"]],
        "start and soak": starts,
        "requests": len(load.done),
        "streams": sum(outcome.stream for outcome in load.done),
        "lost": len(load.lost),
        "slowest": round(max(outcome.seconds for outcome in load.done), 2),
        "requests by worker": {w: sum(outcome.worker == w for outcome in load.done) for w in workers},
    }
