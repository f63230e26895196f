# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Runs in the build's interpreter: what the installed sources say of one instance. Nothing of SGLang is imported."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import sysconfig
from typing import Any

from ..build.cuda import cuda_major, on_purpose
from ..build.installed import distributions
from ..build.snapshot import normalise
from .source import attention, drafts, facts, interface
from .source.classes import Classes
from .source.package import Found, Sources
from .source.uses import DRAFT, TARGET, Use

#: Algorithms that draft with the target's hidden states, and all that draft with a model.
EAGLES = ("EAGLE", "EAGLE3")
DRAFTED = (*EAGLES, "STANDALONE")
_CAPTURE = "set_eagle3_layers_to_capture"


def describe(payload: dict[str, Any]) -> dict[str, Any]:
    """Facts for an instance, as JSON values.

    ``payload``: ``root`` (where the package lies; ``null``: wherever this interpreter finds it), ``target`` and
    ``draft`` (names of architectures, or ``null``), ``algorithm`` (``null`` without speculation), ``options`` (by
    destination), ``automatic`` (whether the release chooses steps, topk and draft tokens) and ``overlap`` (whether
    the speculative worker runs overlapped; ``null``: not known).

    ``torch_cuda``, ``cuda_packages`` and ``flashinfer`` are read from the names of what is installed (see
    ``installed``). ``models`` is false where the package has no models at all: then nothing can be said of classes.
    """
    sources = Sources(payload.get("root") or _root())
    found: dict[str, Any] = {
        "root": sources.root,
        "release": facts.release(sources),
        "models": sources.path(interface.MODELS) is not None
        or os.path.isdir(os.path.join(sources.root, *interface.MODELS.split("."))),
        "broken": None,
        **installed(_site_packages()),
    }
    if not found["models"]:
        return found
    # Syntax trees are a million objects that all stay: looking for garbage among them takes a third of the time.
    gc.disable()
    try:
        found.update(_facts(sources, payload))
    except SyntaxError as error:
        found["broken"] = f"{error.filename}:{error.lineno}: {error.msg}"
    finally:
        gc.enable()
    return found


def installed(folder: str) -> dict[str, Any]:
    """What the names of the installed packages tell: CUDA majors, flashinfer's versions, the CUDA of torch.

    A package for another major than torch's counts only where the one that asks for it does not have both on purpose.
    """
    majors: dict[str, list[str]] = {}
    flashinfer: dict[str, str] = {}
    torch_cuda = None
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", entry)
        if not match:
            continue
        name, version = normalise(match.group(1)), match.group(2)
        major = cuda_major(name, version)
        if major:
            majors.setdefault(major, []).append(f"{name} {version}")
        if name.startswith("flashinfer-"):
            flashinfer[name] = version
        if name == "torch":
            torch_cuda = _cuda_of_torch(folder)
    if torch_cuda and len(majors) > 1:
        majors = _without_those_on_purpose(majors, torch_cuda.partition(".")[0], folder)
    return {"cuda_packages": majors, "flashinfer": flashinfer, "torch_cuda": torch_cuda}


def _without_those_on_purpose(majors: dict[str, list[str]], wanted: str, folder: str) -> dict[str, list[str]]:
    found = distributions(folder, "")
    kept = {
        major: [entry for entry in entries if major == wanted or not on_purpose(entry.split()[0], wanted, found)]
        for major, entries in majors.items()
    }
    return {major: entries for major, entries in kept.items() if entries}


def _cuda_of_torch(folder: str) -> str | None:
    with open(os.path.join(folder, "torch", "version.py"), encoding="utf-8") as stream:
        match = re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", stream.read(), re.MULTILINE)
    return match.group(1) if match else None


def _site_packages() -> str:
    return sysconfig.get_paths()["purelib"]


def _root() -> str:
    spec = importlib.util.find_spec("sglang")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    if not places:
        raise ImportError("there is no package named sglang in this environment")
    return os.path.dirname(places[0])


def _facts(sources: Sources, payload: dict[str, Any]) -> dict[str, Any]:
    target = interface.registered(sources, payload["target"]) if payload["target"] else None
    found: dict[str, Any] = {
        "target_class": _class(sources, target),
        "draft_class": None,
        "fusion": facts.fusion_capabilities(sources),
        "flashinfer_fusion": facts.flashinfer_fusion_capabilities(sources),
        "symmetric_memory": facts.symmetric_memory(sources),
        "captures_before_allreduce": None,
        "hides_keys": facts.hides_keys(sources),
        "attention": attention.rules(sources),
        "quantization": facts.quantization(sources) if payload.get("quantization") else None,
    }
    algorithm = payload["algorithm"]
    if algorithm is None:
        return found
    found["algorithms"] = drafts.algorithms(sources)
    found["on_cpu"] = drafts.on_cpu(sources)
    if algorithm not in DRAFTED:
        return found
    classes = Classes(sources)
    draft = _draft(sources, classes, payload, found)
    if algorithm in EAGLES:
        names = {} if payload.get("overlap") is None else {"enable_overlap": payload["overlap"]}
        needed = interface.uses(sources, classes, algorithm, payload["options"], names)
        for owner, model in ((TARGET, target), (DRAFT, draft)):
            if model is not None:
                found[f"{owner}_interface"] = interface.judge(classes.view(model), needed, classes, owner)
        found["captures_defaults"] = [_site(use) for use in needed if _without_ids(use)]
    if target is not None:
        found["captures_before_allreduce"] = _captures(sources, classes, target)
        # reads the largest file there is, so only where somebody left something out
        if payload["automatic"]:
            found["automatic"] = facts.automatic_speculation(sources, payload["target"], algorithm)
    found["draft_backends"] = facts.draft_backends(sources)
    found["mla_verify_masked"] = facts.mla_verify_masked(sources)
    found["page_tree_backends"] = facts.page_tree_backends(sources)
    return found


def _draft(sources: Sources, classes: Classes, payload: dict[str, Any], found: dict[str, Any]) -> Found | None:
    """The class of the draft, described in ``found``: that of its folder, or the one for the target's own layers."""
    named = payload["draft"] or (payload["target"] if payload["algorithm"] == "EAGLE" else None)
    own = drafts.own_draft(sources, named) if named and "Eagle" not in named else None
    if not payload["draft"]:
        listed = payload["algorithm"] == "EAGLE" and facts.draft_from_target(sources, payload["target"])
        found["draft_from_target"] = own is not None or listed
    found["draft_layers_counted"] = own is None or own.counted
    architecture = own.architecture if own is not None else payload["draft"]
    if not architecture:
        return None
    draft = interface.registered(sources, architecture)
    found["draft_architecture"] = architecture
    found["draft_class"] = _class(sources, draft)
    if draft is None:
        found["draft_classes"] = interface.draft_classes(sources)
        return None
    view = classes.view(draft)
    found["draft_class"].update(
        takes_hidden_states=drafts.takes_hidden_states(sources, view),
        single_layer_only=drafts.single_layer_only(draft),
        checks_head=view.has("watch_for_lm_head") is True,
        counts_aux_layers=drafts.counts_aux_layers(sources, draft),
        asks_for_vocabulary=drafts.asks_for_vocabulary(sources, draft),
    )
    return draft


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
