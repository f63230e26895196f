"""Only the dead are restarted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.live import Life

from agent import liveness

ONE, TWO = "1" * 32, "2" * 32


@pytest.fixture
def restarts(host: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    Path(layout.Instance("kimi").run).mkdir(parents=True)
    Path(layout.Instance("kimi").logs).mkdir(parents=True)
    called: list[list[str]] = []
    monkeypatch.setattr(liveness.subprocess, "run", lambda argv, check: called.append(argv))
    return called


def look(*lives: Life, at: float = 0.0) -> None:
    left = list(lives)
    liveness.run("kimi", 60, clock=lambda: at, sleep=lambda dummy: None, look=lambda *dummy, **dummies: left.pop(0))


@pytest.mark.parametrize("state", ["alive", "busy", "starting", "stopped", "silent"])
def test_what_is_not_dead_is_left_alone(restarts: list[list[str]], state: str) -> None:
    look(Life(state, "why", invocation=ONE))
    assert restarts == []


def test_a_dead_worker_is_looked_at_twice(restarts: list[list[str]]) -> None:
    look(Life("dead", "ended", invocation=ONE), Life("starting", invocation=TWO))
    look(Life("dead", "ended", invocation=ONE), Life("dead", "ended", invocation=TWO))
    assert restarts == []
    look(Life("dead", "ended", invocation=ONE), Life("dead", "ended", invocation=ONE))
    assert restarts == [["systemctl", "restart", "--no-block", "sglang-kimi.service"]]


def test_silence_is_death_only_beyond_the_watchdog_of_this_start(restarts: list[list[str]]) -> None:
    record = {"argv": ["python", "--watchdog-timeout=100"]}
    (Path(layout.Instance("kimi").logs) / f"{ONE}.json").write_text(json.dumps(record))
    silent = Life("silent", "no token", invocation=ONE)
    look(silent, at=1000)
    look(silent, at=1000 + 100 + liveness.MARGIN)
    assert restarts == []
    look(silent, at=1001 + 100 + liveness.MARGIN)
    assert len(restarts) == 1


def test_a_sign_of_life_and_another_start_begin_anew(restarts: list[list[str]]) -> None:
    silent = Life("silent", "no token", invocation=ONE)
    look(silent, at=0)
    look(Life("busy", invocation=ONE), at=300)
    look(silent, at=600)
    look(Life("silent", "no token", invocation=TWO), at=5000)
    assert restarts == []
