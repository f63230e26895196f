# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What a class of the sources has, with everything that its bases and mixins give it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .package import Found, Function, FunctionNode, Module, Sources, dotted, statements

METHOD = "method"
PROPERTY = "property"
CLASS_ATTRIBUTE = "class attribute"
INSTANCE_ATTRIBUTE = "instance attribute"

# Bases that add nothing which a caller could ask for by name.
_EMPTY_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})
_WORDS_OF_SGLANG = ("eagle", "embed_and_head", "set_embed", "hot_token", "dflash", "dspark")
# What torch.nn.Module gives to every model (PyTorch 2.x, public names).
NN_MODULE = frozenset(
    """
    forward training dump_patches call_super_init register_buffer register_parameter register_module add_module
    get_submodule set_submodule get_parameter get_buffer get_extra_state set_extra_state apply cuda ipu xpu mtia
    cpu type float double half bfloat16 to_empty to register_full_backward_pre_hook register_backward_hook
    register_full_backward_hook register_forward_pre_hook register_forward_hook register_state_dict_post_hook
    register_state_dict_pre_hook state_dict register_load_state_dict_pre_hook register_load_state_dict_post_hook
    load_state_dict parameters named_parameters buffers named_buffers children named_children modules
    named_modules train eval requires_grad_ zero_grad share_memory extra_repr compile
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Member:
    """One thing that a class gives its instances. ``node`` is set for functions."""

    name: str
    kind: str
    path: str
    line: int
    owner: str
    node: FunctionNode | None = None
    module: Module | None = None


@dataclass
class ClassView:
    """A class with its bases resolved.

    ``foreign`` names bases outside the sources, ``dynamic`` a ``__getattr__``: what such a class does not have by
    itself is unknown, not missing. A foreign base (transformers' ``PreTrainedModel``) knows none of the names that
    SGLang itself made up, though.
    """

    name: str
    found: Found
    members: dict[str, list[Member]] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    dynamic: list[str] = field(default_factory=list)
    bases: list[Found] = field(default_factory=list)
    is_module: bool = False

    def has(self, name: str) -> bool | None:
        """Whether instances have the attribute; ``None`` where that cannot be known."""
        if name in self.members or (name.startswith("__") and name.endswith("__")):
            return True
        if self.is_module and name in NN_MODULE:
            return True
        if self.dynamic or (self.foreign and not any(word in name for word in _WORDS_OF_SGLANG)):
            return None
        return False

    @property
    def open(self) -> list[str]:
        """Why not everything can be known."""
        return self.foreign + self.dynamic


class Classes:
    """Views of classes, each made once."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._views: dict[int, ClassView] = {}

    def view(self, found: Found) -> ClassView:
        key = id(found.node)
        if key not in self._views:
            if not isinstance(found.node, ast.ClassDef):
                raise TypeError(f"{found.node.name} is not a class")
            view = ClassView(found.node.name, found)
            self._views[key] = view
            self._collect(view, found, set(), True)
        return self._views[key]

    def _collect(self, view: ClassView, found: Found, seen: set[int], initialised: bool) -> None:
        """Add what ``found`` and its bases give; the nearest definition comes first in each list.

        ``initialised`` is false for a base whose ``__init__`` no subclass calls: its attributes are never set.
        """
        node = found.node
        if id(node) in seen or not isinstance(node, ast.ClassDef):
            return
        seen.add(id(node))
        own_init = self._own_members(view, found, initialised)
        calls = _init_calls(own_init) if own_init is not None else None
        for base in node.bases:
            name = dotted(base.value if isinstance(base, ast.Subscript) else base)
            if not name:
                view.dynamic.append(f"a base of {node.name} that is computed")
                continue
            resolved = [hit for hit in self.sources.resolve(found.module, name) if hit.node is not node]
            if not resolved:
                self._outside(view, node.name, name)
            for hit in resolved:
                if found is view.found:
                    view.bases.append(hit)
                runs = calls is None or "super" in calls or name in calls
                self._collect(view, hit, seen, initialised and runs)

    @staticmethod
    def _outside(view: ClassView, owner: str, base: str) -> None:
        last = base.rpartition(".")[2]
        if base in ("nn.Module", "torch.nn.Module", "Module"):
            view.is_module = True
        elif last not in _EMPTY_BASES:
            view.foreign.append(f"base {base} of {owner}, which is outside the sources")

    def _own_members(self, view: ClassView, found: Found, initialised: bool) -> FunctionNode | None:
        node = found.node
        path = self.sources.relative(found.module)
        init = None

        def add(name: str, kind: str, line: int, function: FunctionNode | None = None) -> None:
            member = Member(name, kind, path, line, node.name, function, found.module)
            view.members.setdefault(name, []).append(member)

        for item in statements(node.body):
            if isinstance(item, Function):
                decorators = {dotted(d.func if isinstance(d, ast.Call) else d) for d in item.decorator_list}
                is_property = any(name.rpartition(".")[2].endswith("property") for name in decorators)
                add(item.name, PROPERTY if is_property else METHOD, item.lineno, item)
                if item.name == "__getattr__":
                    view.dynamic.append(f"{node.name}.__getattr__")
                if item.name == "__init__":
                    init = item
                if initialised or item.name != "__init__":
                    for name, line in _self_assignments(item):
                        add(name, INSTANCE_ATTRIBUTE, line)
            elif isinstance(item, ast.Assign):
                for target in item.targets:
                    if isinstance(target, ast.Name):
                        add(target.id, CLASS_ATTRIBUTE, item.lineno)
            elif isinstance(item, ast.AnnAssign) and item.value is not None and isinstance(item.target, ast.Name):
                add(item.target.id, CLASS_ATTRIBUTE, item.lineno)
        for name, line in _attached(found.module, node.name):
            add(name, CLASS_ATTRIBUTE, line)
        return init


def _self_assignments(function: FunctionNode) -> list[tuple[str, int]]:
    """The attributes of its first argument that a method sets."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return []
    me = arguments[0].arg
    found = []
    registers = (f"{me}.register_buffer", f"{me}.register_parameter", f"{me}.add_module")
    for node in statements(function.body, inner=True):
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == me:
                found.append((target.attr, target.lineno))
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call):
            name = dotted(call.func)
            constants = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if constants and (name in registers or (name == "setattr" and dotted(call.args[0]) == me)):
                found.append((constants[0], node.lineno))
    return found


def _targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to, tuples taken apart."""
    if isinstance(node, ast.Assign):
        queue = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        queue = [node.target]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        queue = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        queue = []
    found = []
    while queue:
        target = queue.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            queue += target.elts
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def _init_calls(init: FunctionNode) -> set[str]:
    """Whose ``__init__`` a constructor calls: ``super`` and the names of bases."""
    called = set()
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            owner = node.func.value
            if isinstance(owner, ast.Call) and dotted(owner.func) == "super":
                called.add("super")
            elif dotted(owner):
                called.add(dotted(owner))
    return called


def _attached(module: Module, class_name: str) -> list[tuple[str, int]]:
    """Attributes that the module sets on a class from outside: ``Class.name = …``, ``setattr(Class, "name", …)``."""
    found = []
    for node in statements(module.tree.body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and dotted(target.value) == class_name:
                    found.append((target.attr, node.lineno))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and dotted(node.value.func) == "setattr":
            arguments = node.value.args
            if len(arguments) == 3 and dotted(arguments[0]) == class_name and isinstance(arguments[1], ast.Constant):
                found.append((str(arguments[1].value), node.lineno))
    return found
