"""When another start makes sense: from the logs of the starts before."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout

from agent import breaker, cli

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
IO = "OSError: [Errno 5] Input/output error: '/shared/model-00017.safetensors'"
BEGIN = "[2026-11-20 10:00:01] server_args=ServerArgs(model_path='/m', port=30000)\n"
TRACE = (
    "[2026-11-20 10:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/x/scheduler.py", line 1, in run\n    load()\n{0}\n'
)
READY = "[2026-11-20 10:00:20] The server is fired up and ready to roll!\n"


@pytest.fixture
def starts(host: Path) -> Path:
    for folder in ("logs", "run"):
        Path(getattr(layout.Instance("kimi"), folder)).mkdir(parents=True)
    return Path(layout.Instance("kimi").logs)


def start(logs: Path, number: int, text: str, activation: int | None = None) -> None:
    """Start ``number`` (a higher one is later), with its log."""
    invocation = f"{number:032x}"
    (logs / f"{invocation}.log").write_text(text)
    record = {
        "invocation_id": invocation, "instance": "kimi", "activation": activation,
        "started_at": time.time() - 1000 + number, "log": str(logs / f"{invocation}.log"),
    }  # fmt: skip
    (logs / f"{invocation}.json").write_text(json.dumps(record))


def decide() -> tuple[int, list[float]]:
    waits: list[float] = []
    return breaker.run("kimi", sleep=waits.append), waits


def test_a_first_start_and_a_first_retry(starts: Path) -> None:
    assert decide() == (0, [])
    start(starts, 1, BEGIN + TRACE.format(OOM))
    assert decide() == (0, [])


def test_two_deaths_of_one_wrong_configuration(starts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        start(starts, number, BEGIN + TRACE.format(OOM))
    assert decide() == (breaker.REFUSED, [])
    said = capsys.readouterr().err
    assert "not started again" in said
    assert "CUDA out of memory" in said
    assert "mem_fraction_static" in said
    note = json.loads((Path(layout.Instance("kimi").run) / "breaker.json").read_text())
    assert note["category"] == "cuda_oom"


def test_a_start_that_was_asked_for_is_tried(starts: Path) -> None:
    for number in (1, 2):
        start(starts, number, BEGIN + TRACE.format(OOM))
    assert decide()[0] == breaker.REFUSED
    asked = {"at": time.time() - 1000 + 2.5}
    (Path(layout.Instance("kimi").run) / "asked.json").write_text(json.dumps(asked))
    assert decide() == (0, [])
    assert not (Path(layout.Instance("kimi").run) / "breaker.json").exists()
    start(starts, 3, BEGIN + TRACE.format(OOM))
    assert decide() == (0, [])
    start(starts, 4, BEGIN + TRACE.format(OOM))
    assert decide()[0] == breaker.REFUSED


@pytest.mark.parametrize(
    "texts",
    [
        (BEGIN + TRACE.format(OOM), BEGIN + READY + TRACE.format(OOM)),
        (BEGIN + TRACE.format(OOM), BEGIN + TRACE.format(IO)),
        (BEGIN + TRACE.format(IO), BEGIN + TRACE.format(OOM)),
    ],
    ids=["it-had-served", "another-category", "another-category-before"],
)
def test_what_is_no_repeated_configuration_error_is_tried_again(starts: Path, texts: tuple[str, str]) -> None:
    for number, text in enumerate(texts):
        start(starts, number, text)
    assert decide()[0] == 0


def test_a_stop_that_was_asked_for_is_no_death(starts: Path) -> None:
    for number in (1, 2):
        start(starts, number, BEGIN + TRACE.format(OOM))
    note = {"invocation_id": f"{2:032x}", "requested_at": 0}
    (Path(layout.Instance("kimi").run) / "stop.json").write_text(json.dumps(note))
    assert decide() == (0, [])


GONE = "OSError: /shared/kimi does not appear to have a file named config.json"
FULL = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize("error", [IO, GONE, FULL], ids=["unknown", "storage-away", "disk-full"])
def test_what_may_heal_is_tried_for_ever_and_ever_later(starts: Path, error: str) -> None:
    waited = []
    for number in range(1, 9):
        start(starts, number, BEGIN + TRACE.format(error))
        status, waits = decide()
        assert status == 0
        waited.append(sum(waits))
    assert waited == [0, 15, 30, 60, 120, 240, 300, 300]


def test_another_activation_begins_anew(starts: Path) -> None:
    for number in (1, 2):
        start(starts, number, BEGIN + TRACE.format(OOM), activation=1)
    folder = Path(layout.Instance("kimi").activations) / "2"
    folder.mkdir(parents=True)
    (folder / "activation.json").write_text(json.dumps({"n": 2}))
    assert decide() == (0, [])


def test_a_breaker_that_is_broken_keeps_nothing_down(starts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (starts / f"{1:032x}.json").write_text("{ not json")
    assert cli.main(["breaker", "kimi"]) == 0
    assert "could not be judged" in capsys.readouterr().err
