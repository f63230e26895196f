"""What a plan says of GPUs: strays and a driver that was moved; never anything that is put right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import drift, holders
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.driver import Roots

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(VERSION)
    (tmp_path / "dev").mkdir()
    (tmp_path / "lib").mkdir()
    return Roots(str(tmp_path / "proc"), str(tmp_path / "dev"), str(tmp_path / "sys"), (str(tmp_path / "lib"),))


def library(roots: Roots, version: str) -> str:
    link = Path(roots.libraries[0]) / "libcuda.so.1"
    (link.parent / f"libcuda.so.{version}").touch()
    link.unlink(missing_ok=True)
    link.symlink_to(f"libcuda.so.{version}")
    return str(link)


def plan(roots: Roots, *served_with: str | None) -> list[dict[str, Any]]:
    found = drift.plan(drift.observe(roots.proc, roots.dev, roots), served_with)
    assert not found.changed
    return [change.to_dict() for change in found.noticed]


def test_a_host_without_a_driver_says_nothing(tmp_path: Path) -> None:
    assert drift.observe(str(tmp_path), str(tmp_path)) is None
    assert drift.plan(None, ["580.95.05"]).noticed == []


def test_a_driver_as_it_was_is_no_difference(roots: Roots) -> None:
    library(roots, "580.95.05")
    assert plan(roots, "580.95.05", None) == []


def test_libraries_that_an_upgrade_has_moved(roots: Roots) -> None:
    path = library(roots, "580.105.08")
    (found,) = plan(roots)
    assert (found["resource"], found["what"], found["consequence"]) == ("gpus", "driver libraries", "none")
    assert (found["before"], found["after"]) == ({path: "580.105.08"}, {path: "580.95.05"})


def test_a_driver_that_was_moved_since_a_server_was_seen_serving(roots: Roots) -> None:
    library(roots, "580.95.05")
    (found,) = plan(roots, "570.172.08", "580.95.05", None)
    assert (found["what"], found["before"], found["after"]) == ("driver", "580.95.05", "570.172.08")


def test_a_stray_is_noticed_and_a_server_of_ours_is_none(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(layout, "ROOT", str(tmp_path / "opt"))
    (tmp_path / "opt/kimi/activations").mkdir(parents=True)
    (tmp_path / "dev/nvidia0").touch()

    def holder(pid: int, unit: str | None) -> holders.Holder:
        return holders.Holder(pid, 1, 1, "python3", "S", 0, "root", unit, "python3 train.py", ("/dev/nvidia0",))

    there = [holder(10, "sglang-kimi.service"), holder(11, None), holder(12, "sglang-gone.service")]
    monkeypatch.setattr(holders, "gpu_holders", lambda dev: there)
    found = plan(roots)
    assert [change["what"] for change in found] == ["stray process 11", "stray process 12"]
    assert found[0]["before"]["cmd"] == "python3 train.py"
    assert (found[0]["before"]["gpus"], found[0]["after"]) == ([0], None)


def test_this_very_process_is_seen_holding_a_node(roots: Roots) -> None:
    import subprocess
    import sys

    node = Path(roots.dev) / "nvidia0"
    node.touch()
    code = f"import sys, time; held = open({str(node)!r}); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        found = plan(roots)
        child.kill()
    assert [change["what"] for change in found] == [f"stray process {child.pid}"]
    assert found[0]["before"]["user"] == holders.user_name(os.getuid())
