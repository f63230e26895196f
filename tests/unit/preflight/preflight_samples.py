"""Facts for tests of preflight: real releases' sources, made-up model folders, recorded or made-up hosts."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.preflight import check, gather, run, sources_worker
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.facts import Facts, Host
from ansible_collections.inferops.sglang.plugins.module_utils.server.environment import Environment
from ansible_collections.inferops.sglang.plugins.module_utils.server.spec import INSTANCE_OPTIONS
from releases import release_tree

SERVER = Path(__file__).resolve().parent.parent / "server"
GIB = 1 << 30


def schema(release: str) -> dict[str, Any]:
    """What ``options.dump`` returned for the real release, or for the nearest one that was recorded."""
    known = "0.5.9" if release in ("0.5.7", "0.5.8", "0.5.9", "0.5.10", "0.5.11") else "0.5.23"
    found: dict[str, Any] = json.loads((SERVER / f"options-{known}.json").read_text())
    return found


def instance(**given: Any) -> dict[str, Any]:
    """An instance as a module gets it: every option is there."""
    defaults = {name: copy.deepcopy(option.get("default")) for name, option in INSTANCE_OPTIONS.items()}
    speculative = given.pop("speculative", None)
    if speculative is not None:
        options = INSTANCE_OPTIONS["speculative"]["options"]
        speculative = {**{name: option.get("default") for name, option in options.items()}, **speculative}
    return {**defaults, "name": "kimi", "build": {"build_id": "x"}, "speculative": speculative, **given}


def facts(described: dict[str, Any], tree: Path | None, release: str = "0.5.9", **host: Any) -> Facts:
    """Facts on the sources of ``tree``; without one, as before the build exists."""
    environment = None
    if tree is not None:
        environment = Environment("/none/bin/python", "/none", release, "13.0", schema(release), build_id="x")
    found = gather.described(described, environment)
    if tree is not None:
        # no test here sets an option that the sources are read by: the same question is asked once
        given = {"root": str(tree), "options": {}, "automatic": True, "overlap": None}
        payload = {**gather.sources_payload(found), **given}
        found.sources = copy.deepcopy(sources(json.dumps(payload, sort_keys=True)))
    found.host = quiet_host(found, **host)
    return found


@functools.cache
def sources(payload: str) -> dict[str, Any]:
    """What the sources say to a question, as JSON; each is asked once."""
    return sources_worker.describe(json.loads(payload))


def quiet_host(found: Facts, **changes: Any) -> Host:
    """A host on which nothing is wrong: eight RTX PRO 6000 on PCIe (compute capability 12.0)."""
    values: dict[str, Any] = {
        "gpus": gpus(8, "12.0", 97887 << 20),
        "memory": 1024 * GIB,
        "shm": 64 * GIB,
        "folders": {path: {"type": "ext4", "writable": True} for path in _folders(found)},
        "programs": {name: f"/usr/bin/{name}" for name in ("nvcc", "ninja", "g++")},
        "cuda_home": {"folder": True, "nvcc": True},
    }
    return Host(**{**values, **changes})


def gpus(count: int, capability: str, memory: int, interconnect: str = "pcie", **changes: Any) -> dict[str, Any]:
    card = {"compute_capability": capability, "memory_total": memory, "processes": [], "held_elsewhere": []}
    return {
        "gpus": [{**copy.deepcopy(card), "index": n, "uuid": f"GPU-0000000{n}", **changes} for n in range(count)],
        "problems": [],
        "driver_version": "580.95.05",
        "container": "lxc",
        "topology": {"interconnect": interconnect},
        "nvidia_smi_error": None,
        "device_nodes": [],
    }


def _folders(found: Facts) -> list[str]:
    return [
        value for name, value in found.variables.items() if name == "HOME" or "CACHE" in name or "WORKSPACE" in name
    ]


def named(found: Facts, acknowledged: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The findings that are not in order, by name."""
    checks = check.run(run.TABLE, found, acknowledged)
    return {entry["name"]: entry for entry in checks if not entry["ok"]}


def results(found: Facts) -> dict[str, dict[str, Any]]:
    """Every finding by name, in order or not."""
    return {entry["name"]: entry for entry in check.run(run.TABLE, found, ())}


def kimi(target: Path, draft: Path, **changes: Any) -> dict[str, Any]:
    """The instance of ``inventories/rtx-pro-6000-8x``, on other folders."""
    described: dict[str, Any] = {
        "name": "kimi",
        "model_path": str(target),
        "speculative": {
            "policy": "always",
            "algorithm": "EAGLE3",
            "draft_model_path": str(draft),
            "num_steps": 2,
            "eagle_topk": 4,
            "num_draft_tokens": 16,
        },
        "args": {
            "tp_size": 8,
            "trust_remote_code": True,
            "cuda_graph_max_bs": 128,
            "disable_custom_all_reduce": True,
            "attention_backend": "flashinfer",
            "enable_flashinfer_allreduce_fusion": True,
            "mem_fraction_static": 0.88,
        },
        "env": {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
        "api_key": "sk-planted",
    }
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(described.get(key), dict):
            described[key] = {**described[key], **value}
        else:
            described[key] = value
    return instance(**described)


def llama(target: Path, draft: Path | None, **changes: Any) -> dict[str, Any]:
    """A Llama target with an EAGLE-3 draft; nothing is wrong with it unless ``changes`` make it so."""
    speculative = {"draft_model_path": str(draft) if draft else None, "num_steps": 3, "eagle_topk": 1}
    speculative.update({"num_draft_tokens": 4, **changes.pop("speculative", {})})
    args = {"attention_backend": "flashinfer", "disable_custom_all_reduce": True, **changes.pop("args", {})}
    return instance(**{"name": "llama", "model_path": str(target), "speculative": speculative, "args": args, **changes})


def check_llama(target: Path, draft: Path | None, release: str = "0.5.9", **changes: Any) -> dict[str, dict[str, Any]]:
    found = named(facts(llama(target, draft, **changes), release_tree(release), release))
    # for the tables of 0.5.9, which lack this card: known, and no matter of these tests
    found.pop("symmetric_memory", None)
    found.pop("eagle3_aux_after_allreduce", None)
    return found
