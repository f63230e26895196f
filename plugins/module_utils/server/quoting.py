# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""How any string is written so that systemd hands it on unchanged (systemd.syntax(7), systemd.exec(5))."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_PLAIN = re.compile(r"[A-Za-z0-9_@/.,:=+-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def word(text: str) -> str:
    """One word of a setting that takes several (paths, options): specifiers and quotes are escaped."""
    doubled = text.replace("%", "%%")
    if _PLAIN.fullmatch(text):
        return doubled
    return '"' + "".join(_escape(character) for character in doubled) + '"'


def argument(text: str) -> str:
    """One word of a command line (``ExecStart=``), where ``$`` begins a variable too.

    >>> argument('a "b" 100% $HOME')
    '"a \\\\"b\\\\" 100%% $$HOME"'
    """
    return word(text).replace("$", "$$")


def command(words: list[str]) -> str:
    """A command line, one option a line, so that a diff of two units shows the option that differs."""
    first, *rest = words
    return argument(first) + "".join((" \\\n    " if w.startswith("--") else " ") + argument(w) for w in rest)


def environment(variables: Mapping[str, str]) -> str:
    """The text of an ``EnvironmentFile=``.

    In double quotes systemd takes a backslash before ``"``, ``\\``, a backtick and ``$`` away, and everything else
    literally, line breaks too.
    """
    return "".join(f'{name}="{_quoted(value)}"\n' for name, value in sorted(variables.items()))


def yaml(values: Mapping[str, str]) -> str:
    """A YAML mapping of strings of printable ASCII: there, a JSON string is a YAML string."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in sorted(values.items()))


def _quoted(value: str) -> str:
    return re.sub(r'(["\\`$])', r"\\\1", value)


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\x{ord(character):02x}" if ord(character) < 32 or ord(character) == 127 else character
