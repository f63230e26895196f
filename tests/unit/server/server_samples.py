"""Instances, environments and option schemas for tests of the server's parts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.server.environment import Environment
from ansible_collections.inferops.sglang.plugins.module_utils.server.spec import INSTANCE_OPTIONS

HERE = Path(__file__).resolve().parent


def schema(release: str) -> dict[str, Any]:
    """What ``options.dump`` returned for the real release."""
    found: dict[str, Any] = json.loads((HERE / f"options-{release}.json").read_text())
    return found


def instance(**given: Any) -> dict[str, Any]:
    """An instance as a module gets it: every option is there."""
    defaults = {name: copy.deepcopy(option.get("default")) for name, option in INSTANCE_OPTIONS.items()}
    speculative = given.pop("speculative", None)
    if speculative is not None:
        options = INSTANCE_OPTIONS["speculative"]["options"]
        speculative = {**{name: option.get("default") for name, option in options.items()}, **speculative}
    return {
        **defaults,
        "name": "kimi",
        "model_path": "/shared/kimi",
        "agent": {"version": "0123456789abcdef"},
        "build": {"build_id": "lock-000000000000", "environment": {}},
        "speculative": speculative,
        **given,
    }


def environment(release: str = "0.5.9", **given: Any) -> Environment:
    root = "/opt/sglang/builds/lock-000000000000.1"
    values = {
        "python": f"{root}/bin/python",
        "root": root,
        "release": release,
        "cuda": "13.0",
        "schema": schema(release),
        "build_id": "lock-000000000000",
    }
    return Environment(**{**values, **given})


def make_build(build_id: str, number: int, release: str = "0.5.9") -> dict[str, Any]:
    """Seal an empty build where ``layout`` says; what an instance carries of it."""
    root = Path(layout.BUILDS) / f"{build_id}.{number}"
    root.mkdir(parents=True)
    (root / "options.json").write_text(json.dumps(schema(release)))
    manifest = {
        "build_id": build_id, "n": number, "lock": {"release": release, "cuda": None}, "path": str(root),
        "site_packages": "lib/python3.11/site-packages", "packages": {}, "patches": [],
    }  # fmt: skip
    (root / "manifest.json").write_text(json.dumps(manifest))
    return {"build_id": build_id, "environment": {}, "release": release}
