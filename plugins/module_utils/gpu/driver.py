# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The driver as files show it: the kernel's half, the user's half, the device nodes, the bus. No program is run.

In a container the kernel's half belongs to the hypervisor: its version shows through ``/proc/driver``, while the
libraries and the device nodes are the container's own, and both may be stale.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from dataclasses import dataclass
from typing import Any

from .. import procfs
from ..files import read_bytes, read_text

_VERSION = r"\d{3,}\.\d+(?:\.\d+)?"
#: Names in /proc/devices (the kernel's registered majors) by the device node that they belong to. ``nvidia-frontend``
#: is what drivers before 545 call the first.
_REGISTERED = {
    "nvidia": ("nvidia", "nvidia-frontend"),
    "nvidiactl": ("nvidiactl", "nvidia", "nvidia-frontend"),
    "nvidia-uvm": ("nvidia-uvm",),
    "nvidia-nvswitch": ("nvidia-nvswitch",),
    "nvidia-nvlink": ("nvidia-nvlink",),
}
_VENDOR = "0x10de"
#: Kernel drivers that hold a device for a guest.
_GUESTS = ("vfio-pci", "pci-stub", "pciback")
_ACS_CAPABILITY = 0x000D
#: ACS control bits that send peer-to-peer traffic up to the root complex: request and completion redirect.
_ACS_REDIRECT = 0b1100


@dataclass(frozen=True)
class Roots:
    """Where the kernel's file systems and the libraries are; tests point them elsewhere."""

    proc: str = "/proc"
    dev: str = "/dev"
    sys: str = "/sys"
    libraries: tuple[str, ...] = (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",
        "/usr/lib/wsl/lib",
    )


def kernel_version(roots: Roots) -> str | None:
    """The version of the loaded kernel module, or ``None`` where none is loaded."""
    text = read_text(os.path.join(roots.proc, "driver/nvidia/version"))
    return parse_kernel_version(text or "")


def parse_kernel_version(text: str) -> str | None:
    """The version in ``/proc/driver/nvidia/version`` (proprietary and open kernel modules word it differently)."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    match = re.search(rf"\s({_VERSION})\s", line)
    return match.group(1) if match else None


def library_versions(roots: Roots) -> dict[str, str]:
    """The version of the user's half by path: of what ``libcuda.so.1`` and ``libnvidia-ml.so.1`` resolve to.

    Two folders may hold two versions (a container's own package beside what its runtime mounts in): both are named.
    """
    found: dict[str, str] = {}
    for folder in roots.libraries:
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            path = os.path.join(folder, name)
            match = re.search(rf"\.so\.({_VERSION})$", os.path.realpath(path))
            if os.path.exists(path) and match:
                found[path] = match.group(1)
    return found


def device_nodes(roots: Roots) -> list[dict[str, Any]]:
    """The character devices ``/dev/nvidia*`` with their major numbers and the one that the kernel has registered.

    ``registered`` is ``None`` where the kernel knows no such driver now.
    """
    majors = parse_devices(read_text(os.path.join(roots.proc, "devices")) or "")
    nodes = []
    for path in sorted(glob.glob(os.path.join(roots.dev, "nvidia*"))):
        status = os.lstat(path)
        if not stat.S_ISCHR(status.st_mode):
            continue
        name = os.path.basename(path)
        names = _REGISTERED.get(_family(name))
        if names is not None:
            wanted = next((majors[known] for known in names if known in majors), None)
            nodes.append(
                {
                    "path": path,
                    "major": os.major(status.st_rdev),
                    "minor": os.minor(status.st_rdev),
                    "registered": wanted,
                    "mode": f"{stat.S_IMODE(status.st_mode):04o}",
                }
            )
    return nodes


def parse_devices(text: str) -> dict[str, int]:
    """The character devices of ``/proc/devices``: major number by name."""
    block = text.partition("Block devices:")[0]
    pairs = (line.split(None, 1) for line in block.splitlines() if re.match(r"\s*\d+ ", line))
    return {name.strip(): int(number) for number, name in pairs}


def _family(name: str) -> str:
    if re.fullmatch(r"nvidia\d+", name):
        return "nvidia"
    for family in ("nvidia-uvm", "nvidia-nvswitch", "nvidia-nvlink"):
        if name.startswith(family):
            return family
    return name


def pci_gpus(roots: Roots) -> list[str]:
    """The PCI addresses of NVIDIA display and 3D controllers (class 03xx), driver or none.

    Those that a hypervisor has set aside for its guests are theirs, and none of this host.
    """
    cards = [address for address, vendor, kind in _pci(roots) if vendor == _VENDOR and kind.startswith("0x03")]
    return [address for address in cards if _bound_to(roots, address) not in _GUESTS]


def acs_redirecting(roots: Roots) -> list[str] | None:
    """PCI bridges that send peer-to-peer traffic through the root complex (ACS request or completion redirect).

    ``None`` where the extended configuration space cannot be read (not root, or a virtual bus).
    """
    bridges = [address for address, dummy, kind in _pci(roots) if kind.startswith("0x0604")]
    spaces = {address: _config(roots, address) for address in bridges}
    if not any(len(space) > 256 for space in spaces.values()):
        return None
    return sorted(address for address, space in spaces.items() if acs_control(space) & _ACS_REDIRECT)


def acs_control(space: bytes) -> int:
    """The ACS control register in a PCI Express configuration space, 0 where there is no such capability.

    The extended capabilities are a linked list from offset 0x100: id in bits 0-15, next offset in bits 20-31 (PCI
    Express Base Specification, 7.6); the control register is 6 bytes into the ACS capability (7.7.7).
    """
    offset = 0x100
    seen: set[int] = set()
    while offset and offset not in seen and offset + 8 <= len(space):
        seen.add(offset)
        header = int.from_bytes(space[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            return int.from_bytes(space[offset + 6 : offset + 8], "little")
        offset = header >> 20
    return 0


def _pci(roots: Roots) -> list[tuple[str, str, str]]:
    base = os.path.join(roots.sys, "bus/pci/devices")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    return [(name, _line(base, name, "vendor"), _line(base, name, "class")) for name in names]


def _bound_to(roots: Roots, address: str) -> str | None:
    """The kernel driver of a device, ``None`` where it has none."""
    link = os.path.join(roots.sys, "bus/pci/devices", address, "driver")
    return os.path.basename(os.readlink(link)) if os.path.islink(link) else None


def _line(*parts: str) -> str:
    return (read_text(os.path.join(*parts)) or "").strip()


def _config(roots: Roots, address: str) -> bytes:
    return read_bytes(os.path.join(roots.sys, "bus/pci/devices", address, "config")) or b""


def container() -> str | None:
    """The kind of container that we are in (``lxc``, ``systemd-nspawn``, ``docker``), or ``None`` on a whole machine.

    systemd writes it to /run/systemd/container (systemd's "Container Interface"); Docker leaves /.dockerenv.
    """
    told = (read_text("/run/systemd/container") or "").strip() or procfs.environ(1).get("container")
    return told or ("docker" if os.path.exists("/.dockerenv") else None)
