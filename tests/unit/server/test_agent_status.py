"""What a person on the host is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed

from agent import status

FAILED = (
    "[2026-11-20 10:00:01] server_args=ServerArgs(model_path='/m', port=30000)\n"
    "[2026-11-20 10:00:09 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/x/scheduler.py", line 1, in run\n    load()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
INVOCATION = "c" * 32


@pytest.fixture
def dead(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance whose only start died, and a systemd that says so."""
    logs = Path(layout.Instance("kimi").logs)
    logs.mkdir(parents=True)
    log = logs / f"{INVOCATION}.log"
    log.write_text(FAILED)
    record = {"invocation_id": INVOCATION, "log": str(log), "release": "0.5.9", "port": 30000, "started_at": 1.0}
    (logs / f"{INVOCATION}.json").write_text(json.dumps(record))
    (Path(layout.ETC) / "kimi.env").write_text("")
    (Path(layout.ETC) / "kimi.secret.env").write_text("")
    shown = (
        "LoadState=loaded\nActiveState=inactive\nSubState=dead\nMainPID=0\nExecMainCode=2\nExecMainStatus=9\n"
        f"InvocationID={INVOCATION}\nNRestarts=1\n"
    )
    monkeypatch.setattr(status, "runner", lambda argv, **dummy: Completed(0, shown, ""))


def test_diagnose_names_cause_rank_and_advice(dead: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.diagnose("kimi") == 0
    said = capsys.readouterr().out
    assert "failed (cuda_oom)" in said
    assert "line 5: torch.OutOfMemoryError" in said
    assert "TP3" in said
    assert "mem_fraction_static" in said


def test_status_knows_the_instances_of_the_host(dead: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.known() == ["kimi"]
    note = Path(layout.Instance("kimi").run)
    note.mkdir(parents=True)
    (note / "breaker.json").write_text(json.dumps({"why": "the last 2 starts died"}))
    assert status.show("") == 0
    said = capsys.readouterr().out
    assert said.startswith("kimi: ")
    assert "0.5.9" in said
    assert "the last 2 starts died" in said


def test_a_host_without_instances(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.show("") == 0
    assert "deploy.yml" in capsys.readouterr().out
