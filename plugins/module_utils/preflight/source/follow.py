# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Follows one function of the sources, statement by statement: which uses of a model's attributes it comes to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from .conditions import evaluate
from .package import Found, Function, Imported, dotted
from .uses import MODEL, OWN_PACKAGES, Shape, State, Use
from .values import Scope

_SWALLOWS = ("AttributeError", "Exception", "BaseException")


class Follower(Scope):
    """One function being followed; what it finds goes to the flow's list of uses."""

    def run(self) -> None:
        self.block(self.node.body)

    # Statements

    def block(self, body: Iterable[ast.stmt]) -> bool:
        """Follow statements; whether the end of the block is certainly not reached."""
        return any(self.statement(node) for node in body)

    def statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Try):
            return self._try(node)
        if isinstance(node, ast.Raise):
            self._missing_is_fatal(node)
            return True
        if isinstance(node, ast.Assert):
            self.expression(node.test, asserting=True)
            self._assume(node.test, True)
            return False
        if isinstance(node, ast.Assign):
            self.expression(node.value)
            self._assign(node)
            return False
        if isinstance(node, (ast.ClassDef, *Function)):
            if isinstance(node, Function):
                self._aside(lambda: self.block(node.body))
            return False
        for expression in _expressions(node):
            self.expression(expression)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            self._aside(lambda: self.block(node.body))
            self._aside(lambda: self.block(node.orelse))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            return self.block(node.body)
        return isinstance(node, (ast.Return, ast.Continue, ast.Break))

    def _assign(self, node: ast.Assign) -> None:
        kind = self.kind(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if kind is None:
                    self.state.env.pop(target.id, None)
                else:
                    self.state.env[target.id] = kind
            else:
                self.expression(target)

    def _if(self, node: ast.If) -> bool:
        self.expression(node.test)
        verdict = self.verdict(node.test)
        speculation_only = verdict is True and evaluate(node.test, self.flow.without, self.there) is False
        before = self.state.copy()
        ends_then = ends_else = True
        after: list[State] = []
        for branch, wanted in ((node.body, True), (node.orelse, False)):
            if verdict is (not wanted):
                continue
            self.state = before.copy()
            if verdict is None and not self._only_guards(node.test):
                self.state.certain = False
            self.state.speculative = self.state.speculative or (speculation_only and wanted)
            self._assume(node.test, wanted)
            ended = self.block(branch)
            if wanted:
                ends_then = ended
            else:
                ends_else = ended
            if not ended:
                after.append(self.state)
        self.state = before
        if after:
            self.state.present |= set.intersection(*[state.present for state in after])
            self.state.absent |= set.intersection(*[state.absent for state in after])
            for state in after:
                self.state.env.update(state.env)
        return not after and ends_then and ends_else

    def _try(self, node: ast.Try) -> bool:
        tolerant = any(_swallows(handler) for handler in node.handlers)
        if tolerant:
            self._aside(lambda: self.block(node.body), certain=False)
            ended = False
        else:
            ended = self.block(node.body)
        # A handler is not the way that a start should take: what it needs is not asked for.
        self.block(node.finalbody)
        return ended

    def _aside(self, visit: Callable[[], object], certain: bool = True) -> None:
        """Look at what may run or not: what it assumes does not hold afterwards."""
        before = self.state.copy()
        self.state.certain = self.state.certain and certain
        visit()
        before.env.update(self.state.env)
        self.state = before

    def _assume(self, test: ast.expr, truth: bool) -> None:
        """Note what a passed test says of a model's attributes."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._assume(test.operand, not truth)
        elif isinstance(test, ast.BoolOp):
            conjunction = isinstance(test.op, ast.And)
            if conjunction is truth:
                for value in test.values:
                    self._assume(value, truth)
            else:
                undecided = [v for v in test.values if self.verdict(v) is not conjunction]
                if len(undecided) == 1:
                    self._assume(undecided[0], truth)
        else:
            name = self._tested(test)
            if name is not None:
                (self.state.present if truth else self.state.absent).add(name)

    def _tested(self, test: ast.expr) -> tuple[str, str] | None:
        """The attribute that ``hasattr(model, "x")`` or ``getattr(model, "x", …)`` asks for."""
        if isinstance(test, ast.NamedExpr):
            test = test.value
        if isinstance(test, ast.Call) and dotted(test.func) == "callable" and test.args:
            test = test.args[0]
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
            test = test.left
        if isinstance(test, ast.Call) and dotted(test.func) in ("hasattr", "getattr") and len(test.args) >= 2:
            kind, name = self.kind(test.args[0]), test.args[1]
            if kind is not None and kind[1] == MODEL and isinstance(name, ast.Constant):
                return (kind[0], str(name.value))
        return None

    def _only_guards(self, test: ast.expr) -> bool:
        """Whether all that is unknown of a test is whether the model has something: then the way there is certain."""
        if isinstance(test, ast.BoolOp):
            return all(self._only_guards(value) for value in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._only_guards(test.operand)
        return self._tested(test) is not None or self.verdict(test) is not None

    def _missing_is_fatal(self, node: ast.Raise) -> None:
        for owner, name in sorted(self.state.absent):
            self._use(owner, name, node.lineno, None)

    # Expressions

    def expression(self, node: ast.AST, asserting: bool = False) -> None:
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            self._guarded(node, asserting)
            return
        if isinstance(node, ast.Lambda):
            self._aside(lambda: self.expression(node.body))
            return
        if isinstance(node, ast.Call):
            self._call(node, asserting)
            return
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            kind = self.kind(node.value)
            if kind is not None and kind[1] == MODEL:
                self._use(kind[0], node.attr, node.lineno, None)
        for child in ast.iter_child_nodes(node):
            self.expression(child)

    def _guarded(self, node: ast.BoolOp | ast.IfExp, asserting: bool) -> None:
        before = self.state.copy()
        if isinstance(node, ast.IfExp):
            self.expression(node.test)
            for branch, truth in ((node.body, True), (node.orelse, False)):
                self.state = before.copy()
                self._assume(node.test, truth)
                self.expression(branch)
        else:
            for value in node.values:
                self.expression(value, asserting=asserting and isinstance(node.op, ast.And))
                self._assume(value, isinstance(node.op, ast.And))
        self.state = before

    def _call(self, node: ast.Call, asserting: bool) -> None:
        tested = self._tested(node)
        if tested is not None:
            without_default = dotted(node.func) == "getattr" and len(node.args) == 2
            if without_default or (asserting and dotted(node.func) == "hasattr"):
                self._use(*tested, node.lineno, None)
        elif isinstance(node.func, ast.Attribute):
            kind = self.kind(node.func.value)
            if kind is not None and kind[1] == MODEL:
                self._use(kind[0], node.func.attr, node.lineno, _shape(node))
            self.expression(node.func.value)
        for argument in [*node.args, *[keyword.value for keyword in node.keywords]]:
            self.expression(argument)
        self._enter(node)

    def _enter(self, node: ast.Call) -> None:
        """Follow a call into the sources when it hands over something that matters."""
        positional = [self.kind(argument) for argument in node.args]
        keywords = {k.arg: self.kind(k.value) for k in node.keywords if k.arg is not None}
        handed = [kind for kind in [*positional, *keywords.values()] if kind is not None]
        if not handed or not self._worth_entering(node.func, any(kind[1] == MODEL for kind in handed)):
            return
        for found, owner, skip in self._callees(node.func):
            if not isinstance(found.node, Function):
                continue
            names = [a.arg for a in [*found.node.args.posonlyargs, *found.node.args.args]][skip:]
            given = {name: kind for name, kind in zip(names, positional) if kind is not None}
            given.update({name: kind for name, kind in keywords.items() if kind is not None})
            self.flow.analyze(found.module, found.node, owner, given, self.state)

    def _worth_entering(self, function: ast.expr, hands_model: bool) -> bool:
        """Whether what a call leads to can ask for something of speculation: most of what takes a runner cannot."""
        head = dotted(function).partition(".")[0]
        for binding in self.local.get(head) or self.module.bindings.get(head, []):
            provider = binding.module if isinstance(binding, Imported) else self.module.name
            if provider.startswith(OWN_PACKAGES):
                return True
            if hands_model and (self.state.speculative or "eagle" in self.flow.sources.text(provider)):
                return True
        return head == "self"

    def _callees(self, function: ast.expr) -> list[tuple[Found, Found | None, int]]:
        name = dotted(function)
        if name.startswith("self.") and name.count(".") == 1 and self.owner is not None:
            members = self.flow.classes.view(self.owner).members.get(name[5:], [])
            for member in members[:1]:
                if member.node is not None and member.module is not None:
                    return [(Found(member.module, member.node), self.owner, 1)]
            return []
        callees: list[tuple[Found, Found | None, int]] = []
        for found in self.flow.sources.resolve(self.module, name, self.local) if name else []:
            if isinstance(found.node, ast.ClassDef):
                for member in self.flow.classes.view(found).members.get("__init__", [])[:1]:
                    if member.node is not None and member.module is not None:
                        callees.append((Found(member.module, member.node), found, 1))
            else:
                callees.append((found, None, 0))
        return callees

    def _use(self, owner: str, name: str, line: int, call: Shape | None) -> None:
        if (owner, name) in self.state.present:
            return
        unless = tuple(sorted(other for whose, other in self.state.absent if whose == owner and other != name))
        certain, speculative = self.state.certain, self.state.speculative
        use = Use(owner, name, self.path, line, self.label, certain, speculative, call, unless)
        if use not in self.flow.uses:
            self.flow.uses.append(use)


def _shape(node: ast.Call) -> Shape:
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    starred = starred or any(keyword.arg is None for keyword in node.keywords)
    return Shape(len(node.args), tuple(sorted(k.arg for k in node.keywords if k.arg is not None)), starred)


def _expressions(node: ast.stmt) -> list[ast.expr]:
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)] + [
        item.context_expr for item in getattr(node, "items", [])
    ]


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a handler makes an ``AttributeError`` harmless: it catches it, and never raises again."""
    if handler.type is None:
        caught = True
    else:
        types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        caught = any(dotted(item).rpartition(".")[2] in _SWALLOWS for item in types)
    return caught and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
