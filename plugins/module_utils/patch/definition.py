# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The form of a patch definition (docs/patches.md): checked once, on the controller, before it travels.

A checked definition is a JSON value: ``name``, ``title``, ``why``, ``upstream``, ``applies_to``, ``default``,
``proven`` and ``edits``; each edit is a flat mapping with ``kind``, ``package``, ``distribution``, ``file``,
``releases`` and the fields of its kind.
"""

from __future__ import annotations

import ast
import re
from textwrap import dedent
from typing import Any

from ..errors import InferopsError, nearest
from .diff import parse_diff
from .release import clauses

_PATCH = {"name": str, "title": str, "why": str, "upstream": str, "applies_to": str, "default": bool, "proven": list}
_COMMON: dict[str, type] = {"package": str, "distribution": str, "file": str, "releases": str}

#: Fields of each kind of edit; a name in ``_OPTIONAL`` may be left out.
KINDS: dict[str, dict[str, type]] = {
    "add_methods": {"class": str, "code": str, "exact": bool},
    "add_dict_entry": {"dict": str, "key": str, "value": str, "exact": bool},
    "extend_condition": {"in": str, "condition": str, "operator": str, "operand": str, "count": int},
    "add_import": {"code": str},
    "replace": {"in": str, "old": str, "new": str, "count": int},
    "unified_diff": {"diff": str},
}
_OPTIONAL = {"package": "sglang", "distribution": "", "releases": "", "exact": False, "in": "", "count": 1}
_NOT_OPTIONAL = {("replace", "count")}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SCALARS = (str, int, float, bool)


def normalise(raw: Any, origin: str) -> dict[str, Any]:
    """The checked form of a definition as a user wrote it; ``origin`` says where (a file, "inline patch 2").

    :raises InferopsError: when something is missing, unknown or of the wrong type; the message names the place.
    """
    if not isinstance(raw, dict):
        raise InferopsError(f"{origin}: a patch must be a mapping with name, title, why and edits, not {_kind(raw)}")
    _known(raw, [*_PATCH, "edits"], origin)
    for field in ("name", "title", "why", "edits"):
        if not raw.get(field):
            raise InferopsError(f"{origin}: {field!r} is missing; see docs/patches.md for the form of a patch")
    name = raw["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InferopsError(f"{origin}: {name!r} is no patch name: use lower-case letters, digits and underscores")
    where = f"patch {name} ({origin})"
    result: dict[str, Any] = {
        "upstream": "",
        "applies_to": "",
        "default": False,
        "proven": [],
        **{key: value for key, value in raw.items() if value is not None},
    }
    for field, kind in _PATCH.items():
        if not isinstance(result[field], kind):
            raise InferopsError(f"{where}: {field!r} must be {_word(kind)}, not {_kind(result[field])}")
    _range(result["applies_to"], f"{where}: applies_to")
    if not isinstance(raw["edits"], list):
        raise InferopsError(f"{where}: 'edits' must be a list, not {_kind(raw['edits'])}")
    result["edits"] = [_edit(edit, f"{where}, edit {number}") for number, edit in enumerate(raw["edits"], 1)]
    return result


def _edit(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict) or len(raw) != 1:
        raise InferopsError(f"{where}: an edit is a mapping with one key, its kind: one of {', '.join(KINDS)}")
    ((kind, fields),) = raw.items()
    _known([kind], list(KINDS), where, "kind of edit")
    where = f"{where} ({kind})"
    if not isinstance(fields, dict):
        raise InferopsError(f"{where}: the fields of an edit must be a mapping, not {_kind(fields)}")
    wanted = {**_COMMON, **KINDS[kind]}
    _known(fields, list(wanted), where)
    edit: dict[str, Any] = {"kind": kind}
    for field, field_type in wanted.items():
        value = fields.get(field)
        if value is None:
            if field not in _OPTIONAL or (kind, field) in _NOT_OPTIONAL:
                raise InferopsError(f"{where}: {field!r} is missing")
            value = _OPTIONAL[field]
        elif field in ("key", "value") and isinstance(value, _SCALARS) and not isinstance(value, str):
            value = repr(value)  # YAML has read "12" or "true" as a value; what is wanted is the text of it
        if not isinstance(value, field_type) or (field_type is int and isinstance(value, bool)):
            raise InferopsError(f"{where}: {field!r} must be {_word(field_type)}, not {_kind(value)}")
        # a definition that comes from elsewhere may have its line ends; those of the file are kept
        edit[field] = value.replace("\r\n", "\n") if isinstance(value, str) else value
    if not edit["distribution"]:
        edit["distribution"] = edit["package"]
    _range(edit["releases"], f"{where}: releases")
    _path(edit, where)
    _content(edit, where)
    return edit


def _path(edit: dict[str, Any], where: str) -> None:
    parts = edit["file"].split("/")
    if edit["file"].startswith("/") or any(part in ("", ".", "..") for part in parts) or "\\" in edit["file"]:
        raise InferopsError(
            f"{where}: file {edit['file']!r} must be a relative path inside the package {edit['package']!r}, "
            "without '..', for example 'srt/models/llama.py'"
        )
    if not edit["package"].isidentifier():
        raise InferopsError(f"{where}: package {edit['package']!r} must be the name of a top-level package")
    if edit["kind"] not in ("replace", "unified_diff") and not edit["file"].endswith(".py"):
        raise InferopsError(f"{where}: {edit['kind']} works on Python files, and {edit['file']!r} is none")


def _content(edit: dict[str, Any], where: str) -> None:
    """Check the code inside an edit as far as it can be checked without the file."""
    kind = edit["kind"]
    if kind == "add_methods":
        body = _parse(edit["code"], where)
        if not body or not all(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in body):
            raise InferopsError(f"{where}: 'code' must hold methods (def …) and nothing else")
    elif kind == "add_import":
        body = _parse(edit["code"], where)
        if not body or not all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body):
            raise InferopsError(f"{where}: 'code' must hold import statements and nothing else")
        if any(alias.name == "*" for node in body if isinstance(node, ast.ImportFrom) for alias in node.names):
            raise InferopsError(f"{where}: 'import *' says not what it brings; name what is needed")
    elif kind == "add_dict_entry":
        _expression(edit, "key", where)
        _expression(edit, "value", where)
    elif kind == "extend_condition":
        if edit["operator"] not in ("or", "and"):
            raise InferopsError(f"{where}: 'operator' must be 'or' or 'and', not {edit['operator']!r}")
        _expression(edit, "condition", where)
        _expression(edit, "operand", where)
    elif kind == "unified_diff":
        try:
            parse_diff(edit["diff"])
        except InferopsError as error:
            raise InferopsError(f"{where}: {error.message}") from error
    elif kind == "replace":
        if not edit["old"]:
            raise InferopsError(f"{where}: 'old' is empty")
        if edit["old"] == edit["new"]:
            raise InferopsError(f"{where}: 'old' and 'new' are the same")
    if edit.get("count", 1) < 1:
        raise InferopsError(f"{where}: 'count' must be at least 1, not {edit['count']}")


def _parse(code: str, where: str) -> list[ast.stmt]:
    try:
        return ast.parse(dedent(code)).body
    except SyntaxError as error:
        raise InferopsError(f"{where}: 'code' is not valid Python: {error.msg} (line {error.lineno})") from error


def _expression(edit: dict[str, Any], field: str, where: str) -> None:
    try:
        ast.parse(edit[field].strip(), mode="eval")
    except SyntaxError as error:
        raise InferopsError(
            f"{where}: {field!r} is not a Python expression: {edit[field]!r}: {error.msg} (a text needs its quotes)"
        ) from error


def _range(text: str, where: str) -> None:
    try:
        clauses(text)
    except InferopsError as error:
        raise InferopsError(f"{where}: {error.message}") from error


def _known(given: Any, known: list[str], where: str, noun: str = "field") -> None:
    for field in given:
        if field not in known:
            raise InferopsError(
                f"{where}: unknown {noun} {field!r}{nearest(str(field), known)} (known: {', '.join(known)})"
            )


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{_word(type(value))} ({value!r})"


def _word(kind: type) -> str:
    words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
    return words.get(kind, "a mapping" if kind is dict else kind.__name__)
