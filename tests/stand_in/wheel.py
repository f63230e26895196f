"""Make the stand-in's wheels: one for each release that it plays, reproducible to the byte.

    python3 tests/stand_in/wheel.py FOLDER [RELEASE…]

The version is ``<release>+standin``: it satisfies ``sglang==<release>`` and can never be taken for the real one.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RELEASES = ("0.5.9", "0.5.15", "0.5.23")

# What the patch for Kimi K2.5 looks for: releases from 0.5.10 have the methods.
_KIMI = """from __future__ import annotations


class KimiK25ForConditionalGeneration:
    def __init__(self, language_model):
        self.language_model = language_model

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()
"""


def build(release: str, folder: Path) -> Path:
    """Write the wheel for ``release`` into ``folder`` and return its path."""
    version = f"{release}+standin"
    files = {
        path.relative_to(HERE / "src").as_posix(): path.read_bytes() for path in sorted((HERE / "src").rglob("*.py"))
    }
    files["sglang/version.py"] = f'__version__ = "{version}"\n'.encode()
    files["sglang/srt/models/__init__.py"] = b""
    files["sglang/srt/models/kimi_k25.py"] = _KIMI.encode()
    info = f"sglang-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return target


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    for wanted in sys.argv[2:] or RELEASES:
        print(build(wanted, Path(sys.argv[1])))
