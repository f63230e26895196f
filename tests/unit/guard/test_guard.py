"""The guard: when it corrects, what it tells the playbook, and what its exit status means."""

from __future__ import annotations

import datetime
import fcntl
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SATURDAY = datetime.datetime(2026, 11, 28, 3, 0)


@pytest.fixture(scope="module")
def guard() -> ModuleType:
    path = ROOT / "roles" / "sglang_drift_guard" / "files" / "guard.py"
    spec = importlib.util.spec_from_file_location("drift_guard", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "reports").mkdir()
    return {
        "project": "/srv/fleet", "inventory": "hosts.yml", "playbook": "inferops.sglang.drift", "folder": str(tmp_path),
        "correct": False, "window": "", "extra_vars": {"sglang_hosts": "blue"}, "cmdline": "", "keep": 3, "metrics": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("window", "hours", "end"),
    [
        ("02:00-05:00", 0, "28T05:00"),
        ("Sat,Sun 02:00-05:00", 0, "28T05:00"),
        ("saturday 02:00-05:00", 0, "28T05:00"),
        ("Mon 02:00-05:00", 0, None),
        ("Mon 01:00-02:00; Sat 02:30-03:30", 0, "28T03:30"),
        ("02:00-05:00", 2, None),
        ("Fri 23:00-04:00", 0, "28T04:00"),
        ("Sat 23:00-04:00", 0, None),
        ("00:00-24:00", 0, "29T00:00"),
        ("Fri 24:00-05:00", 0, "28T05:00"),
        ("Sat 24:00-05:00", 0, None),
        ("Fri 24:00-24:00", 20, "29T00:00"),
        ("", 0, None),
    ],
)
def test_the_window_that_a_time_is_in(guard: ModuleType, window: str, hours: int, end: str | None) -> None:
    found = guard.window_end(window, SATURDAY + datetime.timedelta(hours=hours))
    assert (found and found.isoformat(timespec="minutes")[8:]) == end


@pytest.mark.parametrize("window", ["at night", "Someday 02:00-05:00", "25:00-26:00", "02:60-03:00"])
def test_a_window_that_means_nothing_is_an_error(guard: ModuleType, window: str) -> None:
    with pytest.raises(ValueError, match="window"):
        guard.window_end(window, SATURDAY)


@pytest.mark.parametrize(
    ("correct", "window", "told"),
    [
        (False, "", {}),
        (True, "", {"correct": True, "drift_until": 0}),
        (True, "02:00-05:00", {"correct": True, "drift_until": int(datetime.datetime(2026, 11, 28, 5).timestamp())}),
        (True, "Mon 02:00-05:00", {}),
        (False, "02:00-05:00", {}),
    ],
)
def test_it_corrects_only_where_and_when_that_is_wanted(
    guard: ModuleType, settings: dict[str, Any], correct: bool, window: str, told: dict[str, Any]
) -> None:
    found = guard.variables({**settings, "correct": correct, "window": window}, SATURDAY)
    base = {"sglang_hosts": "blue", "reports": f"{settings['folder']}/reports"}
    assert found == {**base, **told}


def report(**counts: int) -> dict[str, Any]:
    return {"summary": {"unreachable": 0, "failed": 0, "drifted": 0, **counts}}


class Runner:
    """Stands for ansible_runner: notes what it was told, and writes the report that a playbook would."""

    def __init__(self, found: dict[str, Any] | None, status: str = "successful") -> None:
        self.found, self.status, self.told = found, status, {}

    def run(self, **told: Any) -> SimpleNamespace:
        self.told = told
        if self.found is not None:
            Path(told["extravars"]["reports"], "drift.json").write_text(json.dumps(self.found))
        return SimpleNamespace(status=self.status, config=SimpleNamespace(artifact_dir="/artifacts/1"))


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (report(), 0),
        (report(drifted=2), 10),
        (report(drifted=2, unreachable=1), 11),
        (report(failed=1), 11),
        (None, 12),
    ],
)
def test_the_exit_status_says_what_a_run_came_to(
    guard: ModuleType,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, Any] | None,
    status: int,
) -> None:
    # a report of an earlier run is no report of this one
    (Path(settings["folder"]) / "reports" / "drift.json").write_text(json.dumps(report()))
    runner = Runner(found)
    monkeypatch.setitem(sys.modules, "ansible_runner", runner)
    assert guard.run(settings, SATURDAY) == status
    assert runner.told["rotate_artifacts"] == 3
    assert runner.told["inventory"] == "/srv/fleet/hosts.yml"
    assert runner.told["private_data_dir"] == f"{settings['folder']}/runner"


@pytest.mark.parametrize(("found", "status"), [(report(), 12), (report(drifted=1), 10)])
def test_a_run_that_was_ended_after_a_report_in_order_knows_nothing(
    guard: ModuleType, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], status: int
) -> None:
    monkeypatch.setitem(sys.modules, "ansible_runner", Runner(found, "timeout"))
    assert guard.run(settings, SATURDAY) == status


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"window": "at night"}, "the window 'at night' is not like"),
        ({"folder": "/nowhere"}, "/nowhere"),
    ],
)
def test_settings_that_cannot_be_are_a_run_that_failed(
    guard: ModuleType,
    settings: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    wrong: dict[str, Any],
    said: str,
) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({**settings, **wrong}))
    assert guard.main([str(file)]) == 12
    assert said in capsys.readouterr().err
    assert guard.main(["--check", str(file)]) == (12 if "window" in wrong else 0)
    file.write_text("{")
    assert guard.main([str(file)]) == 12


def test_ansible_runner_itself_is_told_anew_in_every_run(
    guard: ModuleType, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the variables of the first run in a file, and reads that file in all later ones."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "runner").mkdir()
    known = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (project / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"localhost": known}}}))
    # the report says what the run was told
    (project / "drift.yml").write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - copy:\n        dest: '{{ reports }}/drift.json'\n"
        "        content: \"{{ {'summary': {'unreachable': 0, 'failed': 0, 'drifted': 0},"
        " 'correct': correct | default(false), 'more': more | default(0)} | to_json }}\"\n"
    )
    monkeypatch.setenv("ANSIBLE_CONFIG", str(ROOT / "tests/nowhere.cfg"))
    told = {
        **settings, "project": str(project), "playbook": "drift.yml", "correct": True, "window": "Sat 02:00-04:00",
        "extra_vars": {"more": 1},
    }  # fmt: skip
    for later, correct in (({}, True), ({"extra_vars": {}}, False)):
        now = SATURDAY if correct else SATURDAY + datetime.timedelta(hours=2)
        assert guard.run({**told, **later}, now) == 0
        found = json.loads((tmp_path / "reports/drift.json").read_text())
        assert (found["correct"], found["more"]) == (correct, int(correct))


def test_a_second_run_at_once_does_nothing(
    guard: ModuleType, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(report())
    monkeypatch.setitem(sys.modules, "ansible_runner", runner)
    with open(Path(settings["folder"]) / "lock", "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert guard.run(settings, SATURDAY) == 75
    assert runner.told == {}
    assert guard.run(settings, SATURDAY) == 0
