# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The weight files of a model's folder: are they all there and whole? From headers and index, never from weights."""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..files import read_bytes

#: What a file begins with that git-lfs left in place of its content.
LFS = b"version https://git-lfs"
# The format's own limit for a header (safetensors, "Format").
_LONGEST_HEADER = 100_000_000
_OFFSETS = b'"data_offsets"'
_END = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d+)')
# What SGLang passes over among PyTorch's files.
_OF_TRAINING = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
_NUMBERED = re.compile(r"(.+-)(\d{5,})(-of-)(\d{5,})(\.safetensors)")


@dataclass
class Weights:
    """``tensors`` maps names to shapes where they were asked for; ``listed`` are the names that an index has;
    ``sizes`` maps each weight file to its bytes; ``unlisted`` are files beside those; ``problems`` are files that are
    missing, truncated or no weights.
    """

    tensors: dict[str, list[int]] | None = None
    listed: list[str] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def look(folder: str, names: bool) -> Weights:
    """What there is in a folder. ``names`` asks for the tensors of every file."""
    found = Weights()
    entries = sorted(os.listdir(folder))
    shards = [name for name in entries if name.endswith(".safetensors")]
    index, problem = _index(folder, entries)
    promised: Counter[str] = Counter()
    if problem:
        found.problems.append(problem)
    if index is not None:
        found.listed = list(index)
        promised = Counter(index.values())
        wanted = sorted(promised)
    elif "model.safetensors" in shards:
        wanted = ["model.safetensors"]
    else:
        wanted = _numbered(shards)
    missing = [name for name in wanted if name not in entries]
    found.unlisted = [name for name in shards if name not in wanted]
    found.problems += [_lacks(folder, missing, len(wanted), index is not None)] if missing else []
    tensors: dict[str, list[int]] = {}
    for name in [name for name in wanted if name in entries]:
        full = os.path.join(folder, name)
        try:
            found.sizes[name] = os.stat(full).st_size
            header, problem = _header(full, found.sizes[name])
            known = _tensors(header) if names and not problem else {}
        except OSError as error:
            problem = f"{full} cannot be read: {error.strerror}" + _where_to(full)
        except ValueError as error:
            problem = f"{full} has a header that is no JSON ({error}): copy it again"
        if problem:
            found.problems.append(problem)
            continue
        tensors.update({key: list(value["shape"]) for key, value in known.items()})
        # names are compared only where the numbers already differ
        if index is not None and header.count(_OFFSETS) != promised[name]:
            found.problems += _unlisted(full, header, [tensor for tensor, holder in index.items() if holder == name])
    if not wanted:
        others = [name for name in entries if name.endswith((".bin", ".pt")) and not name.endswith(_OF_TRAINING)]
        found.sizes = {name: os.stat(os.path.join(folder, name)).st_size for name in others}
        if not others:
            inner = [name for name in entries if name.endswith(".gguf")]
            hint = f"; give the file itself, {os.path.join(folder, inner[0])}" if inner else ""
            found.problems.append(f"{folder} holds no weights (*.safetensors, *.bin, *.pt){hint}")
    if names and wanted and not found.problems:
        found.tensors = tensors
    return found


def _numbered(shards: list[str]) -> list[str]:
    """The files that there must be by their own names (``model-00001-of-00004``), where no index says so."""
    wanted = set(shards)
    for name in shards:
        match = _NUMBERED.fullmatch(name)
        if match:
            begin, number, of, count, end = match.groups()
            wanted |= {f"{begin}{n:0{len(number)}d}{of}{count}{end}" for n in range(1, int(count) + 1)}
    # some count from nought
    return sorted(wanted) if not any("-00000-of-" in name for name in shards) else shards


def _where_to(path: str) -> str:
    """Where a link points that leads nowhere."""
    return f" (it is a link to {os.readlink(path)})" if os.path.islink(path) and not os.path.exists(path) else ""


def _index(folder: str, entries: list[str]) -> tuple[dict[str, str] | None, str]:
    name = "model.safetensors.index.json"
    if name not in entries:
        return None, ""
    path = os.path.join(folder, name)
    try:
        return dict(json.loads(read_bytes(path) or b"")["weight_map"]), ""
    except (ValueError, KeyError, TypeError) as error:
        return None, f"{path} is no index of safetensors files: {type(error).__name__}: {error}"


def _header(path: str, size: int) -> tuple[bytes, str]:
    """The header of a safetensors file, and what is wrong with the file: 8 bytes of length, JSON, data to the end."""
    with open(path, "rb") as stream:
        start = stream.read(8)
        if (start + stream.read(len(LFS) - 8)).startswith(LFS):
            return b"", f"{path} is a git-lfs pointer of {size} bytes, not weights: run git lfs pull"
        if len(start) < 8:
            return b"", f"{path} has {size} bytes, which is not even a header: copy it again"
        length = struct.unpack("<Q", start)[0]
        if length > min(_LONGEST_HEADER, size - 8):
            return (
                b"",
                f"{path} is truncated inside its header: it has {size} bytes and needs {length + 8} for that alone",
            )
        stream.seek(8)
        header = stream.read(length)
    if _end(header[header.rfind(_OFFSETS) :]) == size - 8 - length:
        # The last tensor ends where the file does, as writers order them: no need to look at tens of thousands more
        return header, ""
    expected = 8 + length + _end(header)
    if expected != size:
        what = f"truncated: {expected - size} bytes are missing" if expected > size else "longer than it should be"
        return b"", f"{path} is {what} (it has {size} bytes; its header promises {expected}): copy it again"
    return header, ""


def _end(header: bytes) -> int:
    """Where the data ends, by the tensors of a header or of a part of it."""
    return max(map(int, _END.findall(header)), default=0)


def _tensors(header: bytes) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(header)
    entries.pop("__metadata__", None)
    return entries


def _unlisted(path: str, header: bytes, names: list[str]) -> list[str]:
    """Tensors that the index puts into a file that does not have them."""
    lost = sorted(set(names) - set(_tensors(header)))
    if not lost:
        return []
    return [f"{path} lacks {len(lost)} tensors that the index promises ({', '.join(lost[:3])}, …): copy both again"]


def _lacks(folder: str, missing: list[str], wanted: int, indexed: bool) -> str:
    shown = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
    names = "its index names" if indexed else "the names of the others count"
    return f"{folder} lacks {len(missing)} of the {wanted} weight files that {names}: {shown}; copy them, too"
