"""Small trees to patch: a ``site-packages`` with a ``RECORD``, a git checkout, and definitions for them."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.patch import worker
from ansible_collections.inferops.sglang.plugins.module_utils.patch.definition import normalise

GREETER = b'''"""A module to patch."""
import os  # first

LIMITS = {
    9: [4, 6],
    10: [6, 8],  # last
}


class Greeter:
    def hello(self):
        return "hello"  # said politely


def gate(a, b):
    return (
        # why
        (a or b)
        and os.name
    )
'''


def site_packages(root: Path, files: Mapping[str, bytes], version: str = "0.5.9", distribution: str = "sglang") -> Path:
    """A ``site-packages`` with these files (paths below the package) and the metadata of a wheel."""
    lines = []
    for name, data in files.items():
        path = root / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"sglang/{name},sha256={digest},{len(data)}\n")
    info = root / f"{distribution}-{version}.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("".join(lines) + f"{info.name}/RECORD,,\n")
    return root


def checkout(root: Path, files: Mapping[str, bytes]) -> Path:
    """A git checkout with the package in its folder ``python``, everything committed; returns that folder."""
    for name, data in files.items():
        path = root / "python" / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for argv in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "release"]):
        subprocess.run(["git", "-C", str(root), *argv], check=True, env=env)
    return root / "python"


def patch(name: str, *edits: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A checked definition."""
    return normalise({"name": name, "title": name, "why": "a test", "edits": list(edits), **fields}, "test")


def add_method(name: str = "bye", body: str = "return 'bye'", file: str = "a.py", **fields: Any) -> dict[str, Any]:
    return {"add_methods": {"file": file, "class": "Greeter", "code": f"def {name}(self):\n    {body}\n", **fields}}


def add_entry(key: str = "12", value: str = "[]", file: str = "a.py", **fields: Any) -> dict[str, Any]:
    return {"add_dict_entry": {"file": file, "dict": "LIMITS", "key": key, "value": value, **fields}}


def request(root: Path, *definitions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"root": str(root), "definitions": list(definitions), "packages": {"sglang": "sglang"}, **fields}


def apply(root: Path, *definitions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return worker.apply(request(root, *definitions, **fields))


def plan(root: Path, *definitions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return worker.plan(request(root, *definitions, **fields))


def states(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, state and author of each patch of an answer."""
    return [(one["name"], one["state"], one["by"]) for one in answer["patches"]]


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file of a tree with its content, the engine's own store left out."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".inferops-patch" not in path.parts and ".git" not in path.parts
    }
