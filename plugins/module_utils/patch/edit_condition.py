# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""An edit that extends a condition: ``a or b`` becomes ``a or b or c``."""

from __future__ import annotations

import ast
from typing import Any

from .outcome import Outcome
from .source import Conflict, Source, same, scopes

# Expressions that bind no tighter than "and" and "or": joined to anything, they need brackets of their own.
_LOOSE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)
_OPERATORS: dict[str, type[ast.boolop]] = {"or": ast.Or, "and": ast.And}


def extend_condition(source: Source, edit: dict[str, Any]) -> Outcome:
    """Extend each place where the condition stands, in one scope or in the whole module.

    A condition is recognised by its syntax tree, so line breaks, comments and parentheses do not matter. It must stand
    there ``count`` times, extended or not.
    """
    operator = _OPERATORS[edit["operator"]]
    condition = _expression(edit["condition"])
    operand = _expression(edit["operand"])
    roots: list[Any] = [source.tree]
    if edit["in"]:
        roots = scopes(source.tree, edit["in"])
        if not roots:
            raise Conflict(f"{source.path} has no {edit['in']}")
    extended, bare = _places(roots, operator, condition, operand)
    if len(extended) + len(bare) != edit["count"]:
        raise Conflict(
            f"{source.path}: the condition `{edit['condition']}` stands {len(extended) + len(bare)} times in "
            f"{edit['in'] or 'the module'} ({len(extended)} of them extended already), not {edit['count']} times"
        )
    outcome = Outcome(found=len(extended))
    text = edit["operand"].strip().encode()
    if not isinstance(operand, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)):
        text = b"(" + text + b")"
    joined = b" " + edit["operator"].encode() + b" " + text
    for node in bare:
        start, end = source.start(node), source.end(node)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, operator):
            outcome.missing.append((end, end, joined))
        elif isinstance(node, _LOOSE):
            outcome.missing += [(start, start, b"(("), (end, end, b")" + joined + b")")]
        else:
            outcome.missing += [(start, start, b"("), (end, end, joined + b")")]
    return outcome


def _places(
    roots: list[Any], operator: type[ast.boolop], condition: ast.expr, operand: ast.expr
) -> tuple[list[Any], list[Any]]:
    """Where the condition stands: extended already, and not yet."""
    wanted = _values(condition, operator)
    extended: list[Any] = []
    bare: list[Any] = []
    inside: set[int] = set()  # parts of places that are counted already
    for root in roots:
        for node in ast.walk(root):
            if id(node) in inside or not isinstance(node, ast.expr):
                continue
            has = _values(node, operator)
            if len(has) > len(wanted) and _holds(has, [*wanted, operand]):
                extended.append(node)
                inside.update(id(value) for value in has)
            elif len(has) == len(wanted) and all(same(one, other) for one, other in zip(has, wanted)):
                bare.append(node)
    return extended, bare


def _values(node: ast.expr, operator: type[ast.boolop]) -> list[ast.expr]:
    return node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, operator) else [node]


def _holds(has: list[ast.expr], wanted: list[ast.expr]) -> bool:
    return all(any(same(one, other) for other in has) for one in wanted)


def _expression(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body
