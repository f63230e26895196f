"""From plans to one report: who differs in what, who did not answer, what was put right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import drift, history, last, metrics, page, text
from report_samples import EDITED, NOW, OTHER_ARGV, STRAY, change, fleet, gateway, planned


def build(planned: dict[str, Any], *gateways: dict[str, Any], **options: Any) -> dict[str, Any]:
    return drift.build(planned, gateways, now=NOW, **options)


def test_a_fleet_in_order() -> None:
    report = build({"a": planned(), "b": planned()}, gateway())
    assert report["format"] == 1
    assert report["made_at"] == "2026-11-30T00:53:20Z"
    assert {name: host["state"] for name, host in report["hosts"].items()} == dict.fromkeys(
        ["a", "b", "gw-01"], "in_sync"
    )
    assert report["summary"]["differences"] == 0
    assert (drift.correctable(report), drift.disturbing(report)) == ([], False)


def test_each_difference_is_told_with_what_can_be_done() -> None:
    report = build({"a": planned(EDITED, OTHER_ARGV, noticed=(STRAY,)), "b": planned(noticed=(STRAY,))})
    host = report["hosts"]["a"]
    assert (host["state"], host["consequence"]) == ("drifted", "restart")
    assert host["differences"][0] == {**EDITED, "correctable": True, "corrected": False}
    assert [d["correctable"] for d in host["differences"]] == [True, True, False]
    assert report["hosts"]["b"]["state"] == "drifted"
    assert (drift.correctable(report), drift.disturbing(report)) == (["a"], True)
    assert report["summary"] == {
        "hosts": 2, "in_sync": 0, "corrected": 0, "drifted": 2, "unreachable": 0, "failed": 0,
        "differences": 4, "corrections": 0, "consequence": "restart",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("result", "state", "message"),
    [
        ({"unreachable": True, "msg": "Task failed: No route to host\n"}, "unreachable", "No route to host"),
        (None, "unreachable", "no answer"),
        ({"failed": True, "msg": "bad option"}, "failed", "bad option"),
        ({"skipped": True}, "failed", "the comparison did not run"),
    ],
)
def test_a_host_without_an_answer_is_named_as_such(result: dict[str, Any] | None, state: str, message: str) -> None:
    report = build({"a": result, "b": planned()})
    assert (report["hosts"]["a"]["state"], report["hosts"]["a"]["message"]) == (state, message)
    assert report["summary"][state] == 1
    assert report["hosts"]["b"]["state"] == "in_sync"


def test_a_server_that_its_gateway_does_not_know_is_its_own_hosts_difference() -> None:
    missing = change("gateway", "worker http://b:30000", "absent", "present")
    foreign = change("gateway", "worker http://old:30000", "present", "absent")
    report = build({"a": planned(), "b": planned()}, gateway(missing, noticed=(foreign,)))
    assert [d["resource"] for d in report["hosts"]["b"]["differences"]] == ["gateway/gw-01"]
    assert [d["what"] for d in report["hosts"]["gw-01"]["differences"]] == ["worker http://old:30000"]
    assert report["hosts"]["a"]["differences"] == []
    assert drift.correctable(report) == ["b"]


def test_of_hosts_that_were_not_looked_at_nothing_is_said() -> None:
    missing = change("gateway", "worker http://b:30000", "absent", "present")
    report = build({"a": planned()}, gateway(missing))
    assert list(report["hosts"]) == ["a", "gw-01"]
    assert report["summary"]["differences"] == 0


def test_a_gateway_without_an_answer() -> None:
    report = build({"a": planned()}, {"host": "gw-01", "failed": True, "msg": "there is no gateway on this host"})
    assert report["hosts"]["gw-01"]["state"] == "failed"
    assert report["hosts"]["gw-01"]["message"] == "gateway: there is no gateway on this host"


def test_a_gateway_that_is_away_hides_no_mistake_of_its_host() -> None:
    """One machine may be both, reached in two ways."""
    silent = {"host": "a", "unreachable": True, "msg": "no route"}
    host = build({"a": {"failed": True, "msg": "bad option"}}, silent)["hosts"]["a"]
    assert (host["state"], host["message"]) == ("failed", "bad option; gateway: no route")
    assert build({"a": planned()}, silent)["hosts"]["a"]["state"] == "unreachable"


def test_what_is_gone_after_a_correction_was_put_right_and_the_rest_is_left() -> None:
    before = build({"a": planned(EDITED, OTHER_ARGV), "b": planned(EDITED, noticed=(STRAY,)), "c": planned(EDITED)})
    after = build(
        {"a": planned(), "b": planned(noticed=(STRAY,)), "c": {"unreachable": True}}, correct=True, earlier=before
    )
    states = {name: host["state"] for name, host in after["hosts"].items()}
    assert states == {"a": "corrected", "b": "drifted", "c": "unreachable"}
    assert [d["corrected"] for d in after["hosts"]["a"]["differences"]] == [True, True]
    assert [d["corrected"] for d in after["hosts"]["b"]["differences"]] == [True, False]
    assert after["hosts"]["a"]["consequence"] == "none"
    assert (after["summary"]["corrections"], after["summary"]["differences"]) == (3, 1)
    assert drift.correctable(after) == []


def test_a_stray_that_went_by_itself_was_not_put_right() -> None:
    before = build({"a": planned(noticed=(STRAY,))})
    assert build({"a": planned()}, correct=True, earlier=before)["hosts"]["a"]["state"] == "in_sync"


def test_the_screen_names_what_is_not_in_order_alone() -> None:
    lines = text.lines(build({"a": planned(), "b": planned(EDITED, noticed=(STRAY,)), "c": {"unreachable": True}}))
    assert lines[1] == "3 host(s): 1 in sync, 1 drifted, 1 unreachable; 2 difference(s)"
    assert not any(line.startswith("a ") for line in lines)
    assert "    activation/kimi  /etc/systemd/system/sglang-kimi.service: 2 lines -> 2 lines" in lines
    assert any(line.startswith("    gpus  stray process 7") and line.endswith("[reported only]") for line in lines)
    assert "c  unreachable: no answer" in lines


def test_metrics_are_in_prometheus_text_format() -> None:
    written = metrics.text(build({'a"b': planned(EDITED, OTHER_ARGV), "c": {"unreachable": True}}))
    assert 'sglang_drift_hosts{state="drifted"} 1\n' in written
    assert 'sglang_drift_differences{host="a\\"b",resource="process/kimi",consequence="restart"} 1\n' in written
    assert 'sglang_drift_no_answer{host="c",state="unreachable"} 1\n' in written
    assert f"sglang_drift_last_run_timestamp_seconds {int(NOW)}\n" in written
    names = [line.split("{")[0].split(" ")[0] for line in written.splitlines() if not line.startswith("#")]
    declared = [line.split(" ")[2] for line in written.splitlines() if line.startswith("# TYPE")]
    assert set(names) <= set(declared)
    assert len(declared) == len(set(declared))


def test_the_history_keeps_one_line_a_run_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEEP", 3)
    path = tmp_path / "drift-history.jsonl"
    before = build({"a": planned(EDITED)})
    history.add(path, before)
    after = drift.build({"a": planned()}, now=NOW + 60, correct=True, earlier=before)
    runs = history.add(path, after, before)
    assert [(run["drifted"], run["corrections"]) for run in runs] == [(0, 1)]
    with path.open("a") as stream:
        stream.write('{"made_at": "cut')
    for minute in range(2, 6):
        runs = history.add(path, drift.build({"a": planned()}, now=NOW + 60 * minute))
    assert len(runs) == 3
    assert [json.loads(line)["made_at"] for line in path.read_text().splitlines()] == [run["made_at"] for run in runs]


@pytest.mark.parametrize(
    "line",
    [
        b"1", b"null", b"[]", b"{}", b'{"made_at": 1}', b'{"made_at": "2026"}', b"\xff\xfe", b"",
        b'{"made_at": "2026", "hosts": "2", "in_sync": 1, "corrected": 0, "drifted": 0, "unreachable": 0, "failed": 1}',
    ],
)  # fmt: skip
def test_a_history_that_is_none_keeps_no_report_from_being_made(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "drift-history.jsonl"
    path.write_bytes(line + b"\n")
    report = build({"a": planned()})
    runs = history.add(path, report, report)
    assert [run["made_at"] for run in runs] == [report["made_at"]]
    assert page.history_bars(runs)


def test_the_screen_shows_what_a_stranger_is_called_and_does_as_it_says_not() -> None:
    hostile = "\x1b[2J\u202e\r\nkimi"
    stray = change("gpus", f"stray process {hostile}", hostile, None)
    report = build({"a": planned(noticed=(stray,)), "b": {"failed": True, "msg": f"{hostile}"}, "ü": {"failed": True}})
    shown = "\n".join(text.lines(report))
    assert not set("\x1b\u202e\r") & set(shown)
    assert "\\x1b[2J\\u202e" in shown and "\nü  failed" in shown


def test_the_sample_fleet_has_every_state() -> None:
    summary = build(fleet(200))["summary"]
    assert all(summary[state] for state in ("in_sync", "drifted", "unreachable", "failed"))


def test_the_last_verdict_is_that_of_the_newest_report(tmp_path: Path) -> None:
    by_hand, by_guard = tmp_path / "a.json", tmp_path / "b.json"
    by_hand.write_text(json.dumps(build({"a": planned()})))
    by_guard.write_text(json.dumps(drift.build({"a": planned(EDITED), "b": planned()}, now=NOW + 60)))
    paths = [str(by_hand), str(by_guard), str(tmp_path / "none.json")]
    assert last.verdict(paths) == (
        f"drift at 2026-11-30T00:54:20Z: 2 host(s): 1 in sync, 1 drifted; 1 difference(s) (a); {by_guard}"
    )
    assert last.verdict(paths[2:]) is None
    for foreign in ("", "[1]", '{"made_at": 3}', '{"format": 2}'):
        Path(paths[2]).write_text(foreign)
        assert last.verdict(paths[2:]) is None


def test_a_host_that_does_not_answer_keeps_no_correction_from_the_others() -> None:
    """A rollout has taken it out of the gateway, say: that is told, and its rollout could not begin."""
    gone, lost = (change("gateway", f"worker http://{name}:30000", "drained", "present") for name in "ab")
    for answer in ({"unreachable": True}, {"failed": True, "msg": "bad option"}):
        report = build({"a": answer, "b": planned()}, gateway(gone, lost))
        assert [d["what"] for d in report["hosts"]["a"]["differences"]] == [gone["what"]]
        assert drift.correctable(report) == ["b"]
    report = build({"a": {"unreachable": True}, "b": planned()}, gateway(gone))
    assert (drift.correctable(report), drift.disturbing(report)) == ([], False)


def test_the_keys_of_a_gateway_are_its_own_difference_and_no_reason_for_a_rollout() -> None:
    opened = change("gateway", "permissions of /keys", "root:root 0644", "root:sglang-gateway 0640")
    before = build({"a": planned(), "b": planned()}, gateway(opened))
    assert (drift.correctable(before), drift.open_keys(before)) == ([], ["gw-01"])
    assert before["hosts"]["gw-01"]["state"] == "drifted"
    after = build({"a": planned(), "b": planned()}, gateway(), correct=True, earlier=before)
    assert after["hosts"]["gw-01"]["state"] == "corrected"
    assert drift.open_keys(after) == []
