# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A report as one screen of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import drift

_WIDTH = 60
#: So many differences of one host are named on the screen; the page and the JSON name all.
_NAMED = 12


def lines(report: Mapping[str, Any]) -> list[str]:
    """The screen: a line for the whole, then each host that is not as described."""
    hosts = (line for name in report["hosts"] for line in _host(name, report["hosts"][name]))
    return ["", head(report), *map(_harmless, hosts), ""]


def head(report: Mapping[str, Any]) -> str:
    """The whole in one line."""
    summary = report["summary"]
    said = [f"{summary[state]} {state.replace('_', ' ')}" for state in drift.STATES if summary[state]]
    parts = f"; {summary['differences']} difference(s)" if summary["differences"] else ""
    put_right = f"; {summary['corrections']} put right" if summary["corrections"] else ""
    return f"{summary['hosts']} host(s): {', '.join(said) or 'none'}{parts}{put_right}"


def short(value: Any) -> str:
    """A value in one short line."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    rows = text.strip().splitlines() or [""]
    if len(rows) > 1:
        return f"{len(rows)} lines"
    return rows[0] if len(rows[0]) <= _WIDTH else rows[0][: _WIDTH - 1] + "…"


def _harmless(line: str) -> str:
    """A line that moves no cursor: names of files and commands of strangers are shown, whatever is in them."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in line
    )


def _host(name: str, host: Mapping[str, Any]) -> Iterable[str]:
    if host["state"] == drift.IN_SYNC:
        return
    consequence = "" if host["consequence"] == "none" else f" ({host['consequence']})"
    yield f"{name}  {host['state']}{consequence}" + (f": {host['message']}" if host["message"] else "")
    for difference in host["differences"][:_NAMED]:
        mark = "put right" if difference["corrected"] else "" if difference["correctable"] else "reported only"
        change = f"{short(difference['before'])} -> {short(difference['after'])}"
        yield f"    {difference['resource']}  {difference['what']}: {change}" + (f"  [{mark}]" if mark else "")
    if len(host["differences"]) > _NAMED:
        yield f"    and {len(host['differences']) - _NAMED} more"
