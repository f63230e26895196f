# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What an edit finds in a file, and what it would change there. One function a kind; all share one answer."""

from __future__ import annotations

from typing import Any

from .edit_code import add_import, add_methods
from .edit_condition import extend_condition
from .edit_dict import add_dict_entry
from .edit_text import replace, unified_diff
from .outcome import Outcome
from .source import Source

_KINDS = {
    "add_methods": add_methods,
    "add_dict_entry": add_dict_entry,
    "extend_condition": extend_condition,
    "add_import": add_import,
    "replace": replace,
    "unified_diff": unified_diff,
}


def evaluate(source: Source, edit: dict[str, Any]) -> Outcome:
    """What of the edit is there already and what is missing.

    :raises Conflict: when the place of the edit is not there, or is not what the edit expects.
    """
    return _KINDS[edit["kind"]](source, edit)


def promises(edit: dict[str, Any]) -> list[str]:
    """What holds once the edit is made, in words, for reports."""
    if edit["kind"] == "add_methods":
        import ast
        from textwrap import dedent

        names = [node.name for node in ast.parse(dedent(edit["code"])).body]  # type: ignore[attr-defined]
        return [f"{edit['class']}.{name}" for name in names]
    if edit["kind"] == "add_dict_entry":
        return [f"{edit['dict']}[{edit['key']}]"]
    if edit["kind"] == "extend_condition":
        return [f"{edit['condition']} {edit['operator']} {edit['operand']}"]
    return []
