# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The controller's side of a transfer of wheels: which a lock needs, and in which portions they go."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.build.installed import conditional, pins
from ansible_collections.inferops.sglang.plugins.module_utils.build.snapshot import normalise
from ansible_collections.inferops.sglang.plugins.module_utils.build.versions import same_version
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.files import sha256_file

#: So many files go before the host is asked to take them: each question costs half a second.
FILES_AT_ONCE = 64


@dataclass(frozen=True)
class Piece:
    """A part of a wheel: ``number`` from 0; the bytes are read when it is sent."""

    wheel: str
    number: int
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def needed(folder: Path, requirements: str, python: str) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of the wheels in ``folder`` that the pins need, and of the newest uv.

    Wheels for another version of Python are left out; which of several platforms fits is for uv on the host, and so is
    whether it needs what is pinned under a marker only.

    :raises InferopsError: when the folder lacks a wheel for a pin.
    """
    wanted = pins(requirements)
    tag = "cp" + "".join(python.split(".")[:2])
    found: dict[str, list[Path]] = {name: [] for name in wanted}
    uv: list[Path] = []
    for path in sorted(folder.glob("*.whl")):
        name, version, fits = _read(path.name, tag)
        if name == "uv":
            uv.append(path)
        if fits and any(same_version(version, pinned) for pinned in wanted.get(name, [])):
            found[name].append(path)
    lacking = sorted(name for name, paths in found.items() if not paths and name not in conditional(requirements))
    if lacking:
        raise InferopsError(
            f"{folder} lacks {len(lacking)} of {len(wanted)} wheels: "
            f"{', '.join(f'{name}=={wanted[name][0]}' for name in lacking[:5])}{' …' if len(lacking) > 5 else ''}; "
            "fill it with `pip download --no-deps -r requirements.txt` of the lock"
        )
    newest = sorted(uv, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name.split("-")[1])])[-1:]
    paths = sorted({path for paths in found.values() for path in paths} | set(newest))
    return [{"name": path.name, "size": path.stat().st_size, "sha256": sha256_file(str(path))} for path in paths]


def pieces(folder: Path, missing: Mapping[str, Sequence[int]], part_size: int) -> Iterator[Piece]:
    """The missing parts, wheel by wheel."""
    for name in sorted(missing):
        with open(folder / name, "rb") as stream:
            for number in missing[name]:
                stream.seek(number * part_size)
                yield Piece(name, number, stream.read(part_size))


def portions(parts: Iterator[Piece], part_size: int) -> Iterator[list[Piece]]:
    """Parts in lists that hold about one part's size together: many small wheels go at once."""
    portion: list[Piece] = []
    for piece in parts:
        portion.append(piece)
        if sum(len(each.data) for each in portion) >= part_size or len(portion) >= FILES_AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion


def _read(file: str, tag: str) -> tuple[str, str, bool]:
    """Name and version of a wheel, and whether it is for the Python of ``tag`` (``cp312``); PEP 427."""
    fields = file[: -len(".whl")].split("-")
    if len(fields) < 5:
        return "", "", False
    pythons, abi = fields[-3].split("."), fields[-2]
    older = [name for name in pythons if re.match(r"cp3\d+\Z", name) and int(name[3:]) <= int(tag[3:])]
    fits = tag in pythons or any(name.startswith("py") for name in pythons) or (abi == "abi3" and bool(older))
    return normalise(fields[0]), fields[1], fits
