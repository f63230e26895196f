"""One screen of what a run came to."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils import summary

READY = {
    "in_sync": True,
    "plan": [],
    "observed": {
        "instances": {
            "chat": {
                "state": "ready",
                "release": "0.5.23",
                "build_id": "sglang-0.5.23-cpu-0123456789ab",
                "activation": 2,
                "url": "http://127.0.0.1:30000",
                "patches": [{"name": "sm120_multimem", "state": "present"}],
                "start": {
                    "ready_after_s": 31.24,
                    "phases": [{"name": "weights", "seconds": 2.04}, {"name": "warm-up", "seconds": 1.0}],
                    "generation": "Hello\nworld",
                    "speculative": {"accept_length": 2.9, "most": 4},
                },
            }
        }
    },
}


def test_what_a_person_wants_to_know_of_an_instance() -> None:
    text = "\n".join(summary.lines({"sgl2": READY}))
    for part in (
        "sgl2  chat  ready in 31.2 s  SGLang 0.5.23  http://127.0.0.1:30000",
        "sglang-0.5.23-cpu-0123456789ab, activation 2",
        "sm120_multimem present",
        "weights 2.0 s · warm-up 1.0 s",
        "'Hello\\nworld'",
        "2.90 tokens a step of at most 4",
    ):
        assert part in text


def test_a_host_without_an_answer_and_a_host_that_differs_are_said() -> None:
    change = {"resource": "activation/chat", "what": "outcome"}
    differs = {**READY, "in_sync": False, "plan": [change]}
    text = "\n".join(summary.lines({"down": None, "refused": {"msg": "unknown lock"}, "sgl2": differs}))
    assert "down  not deployed: no answer" in text
    assert "refused  not deployed: unknown lock" in text
    assert "differs    activation/chat: outcome" in text
    assert "meaning    no restart" in text


def test_what_is_noticed_is_said_of_a_host_in_order_too() -> None:
    stray = {"resource": "process/old", "what": "not described", "before": "runs as pid 7", "after": "taken away"}
    holder = {"resource": "gpus", "what": "stray process 9", "before": {"pid": 9}, "after": None}
    text = "\n".join(summary.lines({"sgl2": {**READY, "noticed": [stray, holder]}}))
    assert "noticed    process/old: not described (runs as pid 7); wanted: taken away\n" in text
    assert "noticed    gpus: stray process 9\n" in text


@pytest.mark.parametrize(
    ("changes", "chat", "words"),
    [
        (
            [("activation/chat", "restart")],
            {"main_pid": 7, "restart_reasons": ["argv: --a"]},
            "a restart of chat (argv: --a)",
        ),
        ([("build/x", "rebuild")], {"main_pid": 7}, "a new build, a restart of chat"),
        ([("process/chat", "none")], {"main_pid": None}, "a start of chat"),
        ([("process/chat", "none")], {"main_pid": 7}, "no restart"),
    ],
)
def test_what_putting_it_right_means(changes: list[tuple[str, str]], chat: dict[str, Any], words: str) -> None:
    plan = [{"resource": resource, "what": "x", "consequence": consequence} for resource, consequence in changes]
    instance = {**READY["observed"]["instances"]["chat"], **chat}
    told = {"in_sync": False, "plan": plan, "observed": {"instances": {"chat": instance}}}
    assert f"meaning    {words}" in "\n".join(summary.lines({"h": told}))


def test_it_fits_a_screen() -> None:
    long = {**READY, "observed": {"instances": {"chat": {**READY["observed"]["instances"]["chat"]}}}}
    long["observed"]["instances"]["chat"]["patches"] = [{"name": "p" * 30, "state": "present"}] * 9
    assert all(len(line) <= 118 for line in summary.lines({"sgl2": long}))
