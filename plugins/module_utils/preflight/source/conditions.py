# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Which way a test of the sources goes under a given configuration: true, false, or not known here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .package import Function, Sources, dotted

SPEC_INFO = "sglang.srt.speculative.spec_info"
_OPTION_OWNERS = ("server_args", "_server_args", "cfg", "get_global_server_args", "get_server_args", "get_spec")
_ALGORITHM_NAMES = ("spec_algorithm", "speculative_algorithm", "spec_algo")


@dataclass
class Configuration:
    """What is known of the server that the sources would run.

    ``algorithm`` is the name that SGLang's enumeration uses (``NONE`` without speculation); ``predicates`` are that
    enumeration's ``is_…`` methods for it; ``names`` holds values of attributes and variables by their last name;
    ``options`` those of the server's options.
    """

    algorithm: str
    predicates: Mapping[str, bool | None] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def configuration(
    sources: Sources, algorithm: str, options: Mapping[str, Any], names: Mapping[str, Any]
) -> Configuration:
    """The configuration for an algorithm, with the predicates as this release defines them."""
    predicates: dict[str, bool | None] = {}
    module = sources.module(SPEC_INFO)
    methods = {}
    if module is not None:
        for found in sources.resolve(module, "SpeculativeAlgorithm"):
            if isinstance(found.node, ast.ClassDef):
                methods = {item.name: item for item in found.node.body if isinstance(item, Function)}

    def predicate(name: str, depth: int = 6) -> bool | None:
        if name not in predicates and name in methods and depth:
            last = methods[name].body[-1]
            value = last.value if isinstance(last, ast.Return) else None
            predicates[name] = None if value is None else enum_test(value, depth)
        return predicates.get(name)

    def enum_test(node: ast.expr, depth: int) -> bool | None:
        if isinstance(node, ast.BoolOp):
            return _combine(node.op, [enum_test(value, depth) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _negate(enum_test(node.operand, depth))
        if isinstance(node, ast.Call) and dotted(node.func).startswith("self."):
            return predicate(dotted(node.func)[5:], depth - 1)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and dotted(node.left) == "self":
            right = node.comparators[0]
            elements = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
            member = any(dotted(element).rpartition(".")[2] == algorithm for element in elements)
            return member if isinstance(node.ops[0], (ast.Eq, ast.In, ast.Is)) else not member
        return None

    for name in methods:
        if name.startswith(("is_", "supports_", "has_", "carries_", "need_")):
            predicate(name)
    return Configuration(algorithm, predicates, names, options)


def evaluate(node: ast.expr, known: Configuration, there: Callable[[ast.expr], bool]) -> bool | None:
    """The truth of a test, or ``None`` where it cannot be known. ``there`` says what is certainly not ``None``."""
    if isinstance(node, ast.BoolOp):
        return _combine(node.op, [evaluate(value, known, there) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _negate(evaluate(node.operand, known, there))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        right = node.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None and there(node.left):
            return isinstance(node.ops[0], (ast.IsNot, ast.NotEq))
        return _compare(node, known)
    value = _value(node, known)
    return None if value is _UNKNOWN else bool(value)


_UNKNOWN = object()


def _value(node: ast.expr, known: Configuration) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        owner, dummy, method = name.rpartition(".")
        if owner.rpartition(".")[2] in _ALGORITHM_NAMES or owner == "self":
            value = known.predicates.get(method)
            value = _by_name(method, known.algorithm) if value is None else value
            return _UNKNOWN if value is None else value
        return _UNKNOWN
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if last in known.names:
        return known.names[last]
    if last in known.options and isinstance(node, ast.Attribute):
        owner_node = node.value
        owner = dotted(owner_node.func if isinstance(owner_node, ast.Call) else owner_node).rpartition(".")[2]
        if owner in _OPTION_OWNERS:
            return known.options[last]
    return _UNKNOWN


def _by_name(method: str, algorithm: str) -> bool | None:
    """What a predicate says where the release makes them while it runs (0.5.7): they are named after algorithms."""
    if not method.startswith("is_"):
        return None
    name = method[3:].upper()
    if name == "EAGLE":
        return algorithm in ("EAGLE", "EAGLE3", "FROZEN_KV_MTP")
    if name in ("SOME", "SPECULATIVE"):
        return algorithm != "NONE"
    return name == algorithm


def _compare(node: ast.Compare, known: Configuration) -> bool | None:
    left, right = _value(node.left, known), _value(node.comparators[0], known)
    if left is _UNKNOWN or right is _UNKNOWN:
        return None
    operator = node.ops[0]
    if isinstance(operator, (ast.Is, ast.Eq)):
        return bool(left == right)
    if isinstance(operator, (ast.IsNot, ast.NotEq)):
        return bool(left != right)
    return None


def _combine(operator: ast.boolop, values: list[bool | None]) -> bool | None:
    decisive = isinstance(operator, ast.Or)
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _negate(value: bool | None) -> bool | None:
    return None if value is None else not value
