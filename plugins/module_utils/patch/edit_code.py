# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Edits that add code: methods to a class, imports to a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from .outcome import Outcome
from .source import Conflict, Source, Splice, first_line, same, scopes, statements

_COLON_BEFORE_BODY = re.compile(rb":((?:[ \t\f]|\\(?:\r\n|\n|\r))*)\Z")


def add_methods(source: Source, edit: dict[str, Any]) -> Outcome:
    """Add the methods that each definition of the class lacks, behind its last statement."""
    classes = scopes(source.tree, edit["class"], (ast.ClassDef,))
    if not classes:
        raise Conflict(f"{source.path} has no class {edit['class']}")
    outcome = Outcome()
    methods = list(_methods(edit["code"]))
    for node in classes:
        bound = _names_bound(node.body)
        lacking = []
        for method, lines in methods:
            there = bound.get(method.name)
            if there is None:
                lacking.append(lines)
                continue
            outcome.found += 1
            if not same(there, method):
                note = f"{edit['class']}.{method.name} is there with another body (line {there.lineno})"
                if edit["exact"]:
                    raise Conflict(f"{source.path}: {note}, and the patch demands its own")
                outcome.notes.append(note)
        if lacking:
            outcome.missing += _into_class(source, node, lacking)
    return outcome


def _methods(code: str) -> Iterator[tuple[Any, list[str]]]:
    """Each method of an edit with its lines: comments above it and decorators included, at column 0.

    Lines inside a string that is no docstring are marked with a leading NUL: they must not be indented.
    """
    text = dedent(code).strip("\n")
    tree = ast.parse(text)
    lines = text.split("\n")
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.Constant, ast.JoinedStr)) and not (
                isinstance(node, ast.Expr) and isinstance(child, ast.Constant)
            ):
                for number in range(child.lineno, child.end_lineno or child.lineno):
                    lines[number] = "\0" + lines[number].lstrip("\0")
    last = 0
    for node in tree.body:
        end = node.end_lineno or node.lineno
        part = lines[last:end]
        while part and not part[0].strip():
            part.pop(0)
        yield node, part
        last = end


def _indented(lines: list[str], indent: bytes, newline: bytes) -> bytes:
    result = []
    for line in lines:
        if line.startswith("\0"):
            result.append(line[1:].encode())
        else:
            result.append(indent + line.encode() if line.strip() else b"")
    return newline.join(result)


def _names_bound(body: list[ast.stmt]) -> dict[str, Any]:
    """Names that a class body binds to something: methods, conditional or not, and assignments."""
    bound: dict[str, Any] = {}
    for node in statements(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound[node.name] = node
        elif isinstance(node, ast.Assign):
            names = [name for target in node.targets for name in ast.walk(target)]
            bound.update((name.id, node) for name in names if isinstance(name, ast.Name) and _is_bound(name))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            bound[node.target.id] = node
    return bound


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _into_class(source: Source, node: ast.ClassDef, methods: list[list[str]]) -> list[Splice]:
    newline = source.newline
    first = node.body[0]
    header = None
    if _inline(source, first):
        header = _COLON_BEFORE_BODY.search(source.text, source.start(node), source.start(first))
    splices: list[Splice] = []
    if header:
        indent = source.indent_of_line(node.lineno)
        indent += b"\t" if b"\t" in indent else b"    "
        splices.append((header.start(1), header.end(1), newline + indent))
    else:
        indent = source.indent_of_line(first_line(first))
    behind = source.line_end(node.body[-1].end_lineno or node.body[-1].lineno)
    text = b"".join(newline * 2 + _indented(lines, indent, newline) for lines in methods)
    return [*splices, (behind, behind, text)]


def _inline(source: Source, first: ast.stmt) -> bool:
    """Whether a class body begins on the logical line of its header (``class A: pass``)."""
    if first_line(first) != first.lineno:
        return False  # a decorator stands on a line of its own
    start = source.offset(first.lineno, 0)
    continued = source.text[max(0, start - 3) : start].endswith((b"\\\n", b"\\\r\n", b"\\\r"))
    return continued or bool(source.text[start : source.start(first)].strip())


def add_import(source: Source, edit: dict[str, Any]) -> Outcome:
    """Add the imports that the module lacks, behind the imports at its head."""
    outcome = Outcome()
    bound = set(_imports(statements(source.tree.body)))
    lacking = []
    for node in ast.parse(dedent(edit["code"])).body:
        if set(_imports([node])) <= bound:
            outcome.found += 1
        else:
            lacking.append(ast.unparse(node).encode())
    futures = [line for line in lacking if line.startswith(b"from __future__ ")]
    for lines in (futures, [line for line in lacking if line not in futures]):
        if lines:
            outcome.missing.append(_into_head(source, lines, on_top=lines is futures))
    return outcome


def _imports(nodes: Any) -> Iterator[tuple[str, str, int, str]]:
    """What import statements bind: (name, module, level of a relative import, name in the module)."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name, 0, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, node.module or "", node.level, alias.name


def _into_head(source: Source, imports: list[bytes], on_top: bool) -> Splice:
    """Behind the imports at the head, or (``on_top``, as Python wants it of ``__future__``) before all of them."""
    newline = source.newline
    body = source.tree.body
    anchor: ast.stmt | None = None
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        anchor = body[0]  # the docstring
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not on_top:
            anchor = node
    if anchor is None:
        # before the first statement, but behind comments: a "#!" line and an encoding cookie must stay on top
        at = source.offset(first_line(body[0]), 0) if body else len(source.text)
        lead = newline if not body and source.text and not source.text.endswith((b"\n", b"\r")) else b""
        return at, at, lead + b"".join(line + newline for line in imports)
    last = anchor.end_lineno or anchor.lineno
    for node in body:  # other statements on the same line
        if node.lineno == last:
            last = max(last, node.end_lineno or node.lineno)
    at = source.line_end(last)
    return at, at, b"".join(newline + line for line in imports)
