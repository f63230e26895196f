from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import procfs
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import rollout, rollout_file, this_run
from hypothesis import given
from hypothesis import strategies as st


def hosts(count: int, **replicas: str) -> list[dict[str, Any]]:
    names = [f"gpu-{number}" for number in range(1, count + 1)]
    return [
        {"name": name, "replica": replicas.get(name.replace("-", "_")), "workers": [f"http://{name}:1"]}
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
    assert rollout.plan(hosts(count), {"min_routable": wish, "allow_outage": True})["options"]["min_routable"] == 0


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
    plan = rollout.resume(old, [*hosts(2), {"name": "new", "workers": []}], {})
    assert plan["hosts"] == ["gpu-2", "new"]
    assert "gpu-3 is no longer" in plan["notes"][0]


def test_the_plan_and_its_course_are_shown() -> None:
    plan = rollout.plan(hosts(4, gpu_2="big", gpu_3="big"), {})
    text = "\n".join(rollout.lines(rollout.mark(plan, "gpu-1", "restored", 0, "20 % slower")))
    assert "1. canary: gpu-1 restored (20 % slower)" in text
    assert "big [gpu-2 + gpu-3]" in text


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
    assert max(plan["serial"]) <= count - plan["options"]["min_routable"]
    for number in done:
        plan = rollout.mark(plan, f"gpu-{number}", "done", 0)
    rest = rollout.resume(plan, hosts(count), wish)
    assert set(rest["hosts"]) == {host["name"] for host in hosts(count)} - {f"gpu-{n}" for n in done}
    assert sum(rest["serial"]) == len(rest["hosts"]) or not rest["hosts"]


def test_with_only_some_hosts_the_others_stay_and_count_as_workers() -> None:
    plan = rollout.plan(hosts(4, gpu_2="big", gpu_3="big"), {"batch": 4, "min_routable": 1}, only=["gpu-3", "gpu-4"])
    assert plan["batches"] == [["big"], ["gpu-4"]]
    assert plan["hosts"] == ["gpu-2", "gpu-3", "gpu-4"]
    assert {unit["name"]: unit["state"] for unit in plan["units"]}["gpu-1"] == "done"
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
    assert (plan["batches"], plan["options"]["min_routable"]) == ([["gpu-3"]], 4)


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
