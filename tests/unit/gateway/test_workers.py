from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import settings, workers

A, B, C = "http://a:30000", "http://b:30000", "http://c:30000"


def files(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "etc" / "workers.json"), str(tmp_path / "etc" / "manifest.json")


def test_what_is_not_there_is_an_empty_list(tmp_path: Path) -> None:
    assert workers.observe(files(tmp_path)[0]) == {}


def test_the_gateway_reads_only_workers_that_get_requests(tmp_path: Path) -> None:
    kept, manifest = files(tmp_path)
    workers.apply(kept, manifest, workers.plan({}, {B: "present", A: "present", C: "drained"}))
    assert workers.observe(kept) == {A: "present", B: "present", C: "drained"}
    assert json.loads(Path(manifest).read_text()) == {"version": 1, "workers": [{"url": A}, {"url": B}]}


def test_a_change_of_one_worker_keeps_the_others_and_repeats_without_a_change(tmp_path: Path) -> None:
    kept, manifest = files(tmp_path)
    workers.apply(kept, manifest, workers.plan({}, {A: "present", B: "drained"}))
    changes = workers.plan(workers.observe(kept), {A: "drained"})
    assert [(c.what, c.before, c.after) for c in changes.changes] == [(A, "present", "drained")]
    workers.apply(kept, manifest, changes)
    assert workers.observe(kept) == {A: "drained", B: "drained"}
    assert not workers.plan(workers.observe(kept), {A: "drained"}).changed
    assert not workers.plan(workers.observe(kept), {C: "absent"}).changed


def test_members_come_and_go_and_a_drained_one_stays_drained() -> None:
    changes = workers.plan_members({A: "drained", B: "present"}, [A, C])
    assert {(c.what, c.before, c.after) for c in changes.changes} == {
        (B, "present", "absent"),
        (C, "absent", "present"),
    }


def test_a_manifest_that_is_not_what_the_list_says_is_written_again(tmp_path: Path) -> None:
    kept, manifest = files(tmp_path)
    workers.apply(kept, manifest, workers.plan({}, {A: "present"}))
    assert not workers.settle(kept, manifest)
    Path(manifest).write_text('{"version": 1, "workers": []}')
    assert workers.settle(kept, manifest)
    assert json.loads(Path(manifest).read_text())["workers"] == [{"url": A}]


@pytest.mark.parametrize(
    "url", ["a:30000", "http://a", "http://a:99999", "https://a:1", "http://a:1/generate", "http://:1"]
)
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(InferopsError, match="must be http://HOST:PORT"):
        workers.check_url(url)


def test_a_trailing_slash_is_not_another_worker() -> None:
    assert workers.check_url("http://a:30000/") == A
    assert workers.check_url("http://[::1]:30000") == "http://[::1]:30000"


def test_a_host_without_a_gateway_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InferopsError, match="run the role inferops.sglang.sglang_gateway"):
        settings.load(str(tmp_path / "gateway.json"))
