"""Several instances in one call: one that fails leaves no other half done, and all that fail are named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout, planning
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation, force, process, service
from server_samples import instance


class Systemd:
    """Stands for systemd: units are loaded when their file is there, and start unless they are told not to."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.broken: set[str] = set()

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        verb, units = argv[1], [word for word in argv[2:] if word.endswith(".service")]
        if verb == "show":
            return Completed(0, "\n\n".join(self._block(unit) for unit in units), "")
        for unit in units:
            if verb == "start" and unit in self.broken:
                return Completed(1, "", f"{unit} will not start")
            if verb == "start":
                self.active.add(unit)
            elif verb == "stop":
                self.active.discard(unit)
        return Completed(0, "", "")

    def _block(self, unit: str) -> str:
        loaded = "loaded" if os.path.exists(os.path.join(layout.UNITS, unit)) else "not-found"
        state = "active" if unit in self.active else "inactive"
        return f"LoadState={loaded}\nActiveState={state}\nMainPID=0\nResult=success\nInvocationID="


def run(systemd: Systemd, *instances: dict[str, Any], state: str = "started", check: bool = False) -> Any:
    holder = {"id": "run", "controller": "here"}
    return service.run(systemd, instances, state=state, enabled=True, adopting=False, holder=holder, check_mode=check)


@pytest.fixture
def systemd() -> Systemd:
    return Systemd()


@pytest.fixture
def three(host: Path, build: dict[str, Any], user: str) -> list[dict[str, Any]]:
    (Path(layout.AGENT) / "0123456789abcdef.pyz").touch()
    return [
        instance(name=name, port=39101 + number, build=build, run_as=user, model_path="/m", gpus=["none"])
        for number, name in enumerate("abc")
    ]


def test_the_others_are_brought_to_their_state_and_every_failure_is_named(
    systemd: Systemd, three: list[dict[str, Any]]
) -> None:
    systemd.broken = {"sglang-a.service", "sglang-c.service"}
    with pytest.raises(InferopsError) as raised:
        run(systemd, *three)
    assert systemd.active == {"sglang-b.service"}
    assert "sglang-a.service will not start" in raised.value.message
    assert "sglang-c.service will not start" in raised.value.message
    assert [entry["name"] for entry in raised.value.result["failures"]] == ["a", "c"]
    assert [entry["name"] for entry in raised.value.result["servers"]] == ["b"]
    assert raised.value.result["changed"] and raised.value.result["diff"]


def test_a_disk_that_is_full_is_the_failure_of_one_instance(
    systemd: Systemd, three: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = force.store

    def full(name: str, *given: Any) -> int:
        if name == "a":
            raise OSError(28, "No space left on device")
        return store(name, *given)

    monkeypatch.setattr(force, "store", full)
    with pytest.raises(InferopsError, match="instance 'a': .*No space left on device"):
        run(systemd, *three)
    assert systemd.active == {"sglang-b.service", "sglang-c.service"}


def test_nothing_is_launched_where_one_is_described_wrongly_and_all_that_are_wrong_are_named(
    systemd: Systemd, three: list[dict[str, Any]]
) -> None:
    three[0]["args"] = {"tp_sise": 1}
    three[2]["args"] = {"mem_fraction_statik": 0.5}
    with pytest.raises(InferopsError, match=r"(?s)tp_sise.*mem_fraction_statik"):
        run(systemd, *three)
    assert systemd.active == set()
    assert os.listdir(layout.UNITS) == []


@pytest.mark.parametrize("state", ["stopped", "absent"])
def test_a_server_can_be_stopped_whatever_its_description_says(
    systemd: Systemd, three: list[dict[str, Any]], state: str
) -> None:
    run(systemd, *three)
    three[0]["args"] = {"tp_sise": 1}
    run(systemd, *three, state=state)
    assert systemd.active == set()


def test_one_that_was_never_in_force_does_not_keep_the_others_from_being_restored(
    systemd: Systemd, three: list[dict[str, Any]]
) -> None:
    run(systemd, *three[1:])
    for name in "bc":
        force.set_outcome(name, 1, activation.GOOD)
    run(systemd, *[{**described, "env": {"A": "1"}} for described in three[1:]])
    with pytest.raises(InferopsError, match="instance 'a' has never been put in force"):
        run(systemd, *three, state="restored")
    records = [activation.newest(name) for name in "bc"]
    assert [record and record["outcome"] for record in records] == [activation.RESTORED] * 2


class Watched(Systemd):
    """Has a server that runs, and the timer of the looks at it in any state."""

    def __init__(self, timer: str, pid: int) -> None:
        super().__init__()
        self.timer, self.pid, self.calls = timer, pid, list[list[str]]()

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        self.calls.append(list(argv))
        if argv[1] != "show":
            return Completed(0, "", "")
        server = f"LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID={self.pid}\nInvocationID="
        timer = f"LoadState=loaded\nActiveState={self.timer}"
        return Completed(0, "\n\n".join(timer if word.endswith(".timer") else server for word in argv[4:]), "")


@pytest.mark.parametrize(("timer", "restarted"), [("active", False), ("inactive", True), ("failed", True)])
def test_a_timer_that_somebody_stopped_is_seen_and_started(
    three: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, timer: str, restarted: bool
) -> None:
    """Nobody would look whether the server generates."""
    described = {**three[0], "liveness_interval": 60}
    monkeypatch.setattr(process, "differences", lambda *dummy: [])
    run(Watched("active", os.getpid()), described)
    systemd = Watched(timer, os.getpid())
    found = planning.run(systemd, [described], {}, "0" * 16)["plan"]
    said = [(change["what"], change["before"], change["after"], change["consequence"]) for change in found]
    wanted = ("state of sglang-a-liveness.timer", "stopped", "started", "none")
    assert (wanted in said) is restarted
    assert [call[1] for call in systemd.calls] == ["show"]
    run(systemd, described)
    assert (["systemctl", "restart", "sglang-a-liveness.timer"] in systemd.calls) is restarted
