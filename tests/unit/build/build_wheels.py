"""Small real wheels, and a lock over them: a build of them takes a second and goes through every step."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.plugin_utils import builds

#: As much of SGLang as a build asks of it.
SGLANG = {
    "sglang/__init__.py": "",
    "sglang/launch_server.py": "import sglang.srt.server_args\n",
    "sglang/srt/__init__.py": "",
    "sglang/srt/server_args.py": (
        "class ServerArgs:\n"
        "    @staticmethod\n"
        "    def add_cli_args(parser):\n"
        "        parser.add_argument('--model-path', required=True)\n"
    ),
    "sglang/srt/models/__init__.py": "",
    "sglang/srt/models/tiny.py": "SIZES = {9: 1}\n",
}

PATCH: dict[str, Any] = {
    "name": "twelve",
    "title": "Sizes for twelve",
    "why": "a test",
    "upstream": "nowhere",
    "applies_to": ">=0.5.7",
    "edits": [{"add_dict_entry": {"file": "srt/models/tiny.py", "dict": "SIZES", "key": "12", "value": "2"}}],
}


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    requires: Iterable[str] = (),
    metadata_version: str | None = None,
) -> Path:
    """Write a wheel; ``metadata_version`` is what its METADATA says where that differs from the file name."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {metadata_version or version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    content = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    content[f"{stem}.dist-info/METADATA"] = metadata.encode()
    content[f"{stem}.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    content[f"{stem}.dist-info/RECORD"] = (record + f"{stem}.dist-info/RECORD,,\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return target


class Site:
    """A host's folders, a wheelhouse and a collection with one lock, all below a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheelhouse = root / "wheelhouse"
        self.collection = root / "collection"
        self.builds = root / "opt" / "builds"
        self.cache = root / "opt" / "cache"
        self.tools = root / "opt" / "tools"
        self.tools.mkdir(parents=True)
        (self.tools / "uv").symlink_to(_uv())
        wheel(self.wheelhouse, "sglang", "0.5.9", SGLANG, ["extra-needs>=1"])
        wheel(self.wheelhouse, "extra-needs", "1.2", {"extra_needs/__init__.py": "VALUE = 1\n"})
        self.lock(["sglang==0.5.9", "extra-needs==1.2"])

    def lock(self, pins: Iterable[str], name: str = "tiny", **description: Any) -> None:
        import yaml

        folder = self.collection / "locks" / name
        folder.mkdir(parents=True, exist_ok=True)
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        content = {"release": "0.5.9", "cuda": None, "python": python, "waivers": [], "environment": {}, **description}
        (folder / "lock.yml").write_text(yaml.safe_dump(content))
        (folder / "requirements.txt").write_text("\n".join(pins) + "\n")

    def spec(self, patches: Iterable[Any] = (), name: str = "tiny") -> dict[str, Any]:
        return builds.resolve(
            name,
            list(patches),
            python=sys.executable,
            find_links=[str(self.wheelhouse)],
            collection_root=self.collection,
        )

    @property
    def places(self) -> dict[str, str]:
        return {"root": str(self.builds), "cache": str(self.cache), "tools": str(self.tools)}


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise RuntimeError("the tests need uv: make setup installs it into .venv")
    return found
