# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""An edit that adds an entry to a dict literal, at module or class level."""

from __future__ import annotations

import ast
import re
from textwrap import dedent
from typing import Any

from .outcome import Outcome
from .source import Conflict, Source, Splice, same, scopes, statements

# what can stand between the last value of a literal and its closing brace
_GAP = re.compile(rb"[ \t\f]+|\\?(?:\r\n|\n|\r)|#[^\r\n]*|\)|(?P<comma>,)")


def add_dict_entry(source: Source, edit: dict[str, Any]) -> Outcome:
    """Add the entry to each literal that the name is given, behind its last entry.

    An entry that a statement of its own sets (``NAME[key] = value``, ``NAME.update({key: value})``,
    ``NAME |= {key: value}``) counts as being there.
    """
    *parents, name = edit["dict"].split(".")
    bodies: list[Any] = [source.tree]
    if parents:
        bodies = scopes(source.tree, ".".join(parents), (ast.ClassDef,))
    key = ast.parse(edit["key"].strip(), mode="eval").body
    literals: list[ast.Dict] = []
    set_apart: list[ast.expr] = []
    for body in bodies:
        for node in statements(body.body):
            _collect(node, name, key, literals, set_apart, source.path)
    if not literals:
        raise Conflict(f"{source.path} has no dict {edit['dict']}")
    outcome = Outcome()
    for there in set_apart:
        _count(outcome, edit, there, source.path)
    for literal in literals:
        values = [has for have, has in zip(literal.keys, literal.values) if have is not None and same(have, key)]
        if values:
            _count(outcome, edit, values[-1], source.path)
        elif not set_apart:
            outcome.missing += _into_literal(source, literal, edit)
    return outcome


def _collect(
    node: ast.stmt, name: str, key: ast.expr, literals: list[ast.Dict], set_apart: list[ast.expr], path: str
) -> None:
    """Note what a statement says of the dict: the literal that the name gets, or the value of the one key."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    else:
        more = _merged(node, name)
        if more is not None:
            set_apart += [has for have, has in zip(more.keys, more.values) if have is not None and same(have, key)]
        return
    value: Any = node.value
    for target in targets:
        if isinstance(target, ast.Name) and target.id == name:
            if not isinstance(value, ast.Dict):
                raise Conflict(
                    f"{path}: {name} is not given as a literal (line {node.lineno}), so nothing can be added"
                )
            literals.append(value)
        elif (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
            and target.value.id == name
            and same(target.slice, key)
        ):
            set_apart.append(value)


def _merged(node: ast.stmt, name: str) -> ast.Dict | None:
    """The literal that a statement merges into the dict."""
    target: Any = None
    value: Any = None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
        target, value = node.target, node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr == "update":
            target, value = called.value, node.value.args[0]
    is_it = isinstance(target, ast.Name) and target.id == name
    return value if is_it and isinstance(value, ast.Dict) else None


def _count(outcome: Outcome, edit: dict[str, Any], there: ast.expr, path: str) -> None:
    outcome.found += 1
    if same(there, ast.parse(dedent(edit["value"]).strip(), mode="eval").body):
        return
    note = f"{edit['dict']}[{edit['key']}] is there with another value (line {there.lineno}): {ast.unparse(there)}"
    if edit["exact"]:
        raise Conflict(f"{path}: {note}, and the patch demands its own")
    outcome.notes.append(note)


def _into_literal(source: Source, literal: ast.Dict, edit: dict[str, Any]) -> list[Splice]:
    text = source.text
    begin, end = source.start(literal) + 1, source.end(literal) - 1
    last, comma = _last_token(source, source.end(literal.values[-1]) if literal.values else begin, end)
    lines = [line.encode() for line in f"{edit['key'].strip()}: {dedent(edit['value']).strip()}".split("\n")]
    if not re.search(rb"[\r\n]", text[last:end]):  # the brace closes on the line of the last entry
        lead = b"" if not literal.values else b" " if comma else b", "
        return [(last, last, lead + source.newline.join(lines))]
    first: Any = (literal.keys[0] or literal.values[0]) if literal.values else None
    if first is not None and not text[source.offset(first.lineno, 0) : source.start(first)].strip(b" \t\f*"):
        indent = source.indent_of_line(first.lineno)
    else:
        indent = source.indent_of_line(literal.end_lineno or literal.lineno)
        indent += b"\t" if b"\t" in indent else b"    "
    at = source.line_end_from(last)
    entry = (at, at, b"".join(source.newline + indent + line for line in lines) + b",")
    return [entry] if comma or not literal.values else [(last, last, b","), entry]


def _last_token(source: Source, position: int, end: int) -> tuple[int, bool]:
    """The end of the last token before the closing brace, and whether that token is a comma."""
    last, comma = position, False
    while position < end:
        found = _GAP.match(source.text, position)
        if found is None:
            raise Conflict(f"{source.path}: the end of a dict literal is not understood near offset {position}")
        position = found.end()
        if found["comma"] or found[0] == b")":
            last, comma = position, bool(found["comma"])
    return last, comma
