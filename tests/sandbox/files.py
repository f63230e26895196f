"""Write a small file so that a reader sees either the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` by ``text`` at once; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(mode)
    fresh.rename(path)
