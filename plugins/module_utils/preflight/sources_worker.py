# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Runs in the build's interpreter: what the installed sources say of one instance. Nothing of SGLang is imported."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from .source import facts, interface
from .source.classes import Classes
from .source.flow import DRAFT, TARGET, Use
from .source.package import Found, Sources

_CAPTURE = "set_eagle3_layers_to_capture"


def describe(payload: dict[str, Any]) -> dict[str, Any]:
    """Facts for an instance, as JSON values.

    ``payload``: ``root`` (where the package lies; ``null``: wherever this interpreter finds it), ``target`` and
    ``draft`` (names of architectures, or ``null``), ``algorithm`` (``null`` without speculation), ``options`` (by
    destination) and ``overlap`` (whether the speculative worker runs overlapped; ``null``: not known).

    ``models`` is false where the installed package has no models at all: then nothing can be said of classes.
    """
    sources = Sources(payload.get("root") or _root())
    found: dict[str, Any] = {
        "root": sources.root,
        "release": facts.release(sources),
        "models": sources.path(interface.MODELS) is not None
        or os.path.isdir(os.path.join(sources.root, *interface.MODELS.split("."))),
        "broken": None,
    }
    if not found["models"]:
        return found
    try:
        found.update(_facts(sources, payload))
    except SyntaxError as error:
        found["broken"] = f"{error.filename}:{error.lineno}: {error.msg}"
    return found


def _root() -> str:
    spec = importlib.util.find_spec("sglang")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    if not places:
        raise ImportError("there is no package named sglang in this environment")
    return os.path.dirname(places[0])


def _facts(sources: Sources, payload: dict[str, Any]) -> dict[str, Any]:
    target = interface.registered(sources, payload["target"]) if payload["target"] else None
    draft = interface.registered(sources, payload["draft"]) if payload["draft"] else None
    found: dict[str, Any] = {
        "target_class": _class(sources, target),
        "draft_class": _class(sources, draft),
        "fusion": facts.fusion_capabilities(sources),
        "flashinfer_fusion": facts.flashinfer_fusion_capabilities(sources),
        "symmetric_memory": facts.symmetric_memory(sources),
        "captures_before_allreduce": None,
    }
    algorithm = payload["algorithm"]
    if algorithm is None:
        return found
    classes = Classes(sources)
    names = {} if payload.get("overlap") is None else {"enable_overlap": payload["overlap"]}
    needed = interface.uses(sources, classes, algorithm, payload["options"], names)
    for owner, model in ((TARGET, target), (DRAFT, draft)):
        if model is not None:
            found[f"{owner}_interface"] = interface.judge(classes.view(model), needed, classes, owner)
    if draft is not None:
        found["draft_class"]["single_layer_only"] = facts.single_layer_only(draft)
        found["draft_class"]["counts_aux_layers"] = facts.counts_aux_layers(sources, draft)
    if target is not None:
        found["captures_before_allreduce"] = _captures(sources, classes, target)
        found["automatic"] = facts.automatic_speculation(sources, payload["target"])
        found["draft_from_target"] = facts.draft_from_target(sources, payload["target"])
    found["captures_defaults"] = [_site(use) for use in needed if _without_ids(use)]
    found["draft_backends"] = facts.draft_backends(sources)
    found["mla_verify_masked"] = facts.mla_verify_masked(sources)
    found["page_tree_backends"] = facts.page_tree_backends(sources)
    return found


def _class(sources: Sources, found: Found | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"name": found.node.name, "path": sources.relative(found.module), "line": found.node.lineno}


def _captures(sources: Sources, classes: Classes, target: Found) -> str | None:
    """In the target's own module, or in that of a model that it is made of."""
    for found in [target, *interface.parts(classes.view(target), classes)]:
        where = facts.captures_before_allreduce(sources, found)
        if where is not None:
            return where
    return None


def _without_ids(use: Use) -> bool:
    """A call that captures the default layers, whatever the draft asks for: graphs are recorded with it."""
    called = use.call is not None and not use.call.positional and not use.call.keywords and not use.call.starred
    return called and use.owner == TARGET and use.name == _CAPTURE and "graph" in use.path


def _site(use: Use) -> str:
    return f"{use.path}:{use.line}"
