"""Observe and plan on folders made here: every difference is seen, and nothing where nothing differs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import link, manage, state
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import Desired, parse

STATUS = """\
Package: cuda-nvcc-13-0
Status: hold ok installed
Priority: optional
Version: 13.0.88-1

Package: cuda-nvcc-12-8
Status: install ok installed
Version: 12.8.93-1

Package: cuda-toolkit-13-0
Status: {selection} ok installed
Architecture: amd64
Version: 13.0.2-1
Depends: cuda-nvcc-13-0

Package: libcublas-13-0
Status: deinstall ok config-files
Version: 13.1.0-1
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root of its own for everything that the resource looks at."""
    monkeypatch.setattr(layout, "TOOLKITS", str(tmp_path / "toolkits"))
    monkeypatch.setattr(state, "DEFAULT_LINK", str(tmp_path / "cuda"))
    monkeypatch.setattr(link, "DEFAULT_LINK", str(tmp_path / "cuda"))
    monkeypatch.setattr(state, "DPKG_STATUS", str(tmp_path / "status"))
    monkeypatch.setattr(state, "SEARCH", (str(tmp_path / "cuda*"),))
    (tmp_path / "toolkits").mkdir()
    return tmp_path


def toolkit(host: Path, minor: str, update: str | None = None) -> Path:
    """A folder that looks like a toolkit."""
    root = host / f"cuda-{minor}"
    (root / "bin").mkdir(parents=True)
    (root / "bin/nvcc").write_text("#!/bin/sh\n")
    (root / "bin/nvcc").chmod(0o755)
    (root / "include").mkdir()
    major, dummy, point = minor.partition(".")
    (root / "include/cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {int(major) * 1000 + int(point) * 10}\n")
    if update:
        (root / "version.json").write_text(json.dumps({"cuda": {"name": "CUDA SDK", "version": update}}))
    return root


def manifest(desired: Desired, **changes: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "version": "13.0.2",
        "source": desired.source,
        "path": desired.path,
        "packages": {},
        "components": list(desired.components),
        "apt_files": {},
        "repository": state.repository_identity(desired),
        "nvcc_version": "13.0.88",
        "files": manage.record(desired.path),
        "capabilities": list(desired.capabilities),
        **changes,
    }


def write(host: Path, desired: Desired, **changes: Any) -> None:
    (host / "toolkits" / f"{desired.minor}.json").write_text(json.dumps(manifest(desired, **changes)))


def changes(desired: Desired) -> dict[str, tuple[Any, Any]]:
    plan = state.plan(state.observe(desired), desired)
    return {change.what: (change.before, change.after) for change in plan.changes}


def wheels(host: Path, **more: Any) -> Desired:
    return parse({"source": "wheels", "version": "13.0", "path": str(host / "cuda-13.0"), **more})


def test_no_toolkit_wanted_plans_nothing(host: Path) -> None:
    toolkit(host, "12.8")
    desired = parse({"source": "none"})
    assert state.plan(state.observe(desired), desired).changes == []
    assert [entry["version"] for entry in state.observe(desired)["installed"]] == ["12.8"]


def test_bare_host(host: Path) -> None:
    found = changes(wheels(host))
    assert set(found) == {"toolkit", "capabilities"}
    assert found["toolkit"][0] is None and found["capabilities"] == ([], ["9.0", "12.0"])


def test_installed_and_proved_plans_nothing(host: Path) -> None:
    desired = wheels(host)
    toolkit(host, "13.0")
    write(host, desired)
    assert changes(desired) == {}
    assert state.observe(desired)["version"] == "13.0.2"  # the header says 13.0, the manifest knows
    json.dumps(state.observe(desired))  # travels as a result


def test_installed_and_never_proved_is_proved_again(host: Path) -> None:
    desired = wheels(host)
    toolkit(host, "13.0")
    write(host, desired, capabilities=["9.0"])
    assert changes(desired) == {"capabilities": (["9.0"], ["9.0", "12.0"])}


@pytest.mark.parametrize("spoil", ["remove", "write", "touch"])
def test_a_spoiled_file_is_seen(host: Path, spoil: str) -> None:
    desired = wheels(host)
    nvcc = toolkit(host, "13.0") / "bin/nvcc"
    write(host, desired)
    if spoil == "remove":
        nvcc.unlink()
    elif spoil == "write":
        nvcc.write_text("#!/bin/sh\nexit 1\n")
    else:
        os.utime(nvcc, ns=(1, 1))
    found = changes(desired)
    assert "capabilities" in found
    assert found.get("files") == (["bin/nvcc"], []) or "toolkit" in found  # without a compiler it is no toolkit


def test_another_update_is_right_for_a_minor_release_and_wrong_for_an_exact_one(host: Path) -> None:
    toolkit(host, "13.0")
    write(host, wheels(host), version="13.0.1")
    assert changes(wheels(host)) == {}
    assert set(changes(wheels(host, version="13.0.2"))) == {"toolkit", "capabilities"}


def test_another_source_or_path_is_a_change(host: Path) -> None:
    toolkit(host, "13.0")
    write(host, wheels(host))
    present = parse({"source": "present", "version": "13.0", "path": str(host / "cuda-13.0")})
    assert "toolkit" in changes(present)
    assert "toolkit" in changes(wheels(host, path=str(host / "elsewhere")))


def test_more_components(host: Path) -> None:
    toolkit(host, "13.0")
    write(host, wheels(host, components=["nvcc"]))
    assert changes(wheels(host, components=["nvcc"])) == {}
    assert changes(wheels(host, components=["nvcc", "cufft"]))["components"] == (["nvcc"], ["nvcc", "cufft"])


def test_default_link_moves_only_when_asked(host: Path) -> None:
    desired = wheels(host)
    old = toolkit(host, "12.8")
    toolkit(host, "13.0")
    write(host, desired)
    (host / "cuda").symlink_to(old)
    assert changes(desired) == {}
    assert changes(wheels(host, default_link="set")) == {"default_link": (str(old), desired.path)}
    link.lead(lambda *dummy, **more: pytest.fail("no program is needed for a plain link"), desired.path)
    assert changes(wheels(host, default_link="set")) == {}
    assert [entry["default"] for entry in state.installed()] == [False, True]


def test_a_path_that_is_a_link_is_the_toolkit_that_it_leads_to(host: Path) -> None:
    """The vendor's packages keep /usr/local/cuda-13 as a link, and people name /usr/local/cuda itself."""
    lies = toolkit(host, "13.0")
    (host / "cuda-13").symlink_to(lies)
    (host / "cuda").symlink_to(host / "cuda-13")
    for name in ("cuda-13", "cuda"):
        described = {"source": "present", "version": "13.0", "path": str(host / name), "default_link": "set"}
        write(host, parse(described))
        assert changes(parse(described)) == {}, "the default link leads there already"
        assert [(entry["path"], entry["default"], entry["managed"]) for entry in state.installed()] == [
            (str(host / name), True, True)
        ]


