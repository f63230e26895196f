"""The shipped locks for CUDA 13 are made for real and proved, on a machine that needs no GPU: some 10 GB on disk.

make test-large

A stub stands for the driver's libcuda, which no lock brings: imports then get as far as they do on a host whose driver
is there and whose cards are not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import abi, elf, fit, make, proof, siblings
from ansible_collections.inferops.sglang.plugins.module_utils.build.store import Build
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds
from bench.env_build import DISK_BOUND, disk
from support import run

pytestmark = pytest.mark.index

CAPABILITIES = ["9.0", "12.0"]


def python() -> str:
    """A Python 3.12, which the locks are made for: ``INFEROPS_PYTHON312``, or what is on the PATH."""
    path = os.environ.get("INFEROPS_PYTHON312") or shutil.which("python3.12") or "python3.12"
    if run([path, "--version"]).rc != 0:
        raise RuntimeError(f"{path} is no Python 3.12 that runs: name one in INFEROPS_PYTHON312")
    return path


class Site:
    """A folder as ``/opt/sglang`` is on a host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = {"root": str(root / "builds"), "cache": str(root / "cache"), "tools": str(root / "tools")}

    def spec(self, lock: str, **environment: str) -> dict[str, Any]:
        spec = builds.resolve(lock, [], python=python(), collection_root=builds.COLLECTION)
        spec["lock"]["environment"] = {**spec["lock"]["environment"], **environment}
        return spec

    def make(self, spec: dict[str, Any]) -> Build:
        return make.apply(spec, run, capabilities=CAPABILITIES, say=print, **self.places)

    def driver(self) -> str:
        """A folder with a libcuda.so.1 that defines what the libraries in uv's cache ask of the driver."""
        names = {
            name
            for path in (self.root / "cache").glob("archive-v0/*/sgl_kernel/**/*.so")
            for name in elf.read(str(path)).undefined
            if abi.is_driver_symbol(name)
        }
        assert names, "the kernel package asks nothing of the driver any more: the stub has no use"
        folder = self.root / "driver"
        folder.mkdir(exist_ok=True)
        source = "".join(f"int {name}(void) {{ return 100; }}\n" for name in sorted(names))  # 100: no device
        argv = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-xc", "-", "-o", str(folder / "libcuda.so.1")]
        subprocess.run(argv, input=source, text=True, check=True)
        return str(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    shutil.rmtree(made.root)


def failing(error: InferopsError) -> dict[str, str]:
    return {check["name"]: check["detail"] for check in error.result["proof"]["checks"] if not check["ok"]}


@pytest.fixture(scope="module")
def without_driver(site: Site) -> dict[str, str]:
    """What fails in the proof of the newest lock here; uv's cache is filled by it."""
    with pytest.raises(InferopsError) as raised:
        site.make(site.spec("sglang-0.5.23-cu130"))
    return failing(raised.value)


def test_without_a_driver_the_kernel_does_not_load_and_that_alone_is_said(
    site: Site, without_driver: dict[str, str]
) -> None:
    assert set(without_driver) == {"import:sgl_kernel"}
    assert "install the driver first" in without_driver["import:sgl_kernel"]
    assert siblings.sealed(site.places["root"]) == [] and not list((site.root / "builds").glob("sglang-*"))


def test_the_newest_lock_is_built_proved_and_a_second_one_costs_little_more(
    site: Site, without_driver: dict[str, str]
) -> None:
    spec = site.spec("sglang-0.5.23-cu130", LD_LIBRARY_PATH=site.driver())
    first = site.make(spec)
    checks = {check["name"]: check for check in first.manifest["proof"]["checks"]}
    assert [check for check in checks.values() if not check["ok"]] == []
    assert {"import:sgl_kernel", "import:sglang.launch_server", "abi:sgl_kernel", "cuda:torch"} <= checks.keys()
    assert {f"arch:sgl_kernel:{capability}" for capability in CAPABILITIES} <= checks.keys()
    assert len(first.packages) == len([line for line in spec["lock"]["requirements"].splitlines() if "==" in line])

    # the proof of a build that is there, with a waiver too many
    needless = {**spec, "lock": {**spec["lock"], "waivers": [{"check": "pin:sglang:torch", "reason": "none"}]}}
    uv = f"{site.places['tools']}/uv"
    again, options = proof.prove(needless, run, first.path, first.manifest["site_packages"], [], uv, CAPABILITIES)
    proof.require(again, first.path)
    assert options is not None
    [waiver] = [check for check in again if check["name"] == "waiver:pin:sglang:torch"]
    assert waiver["ok"] and "no longer needed" in waiver["detail"]

    cache = site.root / "cache"
    one = disk(Path(first.path), cache)
    second = site.make({**spec, "build_id": spec["build_id"].replace("0.5.23", "second")})
    more = disk(Path(first.path), Path(second.path), cache) / one - 1
    print(f"{one >> 20} MB for one, {more:.2%} more for two")
    assert more < DISK_BOUND

    # an upgrade by hand in place: found, with what is wrong
    argv = [uv, "pip", "install", "--quiet", "--python", second.python, "--no-deps", "torch==2.11.0"]
    subprocess.run([*argv, "--cache-dir", str(cache)], check=True)
    moved, dummy = proof.prove(spec, run, second.path, second.manifest["site_packages"], [], uv, CAPABILITIES)
    wrong = {check["name"]: check["detail"] for check in moved if not check["ok"]}
    assert {"lock", "abi:sgl_kernel", "import:sgl_kernel", "pin:sglang:torch"} <= wrong.keys(), wrong
    assert "torch 2.11.0 in place of 2.14.1" in wrong["lock"]
    assert "was released for torch 2.14.1" in wrong["abi:sgl_kernel"]


def test_torch_from_the_default_index_is_refused_by_a_lock_that_wants_the_build_for_cuda_13(site: Site) -> None:
    """0.5.9 takes torch for CUDA 13 from another index; who forgets to name that gets the one for CUDA 12."""
    spec = site.spec("sglang-0.5.9-cu130")
    spec["lock"]["requirements"] = spec["lock"]["requirements"].replace("+cu130", "")
    with pytest.raises(InferopsError) as raised:
        site.make(spec)
    wrong = failing(raised.value)
    assert {"import:torch", "abi:sgl_kernel"} <= wrong.keys(), wrong
    assert "libcublas" in wrong["import:torch"], wrong
    # all other packages fit each other and this release of torch
    pins = {name for name in wrong if name.startswith("pin:")}
    assert pins and {name for name in pins if not name.startswith("pin:torch:nvidia-")} == set(), wrong
    assert fit.KERNEL_TORCH["sgl-kernel"]["0.3.21"] == "2.9.1"
