# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Whether an instance speculates: its policy, and for ``measured`` what a benchmark on this host has found.

The verdict is an input of every plan, so it is kept on the host and counts only for what it was measured on.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping
from typing import Any

from .. import layout
from ..files import read_json, read_text, sha256, write_atomic
from .environment import Environment
from .spec import ALWAYS, MEASURED

GPU_INFORMATION = "/proc/driver/nvidia/gpus/*/information"


def speculate(instance: Mapping[str, Any], environment: Environment) -> bool:
    """Whether the server is to speculate. Without a verdict that counts, it does."""
    speculative = instance.get("speculative")
    if not speculative:
        return False
    if speculative["policy"] != MEASURED:
        return bool(speculative["policy"] == ALWAYS)
    kept = read(instance, environment)
    return True if kept is None else bool(kept["speculate"])


def read(instance: Mapping[str, Any], environment: Environment) -> dict[str, Any] | None:
    """The verdict for exactly this instance: ``speculate``, ``ratio`` and ``at``; ``None`` where there is none."""
    kept: dict[str, Any] | None = read_json(path(instance["name"]), "key", "speculate", "ratio")
    return kept if kept is not None and kept["key"] == key(instance, environment) else None


def write(instance: Mapping[str, Any], environment: Environment, *, speculate: bool, ratio: float) -> bool:
    """Keep a verdict; ``ratio`` is the speed with speculation over that without. Whether it is news."""
    old = read(instance, environment)
    if old is not None and (old["speculate"], old["ratio"]) == (speculate, ratio):
        return False
    import json

    entry = {"key": key(instance, environment), "speculate": speculate, "ratio": ratio, "at": int(time.time())}
    os.makedirs(layout.Instance(instance["name"]).root, mode=0o755, exist_ok=True)
    write_atomic(path(instance["name"]), (json.dumps(entry, sort_keys=True) + "\n").encode())
    return True


def path(name: str) -> str:
    return os.path.join(layout.Instance(name).root, "verdict.json")


def key(instance: Mapping[str, Any], environment: Environment) -> str:
    """What a verdict depends on: the build, the options, the environment, the models, the GPUs and their driver."""
    import json

    value = {name: instance.get(name) for name in ("model_path", "speculative", "args", "env", "gpus")}
    value["environment"] = [environment.root if environment.build_id is None else environment.build_id]
    value["gpu"] = [_model(read_text(file)) for file in sorted(glob.glob(GPU_INFORMATION))]
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())[:16]


def _model(information: str | None) -> str:
    """The line that names the card's model; the rest holds addresses and interrupt numbers, which may change."""
    lines = (information or "").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Model")), "")
