"""Which servers stand behind which gateways."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import fleet

TINY = {"tiny": {"host": "0.0.0.0"}}


def host(gateway: Any = None, **given: Any) -> dict[str, Any]:
    return {"sglang_instances": TINY, **({} if gateway is None else {"sglang_gateway": gateway}), **given}


@pytest.mark.parametrize(
    ("said", "found"), [(None, []), ("", []), ("g", ["g"]), (["g", "h"], ["g", "h"]), (["g", "g"], ["g"]), ([], [])]
)
def test_a_host_has_one_gateway_or_several(said: Any, found: list[str]) -> None:
    assert fleet.gateways({"sglang_gateway": said}) == found


@pytest.mark.parametrize("said", [True, 7, {"g": 1}, ["g", 7]])
def test_a_gateway_is_a_name(said: Any) -> None:
    with pytest.raises(InferopsError, match=r"sglang_gateway is .*; wanted the name"):
        fleet.gateways({"sglang_gateway": said})


def test_a_server_is_where_the_overrides_put_it() -> None:
    there = fleet.described("gpu-1", host("g", sglang_instances_override={"tiny": {"port": 31000}}))
    assert there["workers"] == ["http://gpu-1:31000"]
    with pytest.raises(InferopsError, match="'tiny' of gpu-1 listens on loopback"):
        fleet.described("gpu-1", host("g", sglang_instances_override={"tiny": {"host": "127.0.0.1"}}))
    assert fleet.described("gpu-1", host("g", sglang_worker_urls=["http://10.0.0.1:1"]))["workers"] == [
        "http://10.0.0.1:1"
    ]
    assert fleet.described("gpu-1", host())["workers"] == []


FLEET = {
    "a": host("g"),
    "b": host(["g", "h"]),
    "c": host(["h"]),
    "lone": host(),
    "alone": host(),
    "g": {"sglang_gateway": "g"},
}


def test_who_serves_beside_a_host_stands_behind_one_of_its_gateways() -> None:
    assert fleet.whole(FLEET, ["a"]) == ["a", "b"]
    assert fleet.whole(FLEET, ["b"]) == ["b", "a", "c"]
    assert fleet.whole(FLEET, ["c", "a"]) == ["c", "a", "b"]


def test_without_a_gateway_the_group_is_the_fleet() -> None:
    assert fleet.whole(FLEET, ["lone"], ["a", "lone", "alone"]) == ["lone", "alone"]
    assert fleet.whole(FLEET, ["lone", "a"], ["lone", "alone", "c"]) == ["lone", "a", "b", "alone"]
    assert fleet.whole(FLEET, ["lone"]) == ["lone"]


def test_each_gateway_has_all_its_hosts_and_those_of_others_are_not_asked() -> None:
    assert fleet.by_gateway(FLEET, ["a"]) == {"g": ["a", "b"]}
    assert fleet.by_gateway(FLEET, ["b", "lone"]) == {"g": ["b", "a"], "h": ["b", "c"]}
    assert fleet.by_gateway(FLEET, ["lone"]) == {}


class Counted(dict[str, Any]):
    """Counts how often the variables of a host are asked for."""

    asked = 0

    def __getitem__(self, name: str) -> Any:
        self.asked += 1
        return super().__getitem__(name)


def test_a_fleet_of_thousands_is_read_once() -> None:
    hosts = Counted({f"n{number}": host("g") for number in range(2000)})
    names = list(hosts)
    assert fleet.by_gateway(hosts, names) == {"g": names}
    assert hosts.asked == 2000
    assert fleet.whole(hosts, names[:1]) == names
    assert hosts.asked == 4000
