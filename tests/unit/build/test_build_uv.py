"""uv on a host: from a wheel, and called without showing what is secret."""

from __future__ import annotations

import os
import platform
import zipfile
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import uv
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from support import run

TAG = f"py3-none-manylinux_2_17_{platform.machine()}"


def uv_wheel(folder: Path, version: str, tag: str = TAG) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"uv-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"uv-{version}.data/scripts/uv", f"#!/bin/sh\necho uv {version}\n")
    return path


def test_the_newest_wheel_for_this_machine_is_unpacked_once(tmp_path: Path) -> None:
    for version in ("0.9.2", "0.13.9", "0.13.10"):
        uv_wheel(tmp_path / "wheels", version)
    uv_wheel(tmp_path / "wheels", "0.14.0", "py3-none-manylinux_2_17_riscv64")
    links = [str(tmp_path / "absent"), f"file://{tmp_path / 'wheels'}"]
    path = uv.ensure(run, python="/none", find_links=links, tools=str(tmp_path / "tools"))
    assert run([path, "--version"]).stdout == "uv 0.13.10\n"
    inode = os.stat(path).st_ino
    assert uv.ensure(run, python="/none", tools=str(tmp_path / "tools")) == path
    assert os.stat(path).st_ino == inode


def test_a_uv_that_does_not_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "uv").write_text("half of it")
    uv_wheel(tmp_path / "wheels", "1.0")
    path = uv.ensure(run, python="/none", find_links=[str(tmp_path / "wheels")], tools=str(tmp_path))
    assert run([path, "--version"]).stdout == "uv 1.0\n"


def test_a_file_that_is_no_wheel_of_uv_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / f"uv-1.0-{TAG}.whl", "w") as archive:
        archive.writestr("something", "else")
    with pytest.raises(InferopsError, match="no wheel of uv"):
        uv.ensure(run, python="/none", find_links=[str(tmp_path)], tools=str(tmp_path / "tools"))


def test_without_a_wheel_pip_is_asked_and_its_failure_told(tmp_path: Path) -> None:
    asked = []

    def refusing(argv: list[str], **kwargs: dict[str, str]) -> Completed:
        asked.append((argv, kwargs.get("env")))
        return Completed(0 if "venv" in argv else 1, "", "no matching distribution")

    with pytest.raises(InferopsError, match="fetching uv for .* failed: .*no matching distribution"):
        uv.ensure(refusing, python="/usr/bin/python3", find_links=["/none"], tools=str(tmp_path))
    argv, env = asked[-1]
    assert argv[-1] == "uv" and env == {"PIP_FIND_LINKS": "/none", "PIP_NO_INDEX": "1"}
    assert os.listdir(tmp_path) == []


def test_wheels_alone_mean_no_network() -> None:
    env = uv.environment("/cache", [], ["/srv/wheelhouse"])
    assert (env["UV_OFFLINE"], env["UV_NO_INDEX"], env["UV_FIND_LINKS"]) == ("1", "1", "/srv/wheelhouse")
    page = uv.environment("/cache", [], ["https://controller/wheels"])
    assert "UV_OFFLINE" not in page and page["UV_NO_INDEX"] == "1"
    both = uv.environment("/cache", ["https://a", "https://b"], ["/srv/wheelhouse"])
    assert both["UV_INDEX"] == "https://a https://b" and "UV_NO_INDEX" not in both and "UV_OFFLINE" not in both


def test_a_password_in_an_address_is_never_told() -> None:
    hidden = uv.secrets(["https://me:s%2Fcret@host/simple"], ["/a", "https://host/page"])
    assert hidden == {"s%2Fcret", "s/cret"}
    done = Completed(1, "", "  \u00d7 No solution\n  \u2570\u2500\u25b6 https://me:s%2Fcret@host/simple said s/cret\n")
    assert uv.said(done, hidden) == "No solution https://me:********@host/simple said ********"
