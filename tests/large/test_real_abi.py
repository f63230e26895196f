"""Real kernel packages against real builds of torch, by their ELF tables: gigabytes of wheels, no GPU.

make test-large
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import abi, fatbin, fit
from ansible_collections.inferops.sglang.plugins.module_utils.build.installed import Distribution
from releases import cache_root

pytestmark = pytest.mark.index


def wheel(name: str, version: str) -> Path:
    """A wheel from the package index, kept in the cache."""
    folder = cache_root() / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    with open(folder / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob(pattern)):
            argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*argv, "--dest", str(folder), f"{name}=={version}"], check=True)
    return next(folder.glob(pattern))


def environment(folder: Path, torch: str, kernel: str) -> Path:
    """As much of an environment as the check reads: torch's libraries and the kernel package."""
    for source, inside in ((wheel("torch", torch), "torch/lib/"), (wheel("sglang-kernel", kernel), "sgl_kernel/")):
        with zipfile.ZipFile(source) as archive:
            for name in archive.namelist():
                # flash_ops is a gigabyte for one attention backend
                if name.startswith(inside) and ".so" in name and "flash_ops" not in name:
                    archive.extract(name, folder)
    return folder


def findings(packages: Path) -> list[abi.Finding]:
    found = abi.Environment(sys.executable, str(packages))
    return [found.judge(path) for path in abi.extensions(str(packages), ["sgl_kernel"])]


@pytest.mark.parametrize(("torch", "kernel"), [("2.14.1", "0.4.10"), ("2.11.0", "0.4.4")])
def test_a_kernel_fits_the_torch_it_was_released_for(tmp_path: Path, torch: str, kernel: str) -> None:
    assert fit.KERNEL_TORCH["sglang-kernel"][kernel] == torch
    for finding in findings(environment(tmp_path, torch, kernel)):
        assert finding.symbols == [], finding


@pytest.mark.parametrize(
    ("torch", "kernel", "made_for"), [("2.11.0", "0.4.10", "2.14.1"), ("2.14.1", "0.4.4", "2.11.0")]
)
def test_a_kernel_for_another_torch_is_found(tmp_path: Path, torch: str, kernel: str, made_for: str) -> None:
    wrong = [finding for finding in findings(environment(tmp_path, torch, kernel)) if finding.symbols]
    assert any("common_ops" in finding.library for finding in wrong)
    text = fit.mismatch(wrong, [Distribution("", "sglang-kernel", kernel, kernel)], torch)
    assert f"not in torch {torch}" in text and f"was released for torch {made_for}" in text


def test_the_kernel_holds_code_for_the_cards_of_the_inventories(tmp_path: Path) -> None:
    packages = environment(tmp_path, "2.14.1", "0.4.10")
    code = {path: fatbin.architectures(path) for path in abi.extensions(str(packages), ["sgl_kernel"])}
    assert [check["ok"] for check in fit.kernel_architectures(code, ["9.0", "12.0"])] == [True, True]
    [volta] = fit.kernel_architectures(code, ["7.0"])
    assert not volta["ok"]
