"""Source ``apt``: the parts that need no apt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import apt, openpgp
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import parse

VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two keys made by gpg, in both forms, with the fingerprints that gpg tells."""
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    found: dict[str, Any] = {}
    for name, kind in (("ours", "ed25519"), ("other", "rsa2048")):
        subprocess.run([*gpg, "--quick-gen-key", name, kind, "default", "never"], check=True, capture_output=True)
        listed = subprocess.run([*gpg, "--with-colons", "-k", name], check=True, capture_output=True, text=True).stdout
        fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
        binary = subprocess.run([*gpg, "--export", name], check=True, capture_output=True).stdout
        armoured = subprocess.run([*gpg, "--armor", "--export", name], check=True, capture_output=True).stdout
        found[name] = {"fingerprint": fingerprint, "binary": binary, "armoured": armoured}
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    return found


def test_fingerprints_are_those_that_gpg_tells(keys: dict[str, Any]) -> None:
    for key in keys.values():
        assert openpgp.fingerprints(key["binary"]) == [key["fingerprint"]]
        assert openpgp.fingerprints(key["armoured"]) == [key["fingerprint"]]
        assert openpgp.fingerprints(key["armoured"].replace(b"\n", b"\r\n")) == [key["fingerprint"]]
    both = keys["ours"]["binary"] + keys["other"]["binary"]
    assert openpgp.fingerprints(both) == [keys["ours"]["fingerprint"], keys["other"]["fingerprint"]]


@pytest.mark.parametrize("data", [b"", b"<html>404</html>", b"\xc6", b"\x99\xff\xff\x04", b"\xc6\xff\xff\xff\xff\xff"])
def test_what_is_no_keyring(data: bytes) -> None:
    with pytest.raises(InferopsError):
        openpgp.fingerprints(data)


def test_every_cut_of_a_key_is_refused_or_the_same_key(keys: dict[str, Any]) -> None:
    whole = keys["ours"]["binary"]
    for length in range(0, len(whole), 7):
        try:
            assert openpgp.fingerprints(whole[:length]) == [keys["ours"]["fingerprint"]]
        except InferopsError:
            continue


def test_a_wrong_or_second_key_is_refused(keys: dict[str, Any]) -> None:
    ours, other = keys["ours"], keys["other"]
    spaced = " ".join(ours["fingerprint"][i : i + 4] for i in range(0, 40, 4)).lower()
    apt.verify(ours["armoured"], spaced, "the key")
    with pytest.raises(InferopsError, match=f"found {other['fingerprint']}, wanted {ours['fingerprint']}"):
        apt.verify(other["armoured"], ours["fingerprint"], "the key")
    with pytest.raises(InferopsError, match="nothing was installed"):
        apt.verify(ours["binary"] + other["binary"], ours["fingerprint"], "the key")


@pytest.mark.parametrize(
    ("line", "same"),
    [
        (f"deb [signed-by=/usr/share/keyrings/k.gpg] {VENDOR} /", True),
        (f"deb {VENDOR.rstrip('/')} /", True),
        (f"URIs: {VENDOR}", True),
        (f"# deb {VENDOR} /", False),
        ("deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/ /", False),
        ("deb http://mirror.example/debian bookworm main", False),
    ],
)
def test_the_same_repository_in_another_file(tmp_path: Path, line: str, same: bool) -> None:
    """apt refuses a second entry for a repository with another key: the host's own one is used."""
    other, ours = tmp_path / "cuda-ubuntu2404-x86_64.list", tmp_path / "inferops-cuda.sources"
    other.write_text(line + "\n")
    ours.write_text(f"URIs: {VENDOR}\n")
    assert apt.existing_source(VENDOR, str(ours)) == (str(other) if same else None)


@pytest.mark.parametrize(
    ("package", "driver"),
    [
        ("nvidia-driver-580", True),
        ("nvidia-open", True),
        ("nvidia-fabricmanager", True),
        ("nvidia-dkms-580-open", True),
        ("libnvidia-compute-580", True),
        ("libcuda1", True),
        ("cuda-drivers", True),
        ("cuda-drivers-580", True),
        ("linux-modules-nvidia-580-generic", True),
        ("cuda-toolkit-13-0", False),
        ("cuda-driver-dev-13-0", False),
        ("libnvjitlink-13-0", False),
        ("libnvvm-13-0", False),
        ("libcublas-dev-13-0", False),
        ("nvidia-cuda-toolkit-13-0", False),
        ("gcc-12", False),
    ],
)
def test_what_belongs_to_the_driver(package: str, driver: bool) -> None:
    assert apt.is_driver(package) is driver


def says(stdout: str) -> Any:
    def run(argv: Sequence[str], **dummy: Any) -> Completed:
        return Completed(0, stdout, "")

    return run


MADISON = f"""\
 cuda-toolkit-13-0 |   13.0.2-1 | {VENDOR.rstrip("/")}  Packages
 cuda-toolkit-13-0 |   13.0.1-1 | {VENDOR.rstrip("/")}  Packages
 cuda-toolkit-13-0 |   13.0.9-1 | https://another.example/debian stable/main amd64 Packages
"""


def test_the_newest_right_version_of_that_repository() -> None:
    def choose(version: str) -> str:
        desired = parse({"source": "apt", "version": version, "repository": VENDOR})
        return apt.choose(says(MADISON), desired, "cuda-toolkit-13-0")

    assert choose("13.0") == "13.0.2-1"
    assert choose("13.0.1") == "13.0.1-1"
    with pytest.raises(InferopsError, match=r"no cuda-toolkit-13-0 13\.0\.9: found 13\.0\.2-1, 13\.0\.1-1"):
        choose("13.0.9")


@pytest.mark.parametrize(
    ("simulated", "words"),
    [
        ("Inst cuda-nvcc-13-0 (13.0.88-1 x [amd64])\nConf cuda-nvcc-13-0 (13.0.88-1 x [amd64])\n", None),
        ("Inst cuda-drivers (580.95.05 x [amd64])\n", r"touch the driver \(cuda-drivers\)"),
        ("Inst libnvidia-compute-580 [580.65] (580.95.05 x [amd64])\n", "touch the driver"),
        ("Remv gcc-12 [12.2.0]\nInst cuda-nvcc-13-0 (13.0.88-1 x [amd64])\n", "remove gcc-12"),
    ],
)
def test_an_installation_that_would_touch_the_driver_or_remove_is_not_run(simulated: str, words: str | None) -> None:
    if words is None:
        apt._simulate(says(simulated), ["install", "cuda-toolkit-13-0"])
        return
    with pytest.raises(InferopsError, match=words):
        apt._simulate(says(simulated), ["install", "cuda-toolkit-13-0"])


def test_passwords_belong_elsewhere() -> None:
    desired = parse({"source": "apt", "version": "13.0", "repository": "https://user:hidden@mirror/cuda/"})
    with pytest.raises(InferopsError, match=r"auth\.conf\.d") as raised:
        apt.refuse_credentials(desired)
    assert "hidden" not in raised.value.message


def test_pins() -> None:
    text = apt.pins({"cuda-toolkit-13-0": "13.0.2-1", "cuda-nvcc-13-0": "13.0.88-1"})
    assert text.count("Pin-Priority: 1001") == 2
    assert "Package: cuda-nvcc-13-0\nPin: version 13.0.88-1\n" in text
