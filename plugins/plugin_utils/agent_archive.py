# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host agent as one file: its own modules and those of ``module_utils`` that they import, as a zip application.

The same sources give the same bytes, so the version, a digest of the archive, changes only with them.
"""

from __future__ import annotations

import ast
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

COLLECTION = Path(__file__).resolve().parent.parent.parent
PACKAGE = "ansible_collections.inferops.sglang.plugins.module_utils"
#: Zip keeps no earlier date.
DATE = (1980, 1, 1, 0, 0, 0)


def archive(folder: Path | None = None) -> tuple[Path, str]:
    """Build the archive, if it is not there yet, and return its path and its version.

    ``folder`` is where it is kept; by default a folder of the user's cache. Every task for every host asks, so the
    version is kept by what the sources' sizes and times say: reading and packing them costs a hundred times as much.
    """
    folder = folder or _cache()
    known = folder / f"{_sources()}.version"
    if known.exists():
        version = known.read_text(encoding="ascii")
        path = folder / f"{version}.pyz"
        if path.exists() and _version(path.read_bytes()) == version:
            return path, version
    data = build()
    version = _version(data)
    path = folder / f"{version}.pyz"
    folder.mkdir(parents=True, exist_ok=True)
    _write(path, data)
    _write(known, version.encode("ascii"))
    return path, version


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _sources() -> str:
    """A digest of the name, size and time of every file that the archive may hold, and of what packs them."""
    files = [Path(__file__), *(COLLECTION / "agent").glob("*.py"), *_utils().rglob("*.py")]
    seen = []
    for file in map(str, files):
        status = os.stat(file)
        seen.append((file, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(seen)).encode()).hexdigest()[:16]


def _write(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    os.replace(temporary, path)


def build() -> bytes:
    """The archive's bytes."""
    with tempfile.TemporaryFile() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
            for name, content in sorted(_members().items()):
                entry = zipfile.ZipInfo(name, DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                target.writestr(entry, content)
        stream.seek(0)
        return stream.read()


def _members() -> dict[str, bytes]:
    """Every file of the archive: the agent's package, and the collection's under its full name."""
    members = {f"agent/{path.name}": path.read_bytes() for path in sorted((COLLECTION / "agent").glob("*.py"))}
    members["__main__.py"] = members.pop("agent/__main__.py")
    wanted = {name for source in members.values() for name in _imports(source, "")}
    done: set[str] = set()
    while wanted - done:
        name = min(wanted - done)
        done.add(name)
        file = _file(name)
        if file is None:
            continue
        source = file.read_bytes()
        members[f"{PACKAGE.replace('.', '/')}/{file.relative_to(_utils()).as_posix()}"] = source
        inside = name if file.name == "__init__.py" else name.rpartition(".")[0]
        wanted |= set(_imports(source, inside))
    folders = {parent.as_posix() for name in members for parent in Path(name).parents} - {"."}
    for folder in folders:
        members.setdefault(f"{folder}/__init__.py", b"")
    return members


def _imports(source: bytes, package: str) -> Iterable[str]:
    """The names below ``module_utils`` that a file imports, anywhere in it; dotted, ``package`` being its own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if package else []
            base = f"{PACKAGE}.{'.'.join(parts[: len(parts) - node.level + 1])}".rstrip(".") if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.startswith(PACKAGE + "."):
                inner = name[len(PACKAGE) + 1 :]
                yield inner
                yield from (inner[:index] for index, char in enumerate(inner) if char == ".")


def _file(name: str) -> Path | None:
    base = _utils() / name.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _utils() -> Path:
    return COLLECTION / "plugins" / "module_utils"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "inferops-sglang" / "agent"
