"""The driver's two halves, device nodes and bus, from files; the judgement for a CUDA release."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import driver, requirement
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.driver import Roots

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08  Tue Jul  8 18:30:05 UTC 2025\n"
    "GCC version:  gcc version 13.3.0\n"
)


def roots(tmp_path: Path) -> Roots:
    for name in ("proc/driver/nvidia", "dev", "sys/bus/pci/devices", "lib"):
        (tmp_path / name).mkdir(parents=True)
    return Roots(
        proc=str(tmp_path / "proc"),
        dev=str(tmp_path / "dev"),
        sys=str(tmp_path / "sys"),
        libraries=(str(tmp_path / "lib"),),
    )


def test_kernel_version_of_both_kinds_of_module() -> None:
    assert driver.parse_kernel_version((RECORDED / "driver_version.txt").read_text()) == "580.159.04"
    assert driver.parse_kernel_version(PROPRIETARY) == "570.172.08"
    assert driver.parse_kernel_version("") is None


def test_nothing_there(tmp_path: Path) -> None:
    empty = roots(tmp_path)
    assert driver.kernel_version(empty) is None
    assert driver.library_versions(empty) == {}
    assert driver.device_nodes(empty) == []
    assert driver.pci_gpus(empty) == []
    assert driver.acs_redirecting(empty) is None


def test_library_versions_follow_the_links(tmp_path: Path) -> None:
    where = roots(tmp_path)
    library = tmp_path / "lib"
    (library / "libcuda.so.580.95.05").touch()
    (library / "libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    (library / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.65.06")  # dangles: not there
    assert driver.library_versions(where) == {str(library / "libcuda.so.1"): "580.95.05"}


def test_devices_of_the_kernel() -> None:
    text = "Character devices:\n  1 mem\n195 nvidia\n238 nvidia-uvm\n241 nvidia-caps\n\nBlock devices:\n259 blkext\n"
    assert driver.parse_devices(text) == {"mem": 1, "nvidia": 195, "nvidia-uvm": 238, "nvidia-caps": 241}


def test_devices_of_a_real_kernel_tell_the_majors_of_the_nodes_there() -> None:
    majors = driver.parse_devices((RECORDED / "h200-modules" / "proc_devices.txt").read_text())
    wanted = {"nvidia": 195, "nvidiactl": 195, "nvidia-uvm": 238, "nvidia-nvswitch": 239, "nvidia-caps": 241}
    assert wanted.items() <= majors.items()
    assert "virtblk" not in majors  # a block device


def test_device_nodes_against_the_registered_major(tmp_path: Path) -> None:
    where = roots(tmp_path)
    (tmp_path / "proc/devices").write_text("Character devices:\n195 nvidia\n511 nvidia-uvm\n")
    nodes = {"nvidia0": (195, 0), "nvidiactl": (195, 255), "nvidia-uvm": (238, 0), "nvidia-modeset": (195, 254)}
    try:
        for name, (major, minor) in nodes.items():
            os.mknod(tmp_path / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    found = {node["path"].rpartition("/")[2]: node for node in driver.device_nodes(where)}
    assert "nvidia-modeset" not in found  # no compute program needs it
    assert (found["nvidia0"]["major"], found["nvidia0"]["registered"]) == (195, 195)
    assert (found["nvidiactl"]["minor"], found["nvidiactl"]["registered"]) == (255, 195)
    assert (found["nvidia-uvm"]["major"], found["nvidia-uvm"]["registered"]) == (238, 511)


def pci(tmp_path: Path, address: str, vendor: str, kind: str, config: bytes = b"") -> None:
    folder = tmp_path / "sys/bus/pci/devices" / address
    folder.mkdir()
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    (folder / "config").write_bytes(config)


def space(*capabilities: tuple[int, int, int]) -> bytes:
    """A configuration space with extended capabilities (id, offset, word at offset + 6), linked in this order."""
    data = bytearray(4096)
    for i, (number, offset, word) in enumerate(capabilities):
        following = capabilities[i + 1][1] if i + 1 < len(capabilities) else 0
        data[offset : offset + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        data[offset + 6 : offset + 8] = word.to_bytes(2, "little")
    return bytes(data)


def test_cards_on_the_bus_and_acs(tmp_path: Path) -> None:
    where = roots(tmp_path)
    pci(tmp_path, "0000:01:00.0", "0x10de", "0x030200")
    pci(tmp_path, "0000:01:00.1", "0x10de", "0x040300")  # the card's audio
    pci(tmp_path, "0000:02:00.0", "0x1002", "0x030000")  # another vendor's
    pci(tmp_path, "0000:00:01.0", "0x8086", "0x060400", space((1, 0x100, 0), (0x000D, 0x148, 0b11101)))
    pci(tmp_path, "0000:00:02.0", "0x8086", "0x060400", space((0x000D, 0x100, 0b00001)))
    pci(tmp_path, "0000:00:03.0", "0x8086", "0x060400", space((1, 0x100, 0)))
    assert driver.pci_gpus(where) == ["0000:01:00.0"]
    assert driver.acs_redirecting(where) == ["0000:00:01.0"]


def test_cards_that_are_set_aside_for_guests_are_none_of_this_host(tmp_path: Path) -> None:
    where = roots(tmp_path)
    for address, name in (("0000:01:00.0", "vfio-pci"), ("0000:02:00.0", "nvidia"), ("0000:03:00.0", "nouveau")):
        pci(tmp_path, address, "0x10de", "0x030200")
        (tmp_path / "sys/bus/pci/devices" / address / "driver").symlink_to(f"../../../bus/pci/drivers/{name}")
    assert driver.pci_gpus(where) == ["0000:02:00.0", "0000:03:00.0"]


def test_a_looping_capability_list_ends() -> None:
    data = bytearray(4096)
    data[0x100:0x104] = (1 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert driver.acs_control(bytes(data)) == 0
    assert driver.acs_control(b"") == 0


@pytest.mark.parametrize(
    ("version", "cuda", "carried"),
    [
        ("580.159.04", "13.0", True),
        ("580.65.06", "13.5", True),
        ("590.44", "13.0", True),
        ("575.57.08", "13.0", False),
        ("575.57.08", "12.8", True),
        ("525.60.13", "12.0", True),
        ("525.60.11", "12.0", False),
        ("580.159.04", "14.0", True),
        ("580.95.05-grid", "13.0", True),
        ("unknown", "13.0", False),
    ],
)
def test_driver_for_cuda(version: str, cuda: str, carried: bool) -> None:
    assert requirement.carries(version, cuda) is carried


def test_judgement_says_whose_driver_it_is() -> None:
    assert requirement.judge("580.95.05", "13.0") is None
    assert requirement.judge(None, "13.0") is None
    said = requirement.judge("550.163.01", "13.0", container="lxc") or ""
    assert "CUDA 13.0 needs driver 580" in said and "hypervisor" in said and "550.163.01" in said
    assert "this host's driver" in (requirement.judge("550.163.01", "13.0") or "")
