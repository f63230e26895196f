# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The interface check: has the model class everything that the speculative path of its release asks of it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from .classes import INSTANCE_ATTRIBUTE, METHOD, Classes, ClassView, Member
from .conditions import SPEC_INFO, configuration, evaluate
from .flow import Flow
from .package import Found, Function, FunctionNode, Imported, Module, Sources, dotted
from .uses import TARGET, Shape, Use

MODELS = "sglang.srt.models"
_SPECULATIVE = "sglang.srt.speculative"
_MODEL_EXECUTOR = "sglang.srt.model_executor"
_RUNNER = "sglang.srt.model_executor.model_runner"
# Files of the model executor that can matter: they touch a model, and know of speculation.
_MATTERS = re.compile(r"eagle|spec_algorithm|speculative")
_TOUCHES = re.compile(r"\bmodel\.(?!config)[a-z_]+|\bmodel\s*,\s*\"|=\s*[\w.]+\.model\b")
_IS_EAGLE = ast.parse("self.is_eagle()", mode="eval").body
_OTHER_DEVICES = re.compile(r"npu|hpu|xpu|mlx")


def registered(sources: Sources, architecture: str) -> Found | None:
    """The class that the release's registry gives for an architecture's name (``EntryClass`` of a model module)."""
    word = re.compile(rf"\b{re.escape(architecture)}\b")
    for name in sources.modules_below(MODELS):
        if not word.search(sources.text(name)):
            continue
        module = sources.module(name)
        for found in entry_classes(sources, module) if module is not None else []:
            if found.node.name == architecture:
                return found
    return None


def draft_classes(sources: Sources) -> list[str]:
    """The names of the classes for EAGLE drafts that the release's registry has."""
    names: set[str] = set()
    for name in sources.modules_below(MODELS):
        module = sources.module(name) if "Eagle" in sources.text(name) else None
        names.update(found.node.name for found in (entry_classes(sources, module) if module is not None else []))
    return sorted(name for name in names if "Eagle" in name)


def entry_classes(sources: Sources, module: Module) -> list[Found]:
    """The classes that a model module registers."""
    names: list[str] = []
    for value in module.bindings.get("EntryClass", []):
        elements = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        names += [dotted(element) for element in elements if isinstance(element, ast.expr)]
    return [found for name in names if name for found in sources.resolve(module, name)]


def uses(
    sources: Sources,
    classes: Classes,
    algorithm: str,
    options: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] | None = None,
) -> list[Use]:
    """Everything that the speculative path asks of the target and draft model, in this release and configuration."""
    aux = algorithm == "EAGLE3"
    flags = {
        "is_draft_worker": False,
        "eagle_use_aux_hidden_state": aux,
        "use_aux_hidden_state": aux,
        "dflash_use_aux_hidden_state": False,
        "is_dspark": False,
        **(names or {}),
    }
    settings = {"enable_multi_layer_eagle": False, **(options or {})}
    known = configuration(sources, algorithm, settings, flags)
    off = {**flags, "eagle_use_aux_hidden_state": False, "use_aux_hidden_state": False}
    without = configuration(sources, "NONE", settings, off)
    flow = Flow(sources, classes, known, without)
    for worker in workers(sources, flow):
        for found in _surroundings(sources, worker):
            flow.analyze_class(found)
    runner = sources.module(_RUNNER)
    for found in sources.resolve(runner, "ModelRunner") if runner is not None else []:
        flow.analyze_class(found)
        for base in classes.view(found).bases:
            flow.analyze_class(base)
    for name in sources.modules_below(_MODEL_EXECUTOR):
        text = sources.text(name) if name != _RUNNER and not _OTHER_DEVICES.search(name) else ""
        if _MATTERS.search(text) and _TOUCHES.search(text):
            module = sources.module(name)
            for node in module.tree.body if module is not None else []:
                if isinstance(node, ast.ClassDef) and module is not None:
                    flow.analyze_class(Found(module, node))
    return [use for use in flow.uses if use.speculative]


def workers(sources: Sources, flow: Flow) -> list[Found]:
    """The worker classes that ``SpeculativeAlgorithm.create_worker`` may return for the configuration.

    Where a release registers them otherwise (0.5.7), those of the files that have always held EAGLE's workers.
    """
    module = sources.module(SPEC_INFO)
    found: list[Found] = []
    for algorithm in sources.resolve(module, "SpeculativeAlgorithm") if module is not None else []:
        for item in algorithm.node.body:
            if isinstance(item, Function) and item.name == "create_worker" and module is not None:
                local = module.imports(item.body)
                for name in _returned(item.body, flow):
                    found += [hit for hit in sources.resolve(module, name, local) if isinstance(hit.node, ast.ClassDef)]
    if not found and evaluate(_IS_EAGLE, flow.known, lambda dummy: False):
        for name in ("eagle_worker", "eagle_worker_v2"):
            held = sources.module(f"{_SPECULATIVE}.{name}")
            for node in held.tree.body if held is not None else []:
                if isinstance(node, ast.ClassDef) and held is not None:
                    found.append(Found(held, node))
    return found


def _returned(body: list[ast.stmt], flow: Flow) -> list[str]:
    """The names that a body may return, branches that the configuration excludes left out."""
    names: list[str] = []
    for node in body:
        if isinstance(node, ast.If):
            verdict = evaluate(node.test, flow.known, lambda dummy: False)
            if verdict is not False:
                names += _returned(node.body, flow)
            if verdict is not True:
                names += _returned(node.orelse, flow)
            elif _ends(node.body):
                break
        elif isinstance(node, ast.Return):
            names += [dotted(node.value)] if dotted(node.value) else []
            break
    return names


