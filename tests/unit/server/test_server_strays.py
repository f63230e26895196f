"""Servers in force on a host that nobody describes any more: named by a plan, and taken away by their name alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.action.sglang_server import ActionModule
from ansible_collections.inferops.sglang.plugins.module_utils import layout, planning
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.server import service, strays
from server_samples import instance


class Systemd:
    """Stands for systemd; counts how often it is asked."""

    def __init__(self, **units: str) -> None:
        self.units, self.calls = units, 0

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        self.calls += 1
        names = [word[len("sglang-") : -len(".service")] for word in argv if word.endswith(".service")]
        return Completed(0, "\n\n".join(self.units.get(name, "LoadState=not-found") for name in names), "")


RUNS = "LoadState=loaded\nActiveState=active\nMainPID=7\nUnitFileState=enabled"


def in_force(name: str) -> None:
    """What an instance leaves on a host."""
    paths = layout.Instance(name)
    Path(paths.activations).mkdir(parents=True)
    Path(paths.unit_file).touch()
    Path(paths.liveness_file).touch()


def noticed(systemd: Systemd, described: list[str] | None) -> list[tuple[str, str, str]]:
    found = planning.run(systemd, [], {}, "0" * 16, described=described)
    return [(change["resource"], change["what"], change["before"]) for change in found["noticed"]]


def test_a_server_that_was_taken_out_of_the_inventory_is_noticed_with_one_question(host: Path) -> None:
    in_force("old")
    in_force("kept")
    (host / "etc/systemd/system/sglang-gateway.service").touch()
    systemd = Systemd(old=RUNS)
    assert noticed(systemd, ["kept"]) == [("process/old", "not described", "runs as pid 7")]
    assert systemd.calls == 1
    # who looks at one instance and says nothing of the others is told nothing of them
    assert noticed(systemd, None) == []


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (RUNS.replace("=active", "=activating"), "runs as pid 7"),
        ("LoadState=loaded\nActiveState=inactive\nMainPID=0\nUnitFileState=enabled", "starts with the host"),
        ("LoadState=loaded\nActiveState=failed\nMainPID=0\nUnitFileState=disabled", None),
    ],
)
def test_what_neither_runs_nor_will_is_no_stray(host: Path, unit: str, said: str | None) -> None:
    in_force("old")
    assert [before for dummy, dummy, before in noticed(Systemd(old=unit), [])] == ([said] if said else [])


def test_a_host_on_which_nothing_was_ever_put_in_force_has_no_strays(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "ROOT", str(host / "gone"))
    assert strays.find([]) == []


def test_a_server_whose_unit_file_is_gone_runs_on_and_is_noticed(host: Path) -> None:
    in_force("old")
    Path(layout.Instance("old").unit_file).unlink()
    (host / "opt/sglang/old copy (1)/activations").mkdir(parents=True)
    running = RUNS.replace("=loaded", "=not-found").replace("=enabled", "=")
    systemd = Systemd(old=running)
    assert noticed(systemd, []) == [("process/old", "not described", "runs as pid 7")]
    assert noticed(Systemd(), []) == []


def test_a_name_is_enough_to_take_one_away(host: Path, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    sent: dict[str, Any] = {}

    def execute(dummy: Any, module_args: dict[str, Any], **more: Any) -> dict[str, Any]:
        return sent.update(module_args) or {"changed": True}

    monkeypatch.setattr(ActionBase, "run", lambda *dummy: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    action = object.__new__(ActionModule)
    action._task = type("Task", (), {"args": {"instances": [{"name": "old"}], "state": "absent"}})()
    assert action.run() == {"changed": True}
    in_force("old")
    described = instance(**{**sent["instances"][0], "run_as": user})
    holder = {"id": "run", "controller": "here"}
    systemd = Systemd(old=RUNS.replace("=active", "=inactive").replace("=7", "=0"))
    given: dict[str, Any] = {"state": "absent", "enabled": True, "adopting": False, "holder": holder}
    service.run(systemd, [described], check_mode=False, **given)
    assert not Path(layout.Instance("old").unit_file).exists()
    assert strays.find([]) == []
