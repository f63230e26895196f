# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the speculative path of a release asks of the target model and of the draft model.

A small abstract interpretation: values are followed by what they stand for (the target's model, its runner, its
worker; the draft's), through assignments, attributes, and calls into other functions of the sources. Tests that a
configuration decides prune branches; ``hasattr`` and ``getattr`` with a default guard a use, unless their absence is
answered by an exception.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .classes import Classes
from .conditions import Configuration, evaluate
from .package import Binding, Found, Function, FunctionNode, Imported, Module, Sources, dotted

TARGET = "target"
DRAFT = "draft"
MODEL, RUNNER, WORKER = "model", "runner", "worker"
#: What a value stands for: whose it is, and what.
Kind = tuple[str, str]

_MODEL_EXECUTOR = "sglang.srt.model_executor"
_OWN_PACKAGES = (_MODEL_EXECUTOR, "sglang.srt.speculative")
_NAMES: dict[str, Kind] = {
    "target_worker": (TARGET, WORKER),
    "_target_worker": (TARGET, WORKER),
    "draft_runner": (DRAFT, RUNNER),
    "draft_model_runner": (DRAFT, RUNNER),
    "draft_runner_list": (DRAFT, RUNNER),
    "mtp_model_runner": (DRAFT, RUNNER),
}
_SWALLOWS = ("AttributeError", "Exception", "BaseException")


@dataclass(frozen=True)
class Shape:
    """How a method is called: number of positional arguments, names of keywords, and whether ``*`` hides more."""

    positional: int
    keywords: tuple[str, ...]
    starred: bool


@dataclass(frozen=True)
class Use:
    """One place that needs ``name`` of a model.

    ``certain``: every test on the way is known to let it through. ``speculative``: without speculation it is not
    reached. ``unless``: it is reached only where the model has none of these.
    """

    owner: str
    name: str
    path: str
    line: int
    function: str
    certain: bool
    speculative: bool
    call: Shape | None = None
    unless: tuple[str, ...] = ()


@dataclass
class _State:
    """What holds at a point of a function: values by name, names known to be there, and the tests passed."""

    env: dict[str, Kind] = field(default_factory=dict)
    present: set[tuple[str, str]] = field(default_factory=set)
    absent: set[tuple[str, str]] = field(default_factory=set)
    certain: bool = True
    speculative: bool = False

    def copy(self) -> _State:
        return _State(dict(self.env), set(self.present), set(self.absent), self.certain, self.speculative)


class Flow:
    """Collects the uses, function by function. ``uses`` holds them in the order in which they are found."""

    def __init__(self, sources: Sources, classes: Classes, known: Configuration, without: Configuration) -> None:
        self.sources = sources
        self.classes = classes
        self.known = known
        self.without = without
        self.uses: list[Use] = []
        self._done: set[tuple[int, frozenset[tuple[str, Kind]], bool, bool]] = set()
        self._attributes: dict[int, dict[str, Kind]] = {}

    def analyze_class(self, found: Found) -> None:
        """Follow every method of a class, as its workers or runners call them."""
        for item in found.node.body:
            if isinstance(item, Function):
                self.analyze(found.module, item, found, {}, _State())

    def analyze(
        self,
        module: Module,
        function: FunctionNode,
        owner: Found | None,
        given: Mapping[str, Kind],
        at: _State,
    ) -> None:
        """Follow one function, its parameters standing for what ``given`` says."""
        speculative = at.speculative or module.name.startswith("sglang.srt.speculative")
        key = (id(function), frozenset(given.items()), at.certain, speculative)
        if key in self._done:
            return
        self._done.add(key)
        _Function(self, module, function, owner, given, at.certain, speculative).run()

    def attributes(self, owner: Found | None) -> dict[str, Kind]:
        """What the attributes of ``self`` stand for, from the assignments in the class's own methods."""
        if owner is None:
            return {}
        key = id(owner.node)
        if key not in self._attributes:
            found: dict[str, Kind] = {}
            self._attributes[key] = found
            for item in owner.node.body:
                if isinstance(item, Function):
                    scope = _Function(self, owner.module, item, owner, {}, True, False)
                    found.update(scope.own_attributes())
        return self._attributes[key]


class _Function:
    """One function being followed."""

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
        self.in_runner = owner is not None and _is_runner(owner, flow)
        self.state = _State(certain=certain, speculative=speculative)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            kind = given.get(argument.arg) or self.by_convention(argument.arg)
            if kind is not None:
                self.state.env[argument.arg] = kind

    def run(self) -> None:
        self.block(self.node.body)

    def own_attributes(self) -> dict[str, Kind]:
        """``self.x = <something that stands for a model, runner or worker>`` in this function."""
        found = {}
        for node in ast.walk(self.node):
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
            return (TARGET if self.module.name.startswith(_MODEL_EXECUTOR) else DRAFT, RUNNER)
        return _NAMES.get(name)

    def kind(self, node: ast.expr | None) -> Kind | None:
        if isinstance(node, ast.Name):
            if node.id == "self":
                return (TARGET, RUNNER) if self.in_runner else None
            return self.state.env.get(node.id) or _NAMES.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute_kind(node)
        if isinstance(node, (ast.Subscript, ast.Call)):
            inner = node.value if isinstance(node, ast.Subscript) else node.func
            last = dotted(inner).rpartition(".")[2]
            return _NAMES.get(last) if last in ("draft_runner_list", "mtp_model_runner") else None
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
        after: list[_State] = []
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

    def _aside(self, visit: object, certain: bool = True) -> None:
        before = self.state.copy()
        self.state.certain = self.state.certain and certain
        visit()  # type: ignore[operator]
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
            if provider.startswith(_OWN_PACKAGES):
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


def _is_runner(owner: Found, flow: Flow) -> bool:
    """Whether ``self`` is the target's model runner: the class itself, or a mixin that it is made of."""
    return owner.module.name.startswith(_MODEL_EXECUTOR) and (
        owner.node.name == "ModelRunner" or owner.node.name.startswith("ModelRunner")
    )


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