def _ends(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


def _surroundings(sources: Sources, worker: Found) -> list[Found]:
    """The worker's module's classes, and the speculative classes that this module imports."""
    module = worker.module
    found = [Found(module, node) for node in module.tree.body if isinstance(node, ast.ClassDef)]
    for name, bindings in module.bindings.items():
        if any(isinstance(b, Imported) and b.module.startswith(_SPECULATIVE) for b in bindings):
            found += [hit for hit in sources.resolve(module, name) if isinstance(hit.node, ast.ClassDef)]
    return found


def judge(view: ClassView, needed: list[Use], classes: Classes, owner: str = TARGET) -> dict[str, Any]:
    """What of the needed names a class lacks, takes in another form, or hands on to a class that lacks it.

    Returns ``missing`` (name -> call sites), ``mismatched`` (name -> why) and ``unknown`` (names that an open class
    may or may not have, with the reasons).
    """
    missing: dict[str, list[str]] = {}
    mismatched: dict[str, str] = {}
    unknown: set[str] = set()
    for use in needed:
        if use.owner != owner or not use.certain or any(view.has(name) for name in use.unless):
            continue
        there = view.has(use.name)
        if there is None:
            unknown.add(use.name)
        elif not there:
            missing.setdefault(use.name, []).append(f"{use.path}:{use.line} in {use.function}")
        elif use.name in view.members and use.call is not None:
            member = view.members[use.name][0]
            why = _does_not_fit(member, use.call) if member.kind == METHOD else ""
            if why:
                mismatched.setdefault(use.name, f"{why} ({use.path}:{use.line} in {use.function})")
    for name in sorted({use.name for use in needed if use.owner == owner and use.certain} - set(missing)):
        why = _hands_on(view, name, classes, set())
        if why:
            mismatched.setdefault(name, why)
    return {"missing": missing, "mismatched": mismatched, "unknown": sorted(unknown), "open": view.open}


def _does_not_fit(member: Member, call: Shape) -> str:
    """Why a call would end in a ``TypeError``; empty where it would not."""
    if member.node is None or call.starred or member.node.decorator_list:
        return ""
    arguments = member.node.args
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]][1:]
    optional = len(arguments.defaults)
    required = names[: len(names) - optional] if optional else names
    if call.positional > len(names) and arguments.vararg is None:
        return f"{member.owner}.{member.name} takes {len(names)} arguments and is called with {call.positional}"
    unmet = [name for name in required[call.positional :] if name not in call.keywords]
    unmet += [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
        if default is None and argument.arg not in call.keywords
    ]
    if unmet:
        return f"{member.owner}.{member.name} requires {', '.join(unmet)}, and is called without"
    unknown = [name for name in call.keywords if name not in names + [a.arg for a in arguments.kwonlyargs]]
    if unknown and arguments.kwarg is None:
        return f"{member.owner}.{member.name} knows no argument {', '.join(unknown)}"
    return ""


def _hands_on(view: ClassView, name: str, classes: Classes, seen: set[tuple[str, str]]) -> str:
    """Follow a method that only delegates (``self.language_model.name(…)``): why its delegate cannot answer."""
    member = next(iter(view.members.get(name, [])), None)
    if member is None or member.node is None or (view.name, name) in seen:
        return ""
    seen.add((view.name, name))
    for node in ast.walk(member.node):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        parts = dotted(node.func).split(".")
        if len(parts) != 3 or parts[0] != "self":
            continue
        delegates = _classes_of(view, parts[1], classes)
        answers = [delegate.has(parts[2]) for delegate in delegates]
        if delegates and not any(answer is not False for answer in answers):
            names = " or ".join(delegate.name for delegate in delegates)
            return (
                f"{member.owner}.{name} ({member.path}:{node.lineno}) calls self.{parts[1]}.{parts[2]}, "
                f"which {names} does not have"
            )
        deeper = [_hands_on(delegate, parts[2], classes, seen) for delegate in delegates]
        if deeper and all(deeper):
            return deeper[0]
    return ""


def _classes_of(view: ClassView, attribute: str, classes: Classes) -> list[ClassView]:
    """The classes that an attribute may be an instance of; empty unless every assignment names one."""
    found: list[ClassView] = []
    for member in view.members.get(attribute, []):
        if member.kind != INSTANCE_ATTRIBUTE or member.module is None:
            return []
        for value, function in _assigned(member.module, member.owner, attribute, member.line):
            if isinstance(value, ast.Constant) and value.value is None:
                continue
            hits = []
            if isinstance(value, ast.Call) and dotted(value.func):
                local = member.module.imports(function.body)
                hits = [
                    hit
                    for hit in classes.sources.resolve(member.module, dotted(value.func), local)
                    if isinstance(hit.node, ast.ClassDef)
                ]
            if not hits:
                return []
            found += [classes.view(hit) for hit in hits]
    return found


def parts(view: ClassView, classes: Classes) -> list[Found]:
    """The classes of the sources that a model is made of: its bases, and what its attributes are instances of."""
    found = list(view.bases)
    for name, members in view.members.items():
        if members[0].kind == INSTANCE_ATTRIBUTE:
            found += [delegate.found for delegate in _classes_of(view, name, classes)]
    return found


def _assigned(module: Module, owner: str, attribute: str, line: int) -> list[tuple[ast.expr, FunctionNode]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and node.name == owner:
            return [
                (item.value, function)
                for function in node.body
                if isinstance(function, Function)
                for item in ast.walk(function)
                if isinstance(item, ast.Assign) and item.lineno == line
                for target in item.targets
                if isinstance(target, ast.Attribute) and target.attr == attribute
            ]
    return []
