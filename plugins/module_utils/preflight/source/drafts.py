# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the installed sources say of drafts: which algorithms and classes there are, and what a class insists on."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from .classes import ClassView
from .conditions import SPEC_INFO
from .package import Found, Function, Module, Sources, dotted, statements

_MODEL_CONFIG = "sglang.srt.configs.model_config"
_HOOKS = ("sglang.srt.server_args", "sglang.srt.arg_groups.speculative_hook")


@dataclass(frozen=True)
class Own:
    """The class that a release takes for a model's own prediction layers; ``counted``: it sets their number itself."""

    architecture: str
    counted: bool


def own_draft(sources: Sources, architecture: str) -> Own | None:
    """What ``_config_draft_model`` makes of an architecture that is loaded as a draft; ``None``: nothing."""
    module = sources.module(_MODEL_CONFIG)
    for function in ast.walk(module.tree) if module is not None else ():
        if not isinstance(function, Function) or function.name != "_config_draft_model" or module is None:
            continue
        for node in function.body:
            if isinstance(node, ast.If) and architecture in _listed(module, node.test):
                inside = list(statements(node.body))
                names = [name for entry in inside for name in _texts(_set_to(entry, ".architectures"))]
                if names:
                    # where an algorithm of its own decides, that is the first; what holds for the others comes last
                    counted = any(_set_to(entry, ".num_nextn_predict_layers") is not None for entry in inside)
                    return Own(names[-1], counted)
    return None


def algorithms(sources: Sources) -> list[str] | None:
    """The names of the algorithms that a release has; ``None`` where it lists them otherwise."""
    module = sources.module(SPEC_INFO)
    for found in sources.resolve(module, "SpeculativeAlgorithm") if module is not None else []:
        names = [dotted(target) for node in found.node.body if isinstance(node, ast.Assign) for target in node.targets]
        known = [name for name in names if name.isupper() and name != "NONE"]
        return [*known, "NEXTN"] if known else None
    return None


def on_cpu(sources: Sources) -> list[str]:
    """The algorithms that a release runs on a CPU."""
    text = "".join(sources.text(name) for name in _HOOKS)
    trees = ["EAGLE", "EAGLE3", "STANDALONE"] if "_disable_overlap_schedule_for_cpu" in text else []
    words = re.search(r"Ngram speculative decoding only supports ([^\"]*)", text)
    return [*trees, "NGRAM"] if words is not None and "CPU" in words.group(1) else trees


def takes_hidden_states(sources: Sources, view: ClassView) -> bool:
    """Whether a class, or one that it is made from, reads the target's hidden states: what makes it an EAGLE draft."""
    found = [view.found, *view.bases]
    return any("spec_info.hidden_states" in sources.text(each.module.name) for each in found)


def single_layer_only(found: Found) -> bool:
    """Whether the draft's module raises for a configuration with more than one layer."""
    for node in ast.walk(found.module.tree):
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
            test = node.test
            if isinstance(test, ast.Compare) and dotted(test.left).endswith(".num_hidden_layers"):
                right = test.comparators[0]
                if isinstance(test.ops[0], ast.NotEq) and isinstance(right, ast.Constant) and right.value == 1:
                    return True
    return False


def counts_aux_layers(sources: Sources, found: Found) -> bool:
    """Whether the draft's module sizes ``fc`` by the number of auxiliary layers; earlier ones always by three."""
    return "num_aux_hidden_states" in sources.text(found.module.name)


def asks_for_vocabulary(sources: Sources, found: Found) -> bool:
    """Whether the draft's module reads ``draft_vocab_size`` as if every configuration had it."""
    return re.search(r"config\.draft_vocab_size\b(?!\s*=[^=])", sources.text(found.module.name)) is not None


def _listed(module: Module, test: ast.expr) -> set[str]:
    """The texts that a condition compares with, written out or in a list of the module's."""
    found: set[str] = set()
    for node in ast.walk(test):
        values = [node]
        if isinstance(node, ast.Name) and node.id.isupper():
            values = [
                inner
                for value in module.bindings.get(node.id, [])
                if isinstance(value, ast.expr)
                for inner in ast.walk(value)
            ]
        found |= {str(value.value) for value in values if isinstance(value, ast.Constant)}
    return found


def _set_to(node: ast.stmt, name: str) -> ast.expr | None:
    """What a statement assigns to an attribute, or to an element of it."""
    if not isinstance(node, ast.Assign):
        return None
    for target in node.targets:
        if dotted(target.value if isinstance(target, ast.Subscript) else target).endswith(name):
            return node.value
    return None


def _texts(value: ast.expr | None) -> list[str]:
    nodes = [value, *value.elts] if isinstance(value, ast.List) else [value]
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
