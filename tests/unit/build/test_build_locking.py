"""Making locks with a uv that answers as recorded, and once with the package index."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.build import installed
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds, locking

RESOLVED = """
lock-version = "1.0"
[[packages]]
name = "sglang"
version = "0.5.15"
wheels = [{ url = "u:1.whl", hashes = { sha256 = "bb" } }, { url = "u:2.whl", hashes = { sha256 = "aa" } }]
[[packages]]
name = "Nvidia_cudnn-cu13"
version = "9.19"
wheels = [{ url = "u:3.whl", hashes = { sha256 = "cc" } }]
"""


def fake_uv(folder: Path, resolved: str) -> str:
    """A uv that notes its arguments and answers with a fixed set."""
    (folder / "resolved.toml").write_text(resolved)
    script = folder / "uv"
    script.write_text(
        f"#!{sys.executable}\nimport shutil, sys, pathlib\nhere = pathlib.Path({str(folder)!r})\n"
        "args = sys.argv\nshutil.copy(here / 'resolved.toml', args[args.index('--output-file') + 1])\n"
        "shutil.copy(args[args.index('--constraints') + 1], here / 'constraints')\n"
        "links = pathlib.Path(args[args.index('--find-links') + 1])\n"
        "(here / 'links').write_text('\\n'.join(wheel.name for wheel in links.glob('*.whl')))\n"
        "shutil.copy(args[-1], here / 'requirements')\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_a_lock_is_written_and_valid(tmp_path: Path) -> None:
    folder = locking.make("0.5.15", "cu130", tmp_path / "locks", uv=fake_uv(tmp_path, RESOLVED))
    text = (folder / "requirements.txt").read_text()
    assert text.splitlines()[1:] == [
        "nvidia-cudnn-cu13==9.19 \\",
        "    --hash=sha256:cc",
        "sglang==0.5.15 \\",
        "    --hash=sha256:aa \\",
        "    --hash=sha256:bb",
    ]
    assert installed.all_hashed(text)
    described = builds.load(folder)
    assert (described["release"], described["cuda"], described["python"]) == ("0.5.15", "13.0", "3.12")
    assert "nvidia-nvvm==13.0.*" in (tmp_path / "constraints").read_text()


def test_what_a_person_wrote_stays_and_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "locks" / "sglang-0.5.15-cu130"
    folder.mkdir(parents=True)
    (folder / "lock.yml").write_text("release: mine\n")
    inputs = {"elsewhere": ["torch==2.9.1+cu130"], "requirements": ["triton==3.5.1"], "constraints": ["numpy<3"]}
    (folder / "inputs.yml").write_text(yaml.safe_dump(inputs))
    locking.make("0.5.15", "cu130", tmp_path / "locks", uv=fake_uv(tmp_path, RESOLVED))
    assert (folder / "lock.yml").read_text() == "release: mine\n"
    assert (tmp_path / "links").read_text() == "torch-2.9.1+cu130-py3-none-any.whl"
    assert (tmp_path / "requirements").read_text() == "sglang==0.5.15\ntriton==3.5.1\n"
    assert {"numpy<3", "torch==2.9.1+cu130"} <= set((tmp_path / "constraints").read_text().split())
    assert (folder / "requirements.txt").read_text().endswith("torch==2.9.1+cu130\n")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [("platfrom: x", "did you mean 'platform'"), ("elsewhere: [torch>=2]", "exact pins")],
)
def test_wrong_inputs_are_refused(tmp_path: Path, inputs: str, message: str) -> None:
    folder = tmp_path / "sglang-0.5.15-cu130"
    folder.mkdir()
    (folder / "inputs.yml").write_text(inputs)
    with pytest.raises(InferopsError, match=message):
        locking.make("0.5.15", "cu130", tmp_path, uv="/none")
    assert not (folder / "requirements.txt").exists()


def test_a_set_for_another_cuda_version_is_refused(tmp_path: Path) -> None:
    resolved = RESOLVED.replace("cu13", "cu12")
    with pytest.raises(InferopsError, match=r"nvidia-cudnn-cu12 \S+, which is for CUDA 12, not 13"):
        locking.make("0.5.15", "cu130", tmp_path / "locks", uv=fake_uv(tmp_path, resolved))
    assert not (tmp_path / "locks").exists()


def test_a_pin_for_another_cuda_version_is_refused_by_its_local_version_too(tmp_path: Path) -> None:
    folder = tmp_path / "locks" / "sglang-0.5.15-cu130"
    folder.mkdir(parents=True)
    (folder / "inputs.yml").write_text("elsewhere: [torch==2.9.1+cu128]\n")
    with pytest.raises(InferopsError, match=r"torch 2\.9\.1\+cu128, which is for CUDA 12, not 13"):
        locking.make("0.5.15", "cu130", tmp_path / "locks", uv=fake_uv(tmp_path, RESOLVED))
    assert not (folder / "requirements.txt").exists()


def test_a_set_that_cannot_be_resolved_gives_uvs_reason(tmp_path: Path) -> None:
    with pytest.raises(InferopsError, match="given as in 'cu130'"):
        locking.make("0.5.15", "13.0", tmp_path)
    assert locking.main(["--release", "0.5.15", "--cuda", "cuda13", "--locks", str(tmp_path)]) == 1


@pytest.mark.index
@pytest.mark.parametrize("lock", ["sglang-0.5.9-cu130", "sglang-0.5.23-cu130"])
def test_the_shipped_inputs_still_resolve_to_their_release(tmp_path: Path, lock: str) -> None:
    shutil.copytree(builds.COLLECTION / "locks" / lock, tmp_path / lock)
    release = lock.split("-")[1]
    uv = str(Path(sys.executable).parent / "uv")
    pins = installed.pins((locking.make(release, "cu130", tmp_path, uv=uv) / "requirements.txt").read_text())
    assert pins["sglang"] == [release] and pins["triton"]


@pytest.mark.index
def test_what_others_ask_of_a_package_from_elsewhere_holds(tmp_path: Path) -> None:
    # seen: the newest compressed-tensors, which wants a newer torch, beside the torch that was pinned from elsewhere
    folder = tmp_path / "sglang-0.5.9-cu130"
    shutil.copytree(builds.COLLECTION / "locks" / folder.name, folder)
    inputs = yaml.safe_load((folder / "inputs.yml").read_text())
    inputs["requirements"].append("compressed-tensors>=0.20.1")
    (folder / "inputs.yml").write_text(yaml.safe_dump(inputs))
    with pytest.raises(InferopsError, match=r"torch>=2\.10"):
        locking.make("0.5.9", "cu130", tmp_path, uv=str(Path(sys.executable).parent / "uv"))
