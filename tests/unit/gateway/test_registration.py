"""What a gateway lacks, and what it has too much of."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import registration, workers

A, B, C = (f"http://gpu-0{n}:30000" for n in (1, 2, 3))


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gateway's files; the list says ``A`` present and ``B`` drained, the manifest agrees."""
    monkeypatch.setattr(registration, "CLOSED", "root:root 0640")
    paths = {name: str(tmp_path / f"{name}.json") for name in ("workers", "secrets", "manifest")}
    options = {"host": "127.0.0.1", "port": 8080, "discovery_file": paths["manifest"]}
    (tmp_path / "gateway.json").write_text(
        json.dumps({"workers": paths["workers"], "secrets": paths["secrets"], "options": options})
    )
    listed = {A: "present", B: "drained"}
    Path(paths["workers"]).write_text(json.dumps({"format": 1, "workers": listed}))
    Path(paths["manifest"]).write_text(json.dumps(workers.manifest_of(listed)))
    Path(paths["secrets"]).write_text("{}")
    Path(paths["secrets"]).chmod(0o640)
    return tmp_path


def run(gateway: Path, *urls: str) -> dict[str, Any]:
    return registration.run(urls, str(gateway / "gateway.json"))


def test_all_there(gateway: Path) -> None:
    found = run(gateway, A)
    assert found["in_sync"]
    assert [(change["what"], change["before"]) for change in found["noticed"]] == [(f"worker {B}", "drained")]


def test_missing_and_drained_ones_are_to_be_put_back(gateway: Path) -> None:
    found = run(gateway, A, B, C + "/")
    assert [(c["what"], c["before"], c["after"]) for c in found["plan"]] == [
        (f"worker {B}", "drained", "present"),
        (f"worker {C}", "absent", "present"),
    ]
    assert {c["resource"] for c in found["plan"]} == {"gateway"}


def test_a_manifest_that_does_not_agree_with_the_list(gateway: Path) -> None:
    (gateway / "manifest.json").write_text(json.dumps({"version": 1, "workers": [{"url": B}]}))
    before = {change["what"]: change["before"] for change in run(gateway, A, B)["plan"]}
    assert before == {
        f"worker {A}": "present in the list, missing in the manifest",
        f"worker {B}": "drained in the list, named in the manifest",
    }


def test_keys_that_others_may_read_are_to_be_closed(gateway: Path) -> None:
    path = gateway / "secrets.json"
    for mode in (0o644, 0o600):
        path.chmod(mode)
        (change,) = registration.run([A], str(gateway / "gateway.json"))["plan"]
        assert change["what"] == f"permissions of {path}"
        assert (change["before"], change["after"]) == (f"root:root {mode:04o}", "root:root 0640")
        assert change["consequence"] == "none"
    os.chown(path, 0, 4711)
    path.chmod(0o640)
    (change,) = registration.run([A], str(gateway / "gateway.json"))["plan"]
    assert change["before"] == "root:4711 0640"


def test_keys_that_are_gone_are_noticed(gateway: Path) -> None:
    (gateway / "secrets.json").unlink()
    found = registration.run([A, B], str(gateway / "gateway.json"))
    assert not [change for change in found["plan"] if "permissions" in change["what"]]
    assert [change["before"] for change in found["noticed"]] == [None]


def test_no_gateway_here(tmp_path: Path) -> None:
    with pytest.raises(InferopsError, match="no gateway on this host"):
        registration.run([A], str(tmp_path / "gateway.json"))
