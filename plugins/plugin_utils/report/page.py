# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A report as one page that needs nothing beside itself: no script, style or picture is fetched."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import drift

HERE = Path(__file__).resolve().parent
#: The columns of the matrix, by the kind of a resource; another kind comes after them.
KINDS = ("host", "agent", "toolkit", "build", "activation", "process", "gateway", "gpus")
#: At most so many blocks stand side by side, and a block has at least so many rows.
_BLOCKS, _ROWS = 4, 12
_RUNS = 90
#: Rows of a timeline that are shown without a click.
_SHOWN = 24


def render(report: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """The page. ``runs`` are the earlier ones and this one, oldest first."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.get_template("page.html.j2")
    hosts = report["hosts"]
    kinds = _kinds(hosts)
    starts = timelines(hosts)
    return template.render(
        report=report,
        summary=report["summary"],
        states=drift.STATES,
        kinds=kinds,
        blocks=blocks([row(name, host, kinds) for name, host in hosts.items()]),
        # of the page's own making: no text of a host is in them
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "page.js").read_text(encoding="utf-8")),
        lines_of=lines_of,
        anchor=anchor,
        starts=starts,
        phases=list(dict.fromkeys(phase["name"] for start in starts for phase in start["phases"])),
        starts_open=len(starts) <= _SHOWN,
        history=history_bars(runs[-_RUNS:]),
    )


def _kinds(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    there = {kind_of(difference) for host in hosts.values() for difference in host["differences"]}
    return [*KINDS, *sorted(there - set(KINDS))]


def kind_of(difference: Mapping[str, Any]) -> str:
    return str(difference["resource"]).partition("/")[0]


def anchor(host: str, kind: str = "") -> str:
    """The id of a host's part of the page, or of what is said there of one kind. A link needs no escapes."""
    plain = re.sub(r"[^\w.:-]", lambda match: f"~{ord(match[0]):x}~", host)
    return f"d-{kind}-{plain}" if kind else f"h-{plain}"


def row(name: str, host: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """One row of the matrix: of each kind how many differences there are, and the heaviest."""
    cells = []
    for kind in kinds:
        found = [difference for difference in host["differences"] if kind_of(difference) == kind]
        cells.append({"kind": kind, "count": len(found), "level": level(found)})
    silent = host["state"] in (drift.UNREACHABLE, drift.FAILED)
    return {"name": name, "state": host["state"], "message": host["message"], "silent": silent, "cells": cells}


def level(differences: Sequence[Mapping[str, Any]]) -> str:
    """What the differences of a cell come to, as the name of its look."""
    order = ("ok", "corrected", "reported", "none", "restart", "rebuild")
    levels = [
        "corrected" if d["corrected"] else d["consequence"] if d["correctable"] else "reported" for d in differences
    ]
    return max(levels, key=order.index, default="ok")


def blocks(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows in blocks that stand side by side, in the order of the inventory."""
    size = max(_ROWS, math.ceil(len(rows) / _BLOCKS))
    return [list(rows[at : at + size]) for at in range(0, len(rows), size)]


def lines_of(before: Any, after: Any) -> list[tuple[str, str]]:
    """A difference as lines with their sign: ``-`` as found, ``+`` as described, blank in both."""
    one, other = _text(before), _text(after)
    if len(one) > 1 and len(other) > 1:
        rows = list(difflib.unified_diff(one, other, lineterm="", n=2))[2:]
        return [(" ", "…") if line.startswith("@@") else (line[:1], line[1:]) for line in rows]
    return [*(("-", line) for line in one), *(("+", line) for line in other)]


def _text(value: Any) -> list[str]:
    if value is None:
        return ["(nothing)"]
    text = value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    return text.splitlines() or [""]


def timelines(hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last start of each server on one scale, the slowest first; places and widths are in percent."""
    found = []
    for name, host in hosts.items():
        for instance, seen in host["instances"].items():
            start = seen["start"]
            if start and start["phases"] and start["ready_after_s"] is not None:
                found.append((float(start["ready_after_s"]), f"{name} / {instance}", start["phases"]))
    longest = max((total for total, dummy, dummy in found), default=0.0) or 1.0
    return [
        {"label": label, "total": total, "phases": [_bar(phase, total, longest) for phase in phases]}
        for total, label, phases in sorted(found, key=lambda entry: (-entry[0], entry[1]))
    ]


def _bar(phase: Mapping[str, Any], total: float, longest: float) -> dict[str, Any]:
    seconds = max(0.0, total - phase["started"]) if phase["seconds"] is None else phase["seconds"]
    left = 100 * phase["started"] / longest
    return {"name": phase["name"], "seconds": seconds, "left": left, "width": min(100 * seconds / longest, 100 - left)}


def history_bars(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each run as a stack of what was not in order; heights are in percent of the worst run."""
    parts = (drift.DRIFTED, drift.CORRECTED, drift.UNREACHABLE, drift.FAILED)
    worst = max((sum(run.get(part, 0) for part in parts) for run in runs), default=0) or 1
    bars = []
    for run in runs:
        pieces, base = [], 0.0
        for part in parts:
            height = 100 * run.get(part, 0) / worst
            if height:
                pieces.append({"part": part, "top": 100 - base - height, "height": height})
                base += height
        said = ", ".join(f"{run[part]} {part}" for part in parts if run.get(part)) or "all in sync"
        bars.append({"pieces": pieces, "said": f"{run['made_at']}: {said} of {run['hosts']}"})
    return bars
