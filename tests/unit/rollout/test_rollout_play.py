"""The shipped playbooks on a fleet that is a file: what goes wrong around a rollout, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout_play import NEW, OLD, Play

DRAINED = {"module": "gateway_worker", "state": "drained"}


def fleet(folder: Path, *hosts: str, **given: Any) -> Play:
    return Play(folder, list(hosts), **given)


def replica(folder: Path) -> Play:
    """One server over ``a`` and ``b``, and another one."""
    ranks = {host: {"sglang_replica": "wide"} for host in ("a", "b")}
    play = fleet(folder, "a", "b", "c", variables=ranks)
    # rank 0 alone is a worker, and dies with rank 1
    world = play.world
    world["gateways"]["gw"].pop("http://b:30000")
    world["urls"]["b"] = ["http://a:30000"]
    play.write(world)
    return play


def test_every_gateway_stops_sending_before_any_is_waited_for_and_each_host_is_released(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": ["g1", "g2"]})
    run = play.roll()
    assert run.status == 0, run.text
    assert play.states == {"a": "done", "b": "done"}
    assert play.releases == {"a": NEW, "b": NEW}
    assert play.routed == {"g1": ["a", "b"], "g2": ["a", "b"]}
    assert play.world["cut"] == []
    drained = play.calls("gateway_worker", state="drained")
    drains = [(call["place"], call["args"]["drain_timeout"]) for call in drained if call["host"] == "a"]
    assert drains == [("g1", 0), ("g1", 5), ("g2", 5)]
    assert {call["args"]["min_routable"] for call in drained} == {1}
    for host in ("a", "b"):
        states = [call["args"]["state"] for call in play.calls("sglang_server", host=host)]
        assert states == ["claimed", "started", "released"]
    first = [call["module"] for call in play.world["calls"] if call["host"] == "a"][:4]
    assert first == ["sglang_plan", "sglang_preflight", "sglang_server", "gateway_worker"]


def test_a_gateway_that_cannot_be_reached_is_named_and_no_server_is_stopped(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": ["g1", "g2"]})
    play.silent(**DRAINED, place="g2", times=9)
    run = play.roll()
    assert run.status != 0
    assert play.states == {"a": "restored", "b": "planned"}
    assert "The gateway on g2 cannot be reached" in play.note("a")
    assert play.releases == {"a": OLD, "b": OLD}
    assert play.routed == {"g1": ["a", "b"], "g2": ["a", "b"]}
    assert play.calls("sglang_server", state="released", host="a")


def test_the_fleets_other_workers_count_for_a_part_of_it(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", "c", wishes={"min_routable": 2})
    run = play.roll(sglang_hosts="b")
    assert run.status == 0, run.text
    assert play.states == {"a": "left", "b": "done", "c": "left"}
    assert play.releases == {"a": OLD, "b": NEW, "c": OLD}
    assert {call["args"]["min_routable"] for call in play.calls("gateway_worker", state="drained")} == {2}
    assert "left alone: a, c" in run.text


def test_no_host_of_a_replica_is_stopped_where_it_cannot_be_drained(tmp_path: Path) -> None:
    play = replica(tmp_path)
    play.fails("too few others", **DRAINED)
    run = play.roll()
    assert run.status != 0
    assert play.states == {"wide": "restored", "c": "planned"}, run.text
    assert [host["pid"] for host in play.world["hosts"].values()] == [100, 100, 100]
    assert play.routed == {"gw": ["a", "c"]}


def test_a_replica_that_is_too_slow_goes_back_as_a_whole(tmp_path: Path) -> None:
    play = replica(tmp_path)
    play.wishes = {"bench": True}
    play.fault({"failed": True, "msg": "20 % slower"}, after=1, module="sglang_bench")
    run = play.roll()
    assert run.status != 0
    assert play.states == {"wide": "restored", "c": "planned"}, run.text
    assert play.releases == {"a": OLD, "b": OLD, "c": OLD}
    assert play.world["cut"] == []
    assert play.routed == {"gw": ["a", "c"]}


def test_where_one_rank_starts_anew_all_do_and_none_is_sent_anything_meanwhile(tmp_path: Path) -> None:
    play = replica(tmp_path)
    world = play.world
    world["hosts"]["a"]["release"] = world["hosts"]["c"]["release"] = NEW
    play.write(world)
    run = play.roll()
    assert run.status == 0, run.text
    hosts = play.world["hosts"]
    assert [(hosts[name]["activation"], hosts[name]["pid"]) for name in "abc"] == [(1, 101), (2, 101), (1, 100)]
    assert play.world["cut"] == []
    assert play.routed == {"gw": ["a", "c"]}


def test_what_a_killed_run_had_put_in_force_still_has_every_gate_before_it(tmp_path: Path) -> None:
    """Killed between ready and the measurement: the host is as described, and nobody has proved it."""
    play = fleet(tmp_path, "a", "b", wishes={"bench": True})
    play.fault({"kill": True}, after=1, module="sglang_bench")
    assert play.roll().status != 0
    assert (play.states["a"], play.releases["a"]) == ("started", NEW)
    play.fault({"failed": True, "msg": "20 % slower"}, module="sglang_bench")
    run = play.roll(rollout_resume=True)
    assert run.status != 0
    assert play.states == {"a": "restored", "b": "planned"}, run.text
    assert play.releases == {"a": OLD, "b": OLD}
    assert play.routed == {"gw": ["a", "b"]}
    (before, dummy, after) = play.calls("sglang_bench")
    assert "compare_with" not in before["args"] and after["args"]["compare_with"]["levels"]
    assert "was" not in play.kept["units"][0], "what was in force is in force again"


def test_a_run_that_was_killed_while_it_put_a_host_back_is_gone_on_with(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", "c")
    play.fails("dead", module="sglang_ready")
    play.fault({"kill": True}, module="sglang_server", state="restored")
    assert play.roll().status != 0
    assert (play.states["a"], play.releases["a"], play.routed) == ("started", OLD, {"gw": ["b", "c"]})
    run = play.roll(rollout_resume=True)
    assert run.status == 0, run.text
    assert set(play.states.values()) == {"done"} and set(play.releases.values()) == {NEW}
    assert play.world["cut"] == [] and play.routed == {"gw": ["a", "b", "c"]}


def test_a_host_that_misses_one_word_is_not_taken_for_changed(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b")
    play.silent(module="sglang_server", state="started")
    run = play.roll()
    assert run.status != 0
    assert play.states == {"a": "restored", "b": "planned"}, run.text
    assert "still differs from its description" in play.note("a")
    assert play.releases == {"a": OLD, "b": OLD}
    assert play.routed == {"gw": ["a", "b"]}


def test_a_host_that_is_as_described_is_left_to_another_run_that_works_on_it(tmp_path: Path) -> None:
    """It may be drained by that one: it is not put back to work."""
    play = fleet(tmp_path, "a", "b")
    world = play.world
    world["hosts"]["a"]["release"] = NEW
    world["gateways"]["gw"]["http://a:30000"] = "drained"
    play.write(world)
    held = {"failed": True, "msg": "being changed by another run", "lease": {"id": "x/1/1"}}
    play.fault(held, module="sglang_server", state="claimed")
    run = play.roll()
    assert run.status != 0
    assert play.states == {"a": "busy", "b": "planned"}, run.text
    assert play.routed == {"gw": ["b"]}
    assert play.calls("gateway_worker") == []


def test_a_server_that_cannot_be_put_back_is_out_of_every_gateway(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": ["g1", "g2"]})
    play.fails("dead", times=2, module="sglang_ready")
    run = play.roll()
    assert run.status != 0
    assert play.states == {"a": "out", "b": "planned"}, run.text
    assert play.note("a") == "dead Then, putting back what served before: dead"
    assert play.routed == {"g1": ["b"], "g2": ["b"]}


def test_a_rollback_passes_over_a_host_that_does_not_answer_and_says_so(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", "b", gateways={"a": ["g1", "g2"], "b": ["g1", "g2"]})
    world = play.world
    for host in world["hosts"].values():
        host.update(release=NEW, activation=2)
    play.write(world)
    play.gone("a")
    run = play.run("rollback")
    assert run.status != 0
    assert "a did not answer and serve what they served" in run.text
    assert play.releases == {"a": NEW, "b": OLD}
    assert play.world["cut"] == [] and play.routed == {"g1": ["a", "b"], "g2": ["a", "b"]}
    assert [call["args"]["state"] for call in play.calls("sglang_server", host="b")][1:] == [
        "claimed",
        "restored",
        "released",
    ]
    play.back("a")
    run = play.run("rollback", sglang_hosts="a")
    assert run.status == 0, run.text
    assert play.releases == {"a": OLD, "b": OLD}


def test_a_measurement_is_away_from_every_gateway_and_from_other_runs(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a", gateways={"a": ["g1", "g2"]})
    world = play.world
    world["hosts"]["a"]["release"] = NEW
    play.write(world)
    run = play.run("bench")
    assert run.status == 0, run.text
    order = [
        (call["module"], call["args"].get("state"), call["place"])
        for call in play.world["calls"]
        if call["module"] in ("sglang_server", "gateway_worker", "sglang_bench")
    ]
    assert order == [
        ("sglang_server", "claimed", ""),
        ("gateway_worker", "drained", "g1"),
        ("gateway_worker", "drained", "g1"),
        ("gateway_worker", "drained", "g2"),
        ("sglang_server", "started", ""),
        ("sglang_bench", None, ""),
        ("sglang_server", "restored", ""),
        ("gateway_worker", "present", "g1"),
        ("gateway_worker", "present", "g2"),
        ("sglang_server", "released", ""),
    ]
    assert (tmp_path / "reports" / "bench.html").exists()


def test_what_another_run_works_on_is_not_measured(tmp_path: Path) -> None:
    play = fleet(tmp_path, "a")
    world = play.world
    world["hosts"]["a"]["release"] = NEW
    play.write(world)
    play.fails("being changed by another run", module="sglang_server", state="claimed")
    assert play.run("bench").status != 0
    assert {call["module"] for call in play.world["calls"]} == {"sglang_plan", "sglang_server"}
