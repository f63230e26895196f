"""Write small files, and remove big folders, without surprises."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .shell import run


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` by ``text`` at once: a reader sees the old or the new one. Its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(mode)
    fresh.rename(path)


def mounted_below(folder: Path, mounts: str) -> list[str]:
    """The mount points at or below ``folder`` in the text of ``/proc/mounts``, the innermost first."""
    points = [line.split()[1].encode().decode("unicode_escape") for line in mounts.splitlines()]
    top = str(folder)
    return sorted((point for point in points if point == top or point.startswith(f"{top}/")), reverse=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder that may not be there. What is mounted in it (by a debootstrap that was interrupted, say) is
    unmounted first, and never deleted through."""
    if not folder.exists():
        return
    for point in mounted_below(folder.resolve(), Path("/proc/mounts").read_text(encoding="utf-8")):
        run(["umount", point])
    shutil.rmtree(folder)
