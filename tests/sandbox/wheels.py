"""The sandbox's own wheels, made from ``cpu_support/``: the same bytes on every machine, so that locks can name a hash.

A wheel is an archive of files and three texts about them; that is little enough to write without a build backend. Raise
the version when a source changes: a host may hold the old one in its cache.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parent / "cpu_support"


@dataclass(frozen=True)
class LocalWheel:
    """A pure Python wheel: the Python files of ``folder`` below ``cpu_support``, as the distribution ``name``."""

    name: str
    version: str
    summary: str
    folder: str
    entry_points: Mapping[str, str] = field(default_factory=dict)

    @property
    def filename(self) -> str:
        """As PEP 427 wants it."""
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"

    def content(self) -> dict[str, bytes]:
        """Every member of the archive but ``RECORD``: path -> bytes, in a fixed order."""
        root = SOURCES / self.folder
        members = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.py"))}
        info = self.info_folder()
        about = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\nSummary: {self.summary}\n"
        members[f"{info}/METADATA"] = about.encode()
        members[f"{info}/WHEEL"] = (
            b"Wheel-Version: 1.0\nGenerator: inferops-sandbox\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        if self.entry_points:
            lines = [f"[{group}]\n{entry}\n" for group, entry in self.entry_points.items()]
            members[f"{info}/entry_points.txt"] = "\n".join(lines).encode()
        return members

    def info_folder(self) -> str:
        """The archive's folder of texts about it."""
        return f"{self.name.replace('-', '_')}-{self.version}.dist-info"


LOCAL_WHEELS = (
    LocalWheel(
        "sandbox-sgl-kernel",
        "0.5.9",
        "Names that SGLang 0.5.9 imports from its kernel package, for hosts without a GPU",
        "sgl_kernel_0_5_9",
    ),
    LocalWheel(
        "sandbox-sgl-kernel",
        "0.5.23",
        "Helpers that SGLang 0.5.23 takes from its kernel package, in plain torch, for hosts without a GPU",
        "sgl_kernel_0_5_23",
    ),
    LocalWheel(
        "sandbox-full-tree-mask",
        "1.0",
        "SGLang plugin: the tree mask that the triton attention backend reads, on a CPU",
        "full_tree_mask",
        {"sglang.srt.plugins": "sandbox_full_tree_mask = sandbox_full_tree_mask:register"},
    ),
)


def build(wheel: LocalWheel, folder: Path) -> Path:
    """Write the wheel into ``folder``; members are stored, not compressed, with one fixed time stamp."""
    members = wheel.content()
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members.items())
    info = wheel.info_folder()
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    target = folder / wheel.filename
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    return target


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
