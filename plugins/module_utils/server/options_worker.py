# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Runs in the interpreter of an environment with SGLang: reads the options from the release's own parser.

The parser is asked and not the text: some releases write ``add_argument`` calls, later ones generate them from the
fields of a class, and plugins may add more.
"""

from __future__ import annotations

import argparse
import re
from typing import Any


def dump(payload: dict[str, Any]) -> dict[str, Any]:
    """The option schema of the SGLang that this interpreter imports.

    ``payload`` is not used. The result: ``release`` and ``options``, each with ``names`` (every spelling), ``dest``,
    ``kind`` (``value``, ``optional``: a value or none, ``list``, ``append``, ``flag``, ``boolean``: with a ``--no-``
    form), ``type`` (name of the converter), ``nargs``, ``choices``, ``required``, ``deprecated`` (the replacement or
    ``""``; ``null`` where it is not deprecated) and ``retired`` (the message with which the release refuses it).
    """
    from importlib.metadata import version

    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(add_help=False)
    ServerArgs.add_cli_args(parser)
    # argparse offers no public list of its actions; this name is the same in every Python version
    actions = [action for action in parser._actions if action.option_strings]
    return {"format": 1, "release": version("sglang"), "options": [describe(action) for action in actions]}


def describe(action: argparse.Action) -> dict[str, Any]:
    """One option of the parser as JSON values."""
    said = re.match(r"\W*(note:\s*)?(\S+ is )?deprecated\b(.*)", str(action.help or ""), re.IGNORECASE | re.DOTALL)
    deprecated = said is not None or "Deprecated" in type(action).__name__
    instead = re.search(r"use (--[\w-]+)", said.group(3)) if said else None
    return {
        "names": list(action.option_strings),
        "dest": action.dest,
        "kind": _kind(action),
        "type": _type(action),
        "nargs": action.nargs,
        "choices": None if action.choices is None else sorted((_plain(c) for c in action.choices), key=str),
        "required": bool(action.required),
        "deprecated": _replacement(action, instead) if deprecated else None,
        "retired": getattr(action, "error_message", None),
    }


def _replacement(action: argparse.Action, instead: re.Match[str] | None) -> str:
    return str(getattr(action, "new_flag", None) or (instead.group(1) if instead else ""))


def _kind(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction):
        return "boolean"
    if action.nargs == 0:
        return "flag"
    if isinstance(action, argparse._AppendAction):
        return "append"
    if action.nargs == "?":
        return "optional"
    return "value" if action.nargs is None else "list"


def _type(action: argparse.Action) -> str:
    if action.type is None:
        return "str"
    name = getattr(action.type, "__name__", type(action.type).__name__)
    # json.loads and everything that a release calls json_something take a JSON text
    return "json" if name == "loads" or "json" in name.lower() else name


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) or value is None else str(value)
