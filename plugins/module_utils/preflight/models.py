# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A model as its own files show it: configuration, names and shapes of its tensors, sizes. Weights are never read."""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..files import read_bytes

#: Kinds of place that a model path can be.
FOLDER, MISSING, HUB = "folder", "missing", "hub"
_LFS = b"version https://git-lfs"
# The format's own limit for a header (safetensors, "Format").
_LONGEST_HEADER = 100_000_000
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_OFFSETS = b'"data_offsets"'
_END = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d+)')
# Where wrappers (multimodal models) keep the configuration of their language model.
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "language_model_config")
# Keys that bound the context, in the order in which SGLang asks for them (get_context_length, 0.5.7 to 0.5.23).
CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
#: What SGLang takes where a configuration says nothing, and what transformers fills in for Llama.
DEFAULT_CONTEXT = 2048


@dataclass
class Model:
    """``config`` is ``None`` where it is missing or broken, and ``config_problem`` says which.

    ``tensors`` maps names to shapes where they were asked for; ``sizes`` maps each weight file to its bytes;
    ``problems`` are files that are missing, truncated or no weights at all, in words.
    """

    path: str
    kind: str = FOLDER
    config: dict[str, Any] | None = None
    config_problem: str = ""
    tensors: dict[str, list[int]] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def architecture(self) -> str | None:
        names = (self.config or {}).get("architectures") or [None]
        return names[0] if isinstance(names, list) else None

    @property
    def text(self) -> dict[str, Any]:
        """The configuration of the language model itself."""
        config = self.config or {}
        thinker = config.get("thinker_config")
        for outer in (config, thinker if isinstance(thinker, dict) else {}):
            for name in _TEXT_CONFIGS:
                if isinstance(outer.get(name), dict):
                    return dict(outer[name])
        return config

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def context_length(self) -> int | None:
        """The context that SGLang derives; ``None`` where there is no configuration."""
        if self.config is None:
            return None
        text = self.text
        factor = 1.0
        scaling = text.get("rope_scaling")
        if isinstance(scaling, dict) and scaling:
            known = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
            factor = 1.0 if known else float(scaling.get("factor", 1) or 1)
        for key in CONTEXT_KEYS:
            if text.get(key) is not None:
                return int(factor * text[key])
        return DEFAULT_CONTEXT


def read(path: str, environment: Mapping[str, str], names: bool = False) -> Model:
    """The model at ``path``: a folder, or the name of a repository of the hub that may lie in the unit's cache.

    ``environment`` is the unit's (``HOME``, ``HF_HOME``, ``HF_HUB_CACHE``). ``names`` asks for the tensors.
    """
    if not os.path.isdir(path):
        if not _HUB_ID.fullmatch(path) or os.path.exists(path):
            return Model(path, MISSING)
        snapshot = _cached(path, environment)
        if snapshot is None:
            return Model(path, HUB)
        return _folder(path, snapshot, names)
    return _folder(path, path, names)


def _cached(name: str, environment: Mapping[str, str]) -> str | None:
    """The folder of the hub's cache that holds the repository's main revision, or ``None``."""
    home = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "/"), ".cache"), "huggingface"
    )
    cache = environment.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    base = os.path.join(cache, "models--" + name.replace("/", "--"))
    revision = (read_bytes(os.path.join(base, "refs", "main")) or b"").decode("ascii", "replace").strip()
    snapshot = os.path.join(base, "snapshots", revision)
    return snapshot if revision and os.path.isdir(snapshot) else None


def _folder(path: str, folder: str, names: bool) -> Model:
    model = Model(path)
    model.config, model.config_problem = _config(folder)
    entries = sorted(os.listdir(folder))
    shards = [name for name in entries if name.endswith(".safetensors")]
    index, problem = _index(folder, entries)
    promised: Counter[str] = Counter()
    if problem:
        model.problems.append(problem)
    if index is not None:
        promised = Counter(index.values())
        wanted = sorted(promised)
        missing = [name for name in wanted if name not in entries]
        model.problems += [_lacks(folder, missing, len(wanted))] if missing else []
        shards = [name for name in wanted if name in entries]
    elif any(name == "model.safetensors" for name in shards):
        shards = ["model.safetensors"]
    found: dict[str, list[int]] = {}
    for name in shards:
        full = os.path.join(folder, name)
        model.sizes[name] = os.stat(full).st_size
        header, problem = _header(full, model.sizes[name])
        if problem:
            model.problems.append(problem)
            continue
        if names:
            found.update({key: list(value["shape"]) for key, value in _tensors(header).items()})
        # names are compared only where the numbers already differ
        if index is not None and header.count(_OFFSETS) != promised[name]:
            model.problems += _unlisted(full, header, [tensor for tensor, holder in index.items() if holder == name])
    if not shards:
        others = [name for name in entries if name.endswith((".bin", ".pt", ".pth", ".gguf"))]
        model.sizes = {name: os.stat(os.path.join(folder, name)).st_size for name in others}
        if not others:
            model.problems.append(f"{folder} holds no weights (*.safetensors, *.bin, *.pt, *.gguf)")
    if names and shards and not model.problems:
        model.tensors = found
    return model


def _config(folder: str) -> tuple[dict[str, Any] | None, str]:
    path = os.path.join(folder, "config.json")
    try:
        raw = read_bytes(path)
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    if raw is None:
        return None, f"{path} does not exist"
    try:
        config = json.loads(raw)
    except ValueError as error:
        what = "a git-lfs pointer (run git lfs pull)" if raw.startswith(_LFS) else f"not valid JSON: {error}"
        return None, f"{path} is {what}"
    return (config, "") if isinstance(config, dict) else (None, f"{path} is not a JSON object")


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
        if (start + stream.read(len(_LFS) - 8)).startswith(_LFS):
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


def _lacks(folder: str, missing: list[str], wanted: int) -> str:
    shown = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
    return f"{folder} lacks {len(missing)} of the {wanted} weight files that its index names: {shown}"