def test_a_toolkit_that_a_link_leads_to_is_found_wherever_it_lies(host: Path) -> None:
    (host / "data").mkdir()
    toolkit(host / "data", "12.8")
    (host / "cuda-12.8").symlink_to("data/cuda-12.8")
    assert [entry["path"] for entry in state.installed()] == [str(host / "data/cuda-12.8")]


def test_absent(host: Path) -> None:
    desired = wheels(host, state="absent")
    toolkit(host, "13.0")
    assert changes(desired) == {}  # not ours: nothing to remove
    write(host, wheels(host))
    assert set(changes(desired)) == {"toolkit"}


def test_versions_of_what_is_installed(host: Path) -> None:
    toolkit(host, "12.8", update="12.8.1")
    toolkit(host, "13.0")
    (host / "cuda-11.8").mkdir()  # an empty folder is no toolkit
    (host / "cuda-12").symlink_to("cuda-12.8")
    assert [(Path(entry["path"]).name, entry["version"], entry["managed"]) for entry in state.installed()] == [
        ("cuda-12.8", "12.8.1", False),
        ("cuda-13.0", "13.0", False),
    ]


def test_packages_from_dpkgs_status(host: Path) -> None:
    (host / "status").write_text(STATUS.format(selection="install"))
    assert state.packages("13.0") == {
        "cuda-nvcc-13-0": {"version": "13.0.88-1", "held": True},
        "cuda-toolkit-13-0": {"version": "13.0.2-1", "held": False},
    }
    (host / "status").unlink()
    assert state.packages("13.0") == {}


def test_apt_drift(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preferences = host / "preferences"
    monkeypatch.setattr(state, "apt_files", lambda dummy: (str(host / "s"), str(host / "k"), str(preferences)))
    desired = parse({"source": "apt", "version": "13.0", "path": str(host / "cuda-13.0")})
    toolkit(host, "13.0")
    preferences.write_text("pins\n")
    (host / "status").write_text(STATUS.format(selection="hold"))
    packages = {"cuda-nvcc-13-0": "13.0.88-1", "cuda-toolkit-13-0": "13.0.2-1"}
    write(host, desired, packages=packages, apt_files={str(preferences): "pins\n"})
    assert changes(desired) == {}
    (host / "status").write_text(STATUS.format(selection="install"))
    assert changes(desired) == {"hold": (["cuda-toolkit-13-0"], [])}  # what it was proved for is proved still
    (host / "status").write_text(STATUS.format(selection="hold").replace("13.0.88-1", "13.0.95-1"))
    assert changes(desired)["packages"][0]["cuda-nvcc-13-0"] == "13.0.95-1"
    (host / "status").write_text(STATUS.format(selection="hold"))
    preferences.unlink()
    assert changes(desired)["apt configuration"] == ([str(preferences)], [])
    preferences.write_text("pins\n")
    moved = parse({"source": "apt", "version": "13.0", "path": desired.path, "repository": "https://mirror/"})
    assert "repository" in changes(moved)


def test_refusals_name_what_is_there(host: Path) -> None:
    toolkit(host, "12.8")
    absent = parse({"source": "present", "version": "13.0", "path": str(host / "cuda-13.0")})
    said = manage.refusal(state.observe(absent), absent) or ""
    assert "no toolkit" in said and "cuda-12.8 (12.8)" in said
    toolkit(host, "13.0")
    assert manage.refusal(state.observe(absent), absent) is None
    foreign = manage.refusal(state.observe(wheels(host)), wheels(host)) or ""
    assert "did not come from source 'wheels'" in foreign and "adopt it with source 'present'" in foreign
    write(host, wheels(host))
    assert manage.refusal(state.observe(wheels(host)), wheels(host)) is None
    elsewhere = wheels(host, path=str(host / "other"))
    assert "remove that one first" in (manage.refusal(state.observe(elsewhere), elsewhere) or "")
    (host / "cuda-12.9/lib").mkdir(parents=True)
    half = {"version": "12.9", "path": str(host / "cuda-12.9")}
    for source, words in (("present", "found there: a folder without bin/nvcc"), ("apt", "remove it, or choose")):
        described = parse({"source": source, **half})
        said = manage.refusal(state.observe(described), described) or ""
        assert words in said and "without bin/nvcc" in said and "adopt" not in said
    exact = parse({"source": "present", "version": "13.0.2", "path": str(host / "cuda-13.0")})
    assert "found there: 13.0 " in (manage.refusal(state.observe(exact), exact) or "")
