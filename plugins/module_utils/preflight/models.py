# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A model as its own files show it: configuration, names and shapes of its tensors, sizes. Weights are never read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..files import read_bytes
from .weights import LFS, Weights, look

#: Kinds of place that a model path can be. A file is one in GGUF; a remote one lies in an object store, say.
FOLDER, MISSING, HUB, FILE, REMOTE = "folder", "missing", "hub", "file", "remote"
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
# Where wrappers (multimodal models) keep the configuration of their language model.
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "language_model_config")
# Keys that bound the context, in the order in which SGLang asks for them (get_context_length, 0.5.7 to 0.5.23).
CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
#: What SGLang takes where a configuration says nothing, and what transformers fills in for Llama.
DEFAULT_CONTEXT = 2048


@dataclass
class Model:
    """``config`` is ``None`` where it is missing or broken, and ``config_problem`` says which."""

    path: str
    kind: str = FOLDER
    config: dict[str, Any] | None = None
    config_problem: str = ""
    weights: Weights = field(default_factory=Weights)
    #: Where the files lie (a folder of the hub's cache, say), and their names.
    folder: str = ""
    files: list[str] = field(default_factory=list)

    @property
    def architecture(self) -> str | None:
        names = (self.config or {}).get("architectures")
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None

    @property
    def tensors(self) -> dict[str, list[int]] | None:
        """Names and shapes, where they were asked for and every file is whole."""
        return self.weights.tensors

    @property
    def names(self) -> Iterable[str] | None:
        """The tensors' names as far as they are known without reading every file."""
        return self.weights.tensors if self.weights.tensors is not None else self.weights.listed

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
        return sum(self.weights.sizes.values())

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


def read(
    path: str,
    environment: Mapping[str, str],
    names: bool = False,
    *,
    revision: str | None = None,
    override: Mapping[str, Any] | None = None,
) -> Model:
    """The model at ``path``: a folder, a file, or the name of a repository of the hub that may lie in the unit's cache.

    ``environment`` is the unit's (``HOME``, ``HF_HOME``, ``HF_HUB_CACHE``). ``names`` asks for the tensors.
    ``override`` replaces keys of the configuration, as ``json_model_override_args`` does.
    """
    if os.path.isdir(path):
        return _folder(path, path, names, override)
    if os.path.isfile(path):
        return Model(path, FILE if _is_gguf(path) else MISSING)
    if "://" in path:
        return Model(path, REMOTE)
    if os.path.lexists(path) or not _HUB_ID.fullmatch(path):
        return Model(path, MISSING)
    snapshot = _cached(path, environment, revision or "main")
    return Model(path, HUB) if snapshot is None else _folder(path, snapshot, names, override)


def _is_gguf(path: str) -> bool:
    with open(path, "rb") as stream:
        return path.endswith(".gguf") or stream.read(4) == b"GGUF"


def _cached(name: str, environment: Mapping[str, str], revision: str) -> str | None:
    """The folder of the hub's cache that holds a revision (a branch, a tag or a commit), or ``None``."""
    home = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "/"), ".cache"), "huggingface"
    )
    cache = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    base = os.path.join(cache, "models--" + name.replace("/", "--"))
    commit = (read_bytes(os.path.join(base, "refs", revision)) or b"").decode("ascii", "replace").strip()
    snapshot = os.path.join(base, "snapshots", commit or revision)
    return snapshot if os.path.isdir(snapshot) else None


def _folder(path: str, folder: str, names: bool, override: Mapping[str, Any] | None) -> Model:
    model = Model(path, folder=folder, files=sorted(os.listdir(folder)))
    model.config, model.config_problem = _config(folder)
    if model.config is not None and override:
        model.config = {**model.config, **override}
    model.weights = look(folder, names)
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
        what = "a git-lfs pointer (run git lfs pull)" if raw.startswith(LFS) else f"not valid JSON: {error}"
        return None, f"{path} is {what}"
    return (config, "") if isinstance(config, dict) else (None, f"{path} is not a JSON object")
