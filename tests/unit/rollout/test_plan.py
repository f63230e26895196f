from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import procfs
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import rollout, rollout_file, this_run
from hypothesis import given, settings
from hypothesis import strategies as st


def hosts(count: int, **replicas: str) -> list[dict[str, Any]]:
    names = [f"gpu-{number}" for number in range(1, count + 1)]
    return [
        {
            "name": name,
            "replica": replicas.get(name.replace("-", "_")),
            "gateways": ["gw"],
            "workers": [f"http://{name}:1"],
        }
        for name in names
    ]


def test_the_canary_goes_first_and_the_rest_in_shares_of_the_whole() -> None:
    plan = rollout.plan(hosts(8), {"batch": "25%"})
    assert plan["serial"] == [1, 2, 2, 2, 1]
    assert plan["batches"][0] == ["gpu-1"]
    assert [unit["canary"] for unit in plan["units"]] == [True] + [False] * 7
    assert plan["hosts"] == [f"gpu-{n}" for n in range(1, 9)]


def test_a_canary_by_name_comes_first_whatever_the_inventory_says() -> None:
    plan = rollout.plan(hosts(4), {"canary": ["gpu-3"], "batch": 2})
    assert plan["batches"] == [["gpu-3"], ["gpu-1", "gpu-2"], ["gpu-4"]]


def test_batches_may_grow_and_the_last_size_repeats() -> None:
    assert rollout.plan(hosts(10), {"batch": [1, 3], "min_routable": 1})["serial"] == [1, 1, 3, 3, 2]


def test_never_fewer_than_min_routable_workers() -> None:
    assert max(rollout.plan(hosts(8), {"batch": 8, "canary": 0, "min_routable": 6})["serial"]) == 2
    assert max(rollout.plan(hosts(8), {"batch": 8, "canary": 5, "min_routable": 6})["serial"]) == 2


@pytest.mark.parametrize(("count", "wish"), [(1, "50%"), (1, 1), (4, "100%"), (3, 3)])
def test_a_fleet_that_cannot_keep_min_routable_is_refused_unless_an_outage_is_accepted(count: int, wish: Any) -> None:
    with pytest.raises(InferopsError, match="allow_outage"):
        rollout.plan(hosts(count), {"min_routable": wish})
    assert rollout.plan(hosts(count), {"min_routable": wish, "allow_outage": True})["routable"] == {"gw": 0}


def test_starts_on_shared_storage_are_staggered() -> None:
    plan = rollout.plan(hosts(8), {"batch": 4, "min_routable": 1, "max_parallel_loads": 2})
    assert max(plan["serial"]) == 2
    assert "max_parallel_loads" in plan["notes"][0]


