"""The controller's side of the report: what is written, what is told where it cannot be, and who is left out."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferops.sglang.plugins.action import sglang_drift
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import drift, history
from report_samples import EDITED, NOW, planned


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(ActionBase, "run", lambda *dummy: {})
    monkeypatch.setattr(Display, "display", lambda dummy, text, *more, **options: said.append(text))
    return said


def run(results: dict[str, Any], folder: Path, check_mode: bool = False, **given: Any) -> dict[str, Any]:
    action = object.__new__(sglang_drift.ActionModule)
    arguments = {"hosts": list(results), "folder": str(folder), **given}
    action._task = SimpleNamespace(args=arguments, check_mode=check_mode)
    action._templar = None
    hostvars = {host: {} if result is None else {"sglang_planned": result} for host, result in results.items()}
    return action.run(None, {"hostvars": hostvars})


def test_everything_is_written(shown: list[str], tmp_path: Path) -> None:
    metrics = tmp_path / "drift.prom"
    assert run({"a": planned(EDITED)}, tmp_path / "new", metrics=str(metrics))["drifted"] == ["a"]
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == ["drift-history.jsonl", "drift.html", "drift.json"]
    assert "sglang_drift_hosts" in metrics.read_text()


def test_what_was_found_is_told_where_it_cannot_be_written(shown: list[str], tmp_path: Path) -> None:
    full = tmp_path / "file"
    full.write_text("")
    with pytest.raises(AnsibleActionFail, match=r"^the report cannot be written; make room.*file/reports"):
        run({"a": planned(EDITED)}, full / "reports")
    assert "1 drifted" in shown[0]
    with pytest.raises(AnsibleActionFail, match="nowhere"):
        run({"a": planned()}, tmp_path, metrics="/nowhere/drift.prom")


@pytest.mark.parametrize("results", [{}, {"a": None, "b": None}])
def test_a_report_on_nobody_is_no_fleet_in_order(shown: list[str], tmp_path: Path, results: dict[str, Any]) -> None:
    with pytest.raises(AnsibleActionFail, match=r"there is no host|none of the 2 host\(s\) was looked at"):
        run(results, tmp_path)
    assert not list(tmp_path.iterdir())


def test_runs_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    reports = [drift.build({"a": planned()}, now=NOW + number) for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda report: sglang_drift._write(tmp_path, report, None, None), reports))
    assert {run["made_at"] for run in history.read(tmp_path / "drift-history.jsonl")} == {r["made_at"] for r in reports}
    assert json.loads((tmp_path / "drift.json").read_text()) in reports
