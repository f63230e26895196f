# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Python sources as data: modules of an installed package, parsed when they are asked for, never imported.

Runs in the build's own interpreter: its syntax may be newer than that of the Python which runs the module.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Union

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]


@dataclass(frozen=True)
class Imported:
    """A name that another module provides: ``from module import name`` (``name`` empty: the module itself)."""

    module: str
    name: str


Binding = Union[ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, Imported, ast.expr]


@dataclass
class Module:
    """One source file. ``bindings``: what each name at its top level may be, every branch of an ``if`` counted."""

    name: str
    path: str
    is_package: bool
    tree: ast.Module
    bindings: dict[str, list[Binding]] = field(default_factory=dict)

    def imports(self, body: Iterable[ast.stmt]) -> dict[str, list[Binding]]:
        """What the import statements among ``body`` bind, those inside blocks too."""
        found: dict[str, list[Binding]] = {}
        for node in statements(body):
            self._bind_import(node, found)
        return found

    def _bind_import(self, node: ast.stmt, into: dict[str, list[Binding]]) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    into.setdefault(alias.asname, []).append(Imported(alias.name, ""))
                else:
                    top = alias.name.partition(".")[0]
                    into.setdefault(top, []).append(Imported(top, ""))
        elif isinstance(node, ast.ImportFrom):
            base = self._absolute(node)
            for alias in node.names:
                into.setdefault(alias.asname or alias.name, []).append(Imported(base, alias.name))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        keep = len(parts) - node.level + (1 if self.is_package else 0)
        return ".".join([*parts[:keep], *([node.module] if node.module else [])])

    def bind(self) -> None:
        for node in statements(self.tree.body):
            if isinstance(node, (ast.ClassDef, *Function)):
                self.bindings.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.bindings.setdefault(target.id, []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self.bindings.setdefault(node.target.id, []).append(node.value)
            else:
                self._bind_import(node, self.bindings)


@dataclass(frozen=True)
class Found:
    """A definition and the module that holds it."""

    module: Module
    node: Union[ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef]


class Sources:
    """The modules below ``root`` (a ``site-packages``, or the folder of a checkout that holds the package)."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def path(self, name: str) -> str | None:
        """The file of a module, or ``None`` where there is none."""
        base = os.path.join(self.root, *name.split("."))
        for path in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(path):
                return path
        return None

    def text(self, name: str) -> str:
        """The module's source; empty where there is no such module."""
        path = self.path(name)
        if path is None:
            return ""
        with open(path, encoding="utf-8-sig", errors="replace") as stream:
            return stream.read()

    def module(self, name: str) -> Module | None:
        """The parsed module; ``None`` where there is none.

        :raises SyntaxError: for a file that does not parse: SGLang's registry would hide just that.
        """
        if name not in self._modules:
            path = self.path(name)
            module = None
            if path is not None:
                tree = ast.parse(self.text(name), path)
                module = Module(name, path, os.path.basename(path) == "__init__.py", tree)
                module.bind()
            self._modules[name] = module
        return self._modules[name]

    def relative(self, module: Module) -> str:
        return os.path.relpath(module.path, self.root)

    def modules_below(self, package: str) -> list[str]:
        """The names of all modules in a package and its packages, sorted."""
        base = os.path.join(self.root, *package.split("."))
        found = []
        for folder, folders, files in os.walk(base):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            dotted = os.path.relpath(folder, self.root).replace(os.sep, ".")
            for name in sorted(files):
                if name.endswith(".py"):
                    found.append(dotted if name == "__init__.py" else f"{dotted}.{name[:-3]}")
        return found

    def resolve(
        self, module: Module, name: str, local: dict[str, list[Binding]] | None = None, depth: int = 8
    ) -> list[Found]:
        """The classes and functions that ``name`` (dotted) may be in ``module``; none for what is not in the sources.

        ``local`` are bindings of an inner scope, which come first.
        """
        if depth == 0:
            return []
        head, dummy, rest = name.partition(".")
        found: list[Found] = []
        for binding in (local or {}).get(head) or module.bindings.get(head, []):
            if isinstance(binding, Imported):
                found += self._imported(binding, rest, depth)
            elif isinstance(binding, (ast.ClassDef, *Function)):
                if not rest:
                    found.append(Found(module, binding))
            elif not rest and isinstance(binding, (ast.Name, ast.Attribute)):
                alias = dotted(binding)
                if alias and alias != name:
                    found += self.resolve(module, alias, None, depth - 1)
        return found

    def _imported(self, binding: Imported, rest: str, depth: int) -> list[Found]:
        if binding.name:
            provider = self.module(binding.module)
            if provider is not None and binding.name in provider.bindings:
                return self.resolve(provider, ".".join(filter(None, [binding.name, rest])), None, depth - 1)
        target = ".".join(filter(None, [binding.module, binding.name]))
        head, dummy, tail = rest.partition(".")
        while head:
            submodule = self.module(target)
            if submodule is not None and head in submodule.bindings:
                return self.resolve(submodule, rest, None, depth - 1)
            target, rest = f"{target}.{head}", tail
            head, dummy, tail = rest.partition(".")
        return []


def statements(body: Iterable[ast.stmt], inner: bool = False) -> Iterator[ast.stmt]:
    """The statements of a body, those inside its blocks (if, try, with, loops) too; those of definitions if ``inner``.

    Most nodes of a tree are expressions: where only statements matter, this is many times faster than ``ast.walk``.
    """
    for node in body:
        yield node
        if isinstance(node, (ast.ClassDef, *Function)) and not inner:
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, name, []), inner)
        for handler in getattr(node, "handlers", []) + getattr(node, "cases", []):
            yield from statements(handler.body, inner)


def dotted(node: ast.expr | None) -> str:
    """``a.b.c`` for names and attributes; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
