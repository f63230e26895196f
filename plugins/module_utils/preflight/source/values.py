# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the values in a function of the sources stand for: the target's model, its runner or worker, or the draft's."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .conditions import evaluate
from .package import Binding, Found, FunctionNode, Module, dotted, statements
from .uses import DRAFT, MODEL, MODEL_EXECUTOR, NAMES, RUNNER, TARGET, WORKER, Kind, State

if TYPE_CHECKING:
    from .flow import Flow


class Scope:
    """One function of the sources, with what its values stand for at the point that is looked at."""

    def __init__(
        self,
        flow: Flow,
        module: Module,
        node: FunctionNode,
        owner: Found | None,
        given: Mapping[str, Kind],
        certain: bool,
        speculative: bool,
    ) -> None:
        self.flow, self.module, self.node, self.owner = flow, module, node, owner
        self.path = flow.sources.relative(module)
        self.label = f"{owner.node.name}.{node.name}" if owner is not None else node.name
        self.local: dict[str, list[Binding]] = module.imports(node.body)
        self.in_runner = owner is not None and _is_runner(owner)
        self.state = State(certain=certain, speculative=speculative)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            kind = given.get(argument.arg) or self.by_convention(argument.arg)
            if kind is not None:
                self.state.env[argument.arg] = kind

    def own_attributes(self) -> dict[str, Kind]:
        """``self.x = <something that stands for a model, runner or worker>`` in this function."""
        found = {}
        for node in statements(self.node.body, inner=True):
            if isinstance(node, ast.Assign):
                kind = self.kind(node.value)
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and dotted(target.value) == "self" and kind is not None:
                        found[target.attr] = kind
                    elif isinstance(target, ast.Name) and kind is not None:
                        self.state.env[target.id] = kind
        return found

    # What values stand for

    def by_convention(self, name: str) -> Kind | None:
        if name == "model_runner":
            return (TARGET if self.module.name.startswith(MODEL_EXECUTOR) else DRAFT, RUNNER)
        return NAMES.get(name)

    def kind(self, node: ast.expr | None) -> Kind | None:
        if isinstance(node, ast.Name):
            if node.id == "self":
                return (TARGET, RUNNER) if self.in_runner else None
            return self.state.env.get(node.id) or NAMES.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute_kind(node)
        if isinstance(node, (ast.Subscript, ast.Call)):
            inner = node.value if isinstance(node, ast.Subscript) else node.func
            last = dotted(inner).rpartition(".")[2]
            return NAMES.get(last) if last in ("draft_runner_list", "mtp_model_runner") else None
        if isinstance(node, ast.NamedExpr):
            return self.kind(node.value)
        return None

    def _attribute_kind(self, node: ast.Attribute) -> Kind | None:
        base = self.kind(node.value)
        if base is not None:
            whose, what = base
            if what == WORKER and node.attr == "model_runner":
                return (whose, RUNNER)
            if what == RUNNER and node.attr == "model":
                return (whose, MODEL)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            known = self.flow.attributes(self.owner)
            if node.attr in known:
                return known[node.attr]
        return None if base is not None and base[1] == MODEL else self.by_convention(node.attr)

    def there(self, node: ast.expr) -> bool:
        return self.kind(node) is not None

    def verdict(self, test: ast.expr) -> bool | None:
        return evaluate(test, self.flow.known, self.there)


def _is_runner(owner: Found) -> bool:
    """Whether ``self`` is the target's model runner: the class itself, or a mixin that it is made of."""
    return owner.module.name.startswith(MODEL_EXECUTOR) and (
        owner.node.name == "ModelRunner" or owner.node.name.startswith("ModelRunner")
    )
