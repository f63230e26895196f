"""drift.yml on a fleet that is a file: hosts and gateways that do not answer, and what is put right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.gateway import registration
from rollout_play import NEW, ROOT, Play
from yaml import safe_load


def in_order(folder: Path, *hosts: str, **given: Any) -> Play:
    play = Play(folder, list(hosts), **given)
    world = play.world
    for host in world["hosts"].values():
        host["release"] = NEW
    play.write(world)
    return play


def edit(play: Play, host: str) -> None:
    world = play.world
    world["hosts"][host]["edited"] = ["/etc/sglang/tiny.env"]
    play.write(world)


def report(play: Play) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((play.folder / "reports" / "drift.json").read_text())
    return found


def states(play: Play) -> dict[str, str]:
    return {name: host["state"] for name, host in report(play)["hosts"].items()}


def test_a_host_that_does_not_answer_is_said_and_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    """A rollout has taken it out of the gateway when it was lost."""
    play = in_order(tmp_path, "a", "b", "c")
    world = play.world
    world["gateways"]["gw"]["http://a:30000"] = "drained"
    play.write(world)
    edit(play, "b")
    play.silent(module="sglang_plan", host="a", times=99)
    play.gone("a")
    run = play.run("drift")
    assert run.status == 0, run.text
    assert states(play) == {"a": "unreachable", "b": "drifted", "c": "in_sync", "gw": "in_sync"}
    assert "No route to host" in report(play)["hosts"]["a"]["message"]
    assert "a  unreachable: No route to host" in run.text
    assert "unreachable" in (play.folder / "reports" / "drift.html").read_text()

    run = play.run("drift", correct=True, drift_fail=True)
    assert states(play) == {"a": "unreachable", "b": "corrected", "c": "in_sync", "gw": "in_sync"}, run.text
    assert run.status != 0
    failed = [line.partition("[")[2].partition("]")[0] for line in run.text.splitlines() if line.startswith("fatal:")]
    assert set(failed) == {"a"}
    assert play.calls("sglang_server", host="a") == [] and play.routed == {"gw": ["b", "c"]}


def test_with_nothing_to_put_right_nothing_is_touched_and_a_silent_gateway_is_said(tmp_path: Path) -> None:
    play = in_order(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": "g1"})
    play.silent(module="gateway_plan", place="g2", times=99)
    run = play.run("drift", correct=True)
    assert run.status == 0, run.text
    assert states(play) == {"a": "in_sync", "b": "in_sync", "g1": "in_sync", "g2": "unreachable"}
    assert report(play)["hosts"]["g2"]["message"] == "gateway: No route to host"
    assert not play.file.exists()
    assert {call["module"] for call in play.world["calls"]} == {"sglang_plan", "gateway_plan"}
    asked = {call["place"]: call["args"]["hosts"] for call in play.calls("gateway_plan")}
    assert asked == {"g1": ["a", "b"], "g2": ["a"]}


def test_a_gateway_that_is_no_name_is_told(tmp_path: Path) -> None:
    play = in_order(tmp_path, "a", variables={"a": {"sglang_gateway": {"gw": 1}}})
    run = play.run("drift")
    assert run.status != 0
    assert "sglang_gateway is a mapping; wanted the name of a gateway's host" in run.text


def test_every_gateway_that_lost_a_worker_gets_it_back(tmp_path: Path) -> None:
    play = in_order(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": ["g1", "g2"]})
    world = play.world
    world["gateways"]["g2"]["http://b:30000"] = "absent"
    play.write(world)
    run = play.run("drift", correct=True)
    assert run.status == 0, run.text
    assert states(play) == {"a": "in_sync", "b": "corrected", "g1": "in_sync", "g2": "in_sync"}
    assert play.routed == {"g1": ["a", "b"], "g2": ["a", "b"]}
    assert {call["args"]["state"] for call in play.calls("gateway_worker")} == {"present"}
    assert play.calls("sglang_server", host="a") == []


def test_keys_are_closed_as_the_role_writes_them() -> None:
    """Said in three places: where they are written, where they are compared, and where they are put right."""
    written = safe_load((ROOT / "roles" / "sglang_gateway" / "tasks" / "keys.yml").read_text())
    (copied,) = [task["ansible.builtin.copy"] for task in written if "ansible.builtin.copy" in task]
    close = safe_load((ROOT / "playbooks" / "drift_correct.yml").read_text())[0]
    assert "open_keys" in close["hosts"]
    closed = close["tasks"][0]["ansible.builtin.file"]
    assert {key: closed[key] for key in ("owner", "group", "mode")} == {
        key: copied[key] for key in ("owner", "group", "mode")
    }
    assert closed["path"] == copied["dest"]
    assert f"{copied['owner']}:{copied['group']} {copied['mode']}" == registration.CLOSED
