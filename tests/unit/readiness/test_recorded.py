"""Recorded and hand-made logs: the right verdict, category and cause line of each, by the engine and by the module."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.lines import moment
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.story import Reader
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import Observation, judge
from ansible_collections.inferops.sglang.plugins.modules import sglang_log_info

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


def _cases() -> list[Any]:
    found = []
    for folder in ("host", "gpu"):
        expected = json.loads((LOGS / folder / "expected.json").read_text())["files"]
        found += [pytest.param(LOGS / folder / name, wanted, id=name) for name, wanted in expected.items()]
    return found


def _check(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert (found["verdict"], found["category"]) == (wanted["verdict"], wanted["category"])
    assert found["cause"]["number"] == wanted["best_line_no"]
    if "best_line" in wanted:
        assert found["cause"]["line"] == wanted["best_line"]
    assert wanted.get("best", "") in found["cause"]["line"]
    for decoy in (*wanted.get("must_not_alarm", ()), *wanted.get("decoys", ()), *wanted.get("secondary", ())):
        assert decoy not in found["cause"]["line"]
    if wanted.get("failing_rank"):
        assert found["rank"] == wanted["failing_rank"]
    if wanted.get("phase"):
        assert found["phase"] == wanted["phase"]
    if wanted.get("findings"):
        assert found["findings"] == wanted["findings"]
    assert found["was_ready"] is wanted.get("was_ready", found["was_ready"])


@pytest.mark.parametrize(("path", "wanted"), _cases())
def test_module(path: Path, wanted: dict[str, Any]) -> None:
    args = {
        "path": str(path),
        "unit_state": wanted.get("process"),
        "observed_at": wanted.get("observed_at"),
        "started_at": wanted.get("unit_started_at"),
    }
    printed = io.StringIO()
    with patch_module_args(args), redirect_stdout(printed), pytest.raises(SystemExit):
        sglang_log_info.main()
    found = json.loads(printed.getvalue())
    assert found["changed"] is False
    _check(found, wanted)


@pytest.mark.parametrize(("path", "wanted"), _cases())
@pytest.mark.parametrize("size", [61, 4096])
def test_any_cut_of_the_stream(path: Path, wanted: dict[str, Any], size: int) -> None:
    """Bytes arrive as they please; the answer is the same, and looking in between changes nothing."""
    reader = Reader(moment(wanted["unit_started_at"]) if "unit_started_at" in wanted else None)
    data = path.read_bytes()
    seen = Observation(
        unit=wanted.get("process", ""), now=moment(wanted["observed_at"]) if "observed_at" in wanted else None
    )
    for index in range(0, len(data), size):
        reader.feed(data[index : index + size])
        if size == 4096:
            judge(reader.story, seen)
    reader.finish()
    _check(judge(reader.story, seen).to_dict(), wanted)


@pytest.mark.parametrize(("path", "wanted"), _cases())
def test_a_start_that_is_well_never_alarms_on_its_way(path: Path, wanted: dict[str, Any]) -> None:
    """However much of a good start has been written, and while its unit is active, nothing says that it failed."""
    if wanted["verdict"] not in ("ready", "still_starting", "stopped"):
        return
    reader = Reader(moment(wanted["unit_started_at"]) if "unit_started_at" in wanted else None)
    for line in path.read_bytes().splitlines(keepends=True):
        reader.feed(line)
        if "unit_started_at" not in wanted:
            assert judge(reader.story, Observation(unit="active")).verdict in ("ready", "still_starting")


def test_byte_by_byte() -> None:
    path = LOGS / "host" / "05_still_starting_deepgemm_tp4_v059.log"
    reader = Reader()
    for byte in path.read_bytes():
        reader.feed(bytes([byte]))
    assert reader.story.drawn is not None and (reader.story.drawn.done, reader.story.drawn.total) == (9780, 16384)


def test_an_append_mode_log_needs_no_start_time() -> None:
    """A new start is recognised by its words too."""
    path = LOGS / "host" / "26_ready_old_failure_in_same_file_v059.log"
    reader = Reader()
    reader.feed(path.read_bytes())
    assert judge(reader.story, Observation(unit="active")).verdict == "ready"


@pytest.mark.parametrize(("path", "wanted"), [case for case in _cases() if case.values[1]["verdict"] == "failed"])
def test_a_failure_is_one_where_nobody_says_what_became_of_the_unit(path: Path, wanted: dict[str, Any]) -> None:
    """A log from elsewhere: its own words say that the server has ended."""
    reader = Reader()
    reader.feed(path.read_bytes())
    reader.finish()
    _check(judge(reader.story, Observation()).to_dict(), wanted)