def test_a_replica_over_several_hosts_is_one_unit() -> None:
    plan = rollout.plan(hosts(5, gpu_2="big", gpu_4="big"), {"batch": 1})
    assert plan["batches"] == [["gpu-1"], ["big"], ["gpu-3"], ["gpu-5"]]
    assert plan["serial"] == [1, 2, 1, 1]
    assert plan["hosts"] == ["gpu-1", "gpu-2", "gpu-4", "gpu-3", "gpu-5"]
    big = next(unit for unit in plan["units"] if unit["name"] == "big")
    assert (big["hosts"], big["workers"]) == (["gpu-2", "gpu-4"], ["http://gpu-2:1"])


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"canry": 1}, "did you mean 'canary'"),
        ({"canary": ["gpu-99"]}, "none of the hosts"),
        ({"batch": "a lot"}, "a count .2. or a share"),
        ({"batch": 0}, "at least one host"),
        ({"hold": -1}, "not negative"),
        ({"max_failures": True}, "not negative"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(wish: dict[str, Any], text: str) -> None:
    with pytest.raises(InferopsError, match=text):
        rollout.plan(hosts(4), wish)
    with pytest.raises(InferopsError, match="matches none"):
        rollout.plan([], {})


def test_a_failed_canary_stops_at_once_and_others_by_their_number() -> None:
    plan = rollout.plan(hosts(4), {"max_failures": 1})
    assert rollout.must_stop(plan, 0) is None
    assert "canary" in str(rollout.must_stop(rollout.mark(plan, "gpu-1", "restored", 0)))
    one = rollout.mark(plan, "gpu-2", "restored", 0, "slow")
    assert rollout.must_stop(one, 0) is None
    assert "2 failed" in str(rollout.must_stop(rollout.mark(one, "gpu-3", "unreachable", 0)))


def test_resume_goes_on_where_it_stopped_with_what_failed_first() -> None:
    old = rollout.plan(hosts(8), {"batch": 2})
    for name, state in (("gpu-1", "done"), ("gpu-2", "restored"), ("gpu-3", "done"), ("gpu-4", "started")):
        old = rollout.mark(old, name, state, 0)
    plan = rollout.resume(old, hosts(8), {"batch": 2})
    assert plan["batches"] == [["gpu-2"], ["gpu-4"], ["gpu-5", "gpu-6"], ["gpu-7", "gpu-8"]]
    states = {unit["name"]: unit["state"] for unit in plan["units"]}
    assert states["gpu-1"] == states["gpu-3"] == "done"
    assert states["gpu-2"] == states["gpu-4"] == "planned"


def test_resume_of_a_finished_rollout_has_nothing_to_do_and_of_an_untouched_one_everything() -> None:
    old = rollout.plan(hosts(2), {})
    assert rollout.resume(old, hosts(2), {})["batches"] == old["batches"]
    for name in ("gpu-1", "gpu-2"):
        old = rollout.mark(old, name, "done", 0)
    plan = rollout.resume(old, hosts(2), {})
    assert (plan["batches"], plan["hosts"]) == ([], [])


def test_resume_notices_hosts_that_came_and_went() -> None:
    old = rollout.mark(rollout.plan(hosts(3), {}), "gpu-1", "done", 0)
    plan = rollout.resume(old, [*hosts(2), {"name": "new", "gateways": ["gw"], "workers": ["http://new:1"]}], {})
    assert plan["hosts"] == ["gpu-2", "new"]
    assert "gpu-3 is no longer" in plan["notes"][0]


def test_the_plan_and_its_course_are_shown() -> None:
    plan = rollout.plan(hosts(4, gpu_2="big", gpu_3="big"), {})
    text = "\n".join(rollout.lines(rollout.mark(plan, "gpu-1", "restored", 0, "20 % slower")))
    assert "1. canary: gpu-1 restored (20 % slower)" in text
    assert "big [gpu-2 + gpu-3]" in text


@settings(deadline=None)
@given(
    count=st.integers(1, 40),
    canary=st.integers(0, 5),
    batch=st.one_of(st.integers(1, 50), st.integers(1, 100).map(lambda n: f"{n}%")),
    routable=st.one_of(st.integers(0, 40), st.integers(0, 100).map(lambda n: f"{n}%")),
    done=st.sets(st.integers(1, 40)),
)
def test_whatever_is_wished_every_host_comes_once_and_enough_stay(
    count: int, canary: int, batch: Any, routable: Any, done: set[int]
) -> None:
    wish = {"canary": canary, "batch": batch, "min_routable": routable}
    try:
        plan = rollout.plan(hosts(count), wish)
    except InferopsError:
        assert rollout.count(routable, count, up=True) >= count
        return
    assert sorted(plan["hosts"]) == sorted(host["name"] for host in hosts(count))
    assert max(plan["serial"]) <= count - plan["routable"]["gw"]
    for number in done:
        plan = rollout.mark(plan, f"gpu-{number}", "done", 0)
    rest = rollout.resume(plan, hosts(count), wish)
    assert set(rest["hosts"]) == {host["name"] for host in hosts(count)} - {f"gpu-{n}" for n in done}
    assert sum(rest["serial"]) == len(rest["hosts"]) or not rest["hosts"]


def test_with_only_some_hosts_the_others_stay_and_count_as_workers() -> None:
    plan = rollout.plan(hosts(4, gpu_2="big", gpu_3="big"), {"batch": 4, "min_routable": 1}, only=["gpu-3", "gpu-4"])
    assert plan["batches"] == [["big"], ["gpu-4"]]
    assert plan["hosts"] == ["gpu-2", "gpu-3", "gpu-4"]
    assert {unit["name"]: unit["state"] for unit in plan["units"]}["gpu-1"] == "left"
    # one of one could not be taken out; one of four can
    assert rollout.plan(hosts(4), {}, only=["gpu-2"])["serial"] == [1]


def test_a_rollout_begins_no_unit_after_its_end() -> None:
    plan = rollout.plan(hosts(3), {"until": 1000})
    assert rollout.must_stop(plan, 999) is None
    assert "until" in (rollout.must_stop(plan, 1000) or "")
    for unit in ("gpu-1", "gpu-2", "gpu-3"):
        plan = rollout.mark(plan, unit, rollout.DONE, 1)
    assert rollout.must_stop(plan, 1001) is None


def test_the_share_that_stays_is_of_the_whole_fleet_for_a_single_host_too() -> None:
    plan = rollout.plan(hosts(8), {"min_routable": "50%"}, only=["gpu-3"])
    assert (plan["batches"], plan["routable"]) == ([["gpu-3"]], {"gw": 4})


def test_a_plan_that_a_living_run_works_off_is_not_replaced(tmp_path: Path) -> None:
    path, mine = str(tmp_path / "rollout.json"), this_run.this_run()["id"]
    child = subprocess.Popen(["sleep", "60"])
    other = mine.split("/")[0] + f"/{child.pid}/{procfs.read(child.pid).started}"
    rollout_file.begin(path, rollout.plan(hosts(2), {}), other)
    with pytest.raises(InferopsError, match=f"another run .process {child.pid}."):
        rollout_file.begin(path, rollout.plan(hosts(3), {}), mine)
    assert len(rollout_file.read(path)["units"]) == 2
    child.kill()
    child.wait()
    rollout_file.begin(path, rollout.plan(hosts(3), {}), mine)
    rollout_file.begin(path, rollout.plan(hosts(4), {}), mine)
    assert len(rollout_file.read(path)["units"]) == 4


def test_a_host_that_another_run_works_on_counts_as_a_failure() -> None:
    assert "canary" in str(rollout.must_stop(rollout.mark(rollout.plan(hosts(4), {}), "gpu-1", "busy", 0)))


def behind(*gateways: str, count: int = 1, start: int = 1, workers: int = 1) -> list[dict[str, Any]]:
    return [
        {"name": f"n{number}", "gateways": list(gateways), "workers": [f"http://n{number}:{w}" for w in range(workers)]}
        for number in range(start, start + count)
    ]


def test_every_gateway_keeps_its_share() -> None:
    fleet = [*behind("g", count=4), *behind("g", "h", count=2, start=5), *behind("h", count=2, start=7)]
    plan = rollout.plan(fleet, {"batch": 8, "canary": 0, "min_routable": "50%"})
    assert plan["routable"] == {"g": 3, "h": 2}
    assert max(plan["serial"]) == 2, "behind h no more than two of four may be away"
    entries = {unit["name"]: unit["entries"] for unit in plan["units"]}
    assert entries["n5"] == [
        {"gateway": "g", "url": "http://n5:0", "min_routable": 3},
        {"gateway": "h", "url": "http://n5:0", "min_routable": 2},
    ]
    assert "at least 3 behind g and 2 behind h stay routable" in rollout.lines(plan)[0]
    with pytest.raises(InferopsError, match=r"1 worker\(s\) behind h and min_routable"):
        rollout.plan([*behind("g", count=4), *behind("h", start=5)], {})


def test_workers_are_counted_and_not_hosts() -> None:
    fleet = [*behind("g", count=4), *behind("g", count=2, start=5, workers=3)]
    plan = rollout.plan(fleet, {"batch": 6, "canary": 0, "min_routable": 5})
    assert max(plan["serial"]) == 1, "two of those with three each would leave four of ten"
    assert max(rollout.plan(fleet, {"batch": 6, "canary": 0, "min_routable": 4})["serial"]) == 2


def test_a_host_without_a_gateway_takes_nothing_from_one() -> None:
    plan = rollout.plan([*behind("g", count=2), *behind(start=3)], {})
    assert plan["routable"] == {"g": 1}
    assert plan["hosts"] == ["n1", "n2", "n3"]


def test_a_canary_that_is_to_be_left_alone_is_replaced() -> None:
    plan = rollout.plan(hosts(4), {"canary": ["gpu-3"]}, only=["gpu-1", "gpu-2"])
    assert plan["batches"][0] == ["gpu-1"]
    assert [unit["name"] for unit in plan["units"] if unit.get("canary")] == ["gpu-1"]


def test_resume_leaves_alone_what_the_rollout_was_to_leave_alone() -> None:
    old = rollout.plan(hosts(4), {}, only=["gpu-2", "gpu-3"])
    old = rollout.mark(old, "gpu-2", "done", 0)
    plan = rollout.resume(old, hosts(4), {})
    assert plan["hosts"] == ["gpu-3"]
    assert [unit["name"] for unit in rollout.unfinished(plan)] == ["gpu-3"]


def test_resume_of_a_part_leaves_the_rest_for_later() -> None:
    old = rollout.mark(rollout.plan(hosts(4), {}), "gpu-1", "done", 0)
    part = rollout.resume(old, hosts(4), {}, only=["gpu-3"])
    assert part["hosts"] == ["gpu-3"]
    part = rollout.mark(part, "gpu-3", "done", 1)
    assert rollout.unfinished(part) == []
    assert rollout.resume(part, hosts(4), {})["hosts"] == ["gpu-2", "gpu-4"]


@pytest.mark.parametrize("state", ["planned", "left"])
def test_a_rollout_that_was_ended_before_its_canary_still_has_one(state: str) -> None:
    only = None if state == "planned" else ["gpu-2", "gpu-3", "gpu-4"]
    old = rollout.plan(hosts(4), {"canary": 2, "min_routable": 3}, only)
    assert rollout.resume(old, hosts(4), {"canary": 2}, only)["batches"][0] == old["batches"][0] + old["batches"][1]
    first = old["batches"][0][0]
    begun = rollout.resume(rollout.mark(old, first, "done", 0), hosts(4), {"canary": 2})
    assert begun["batches"][0] == old["batches"][1], "the second canary comes before the others, and alone"
    assert rollout.must_stop(rollout.mark(begun, old["batches"][1][0], "out", 0)).startswith("the canary failed")


FIGURES = {"levels": [1], "accept_length": None, "accept_length_most": None, "conditions": {}}


def test_what_was_in_force_is_known_until_it_is_in_force_again() -> None:
    plan = rollout.plan(hosts(2), {})
    plan = rollout.mark(plan, "gpu-1", "started", 0, replaced={"tiny": FIGURES})
    plan = rollout.mark(plan, "gpu-1", "started", 1, was={"gpu-1": {"tiny": 1}})
    for state in ("started", "out", "unreachable"):
        again = rollout.resume(rollout.mark(plan, "gpu-1", state, 2), hosts(2), {})
        again = rollout.mark(again, "gpu-1", "started", 3, was={"gpu-1": {"tiny": 2}})
        unit = again["units"][0]
        assert unit["was"] == {"gpu-1": {"tiny": 1}}, "the first word counts"
        assert unit["replaced"] == {"tiny": {key: FIGURES[key] for key in list(FIGURES)[:3]}}
    for state in ("restored", "done"):
        assert not {"was", "replaced"} & rollout.mark(plan, "gpu-1", state, 2)["units"][0].keys()


def test_what_was_begun_and_did_not_say_how_it_ended_stops_the_rest() -> None:
    """Its note could not be kept, say: nobody knows whether it serves."""
    plan = rollout.plan(hosts(4), {"max_failures": 0, "canary": 0})
    assert "1 failed (gpu-2)" in str(rollout.must_stop(rollout.mark(plan, "gpu-2", "started", 0)))


def test_a_run_that_another_one_has_gone_on_after_notes_nothing_more(tmp_path: Path) -> None:
    path = str(tmp_path / "rollout.json")
    rollout_file.begin(path, rollout.plan(hosts(2), {}), "there/1/1")
    rollout_file.begin(path, rollout.plan(hosts(2), {}), "here/2/2")
    done = lambda plan: rollout.mark(plan, "gpu-1", "done", 0)  # noqa: E731
    with pytest.raises(InferopsError, match=r"another run \(here/2/2\) has gone on"):
        rollout_file.update(path, done, "there/1/1")
    assert rollout_file.read(path)["events"] == []
    assert rollout_file.update(path, done, "here/2/2")["events"]


@pytest.mark.parametrize("where", ["begin", "update"])
def test_a_disk_that_is_full_is_told_and_what_was_kept_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = str(tmp_path / "rollout.json")
    rollout_file.begin(path, rollout.plan(hosts(2), {}), "here/2/2")

    def full(*dummy: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rollout_file, "write_atomic", full)
    with pytest.raises(InferopsError, match=r"cannot be kept in .*: No space left on device; make room"):
        if where == "begin":
            rollout_file.begin(path, rollout.plan(hosts(3), {}), "here/2/2")
        else:
            rollout_file.update(path, lambda plan: rollout.mark(plan, "gpu-1", "done", 0), "here/2/2")
    assert len(rollout_file.read(path)["units"]) == 2
    assert rollout_file.read(path)["events"] == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "reports").touch()
    with pytest.raises(InferopsError, match="cannot be kept in"):
        rollout_file.begin(str(tmp_path / "reports" / "rollout.json"), rollout.plan(hosts(2), {}), "here/2/2")
