# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Servers that were put in force on a host and that nobody describes any more: reported, never ended by a plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from .. import layout
from ..changes import Plan

_PREFIX, _SUFFIX = "sglang-", ".service"


def find(described: Iterable[str]) -> list[str]:
    """The names of instances whose unit is there, in order, without those that are ``described``.

    Other units of these names (a gateway's, a look at a server) have no activations.
    """
    try:
        files = os.listdir(layout.UNITS)
    except FileNotFoundError:
        return []
    units = [file for file in files if file.startswith(_PREFIX) and file.endswith(_SUFFIX)]
    names = {file[len(_PREFIX) : -len(_SUFFIX)] for file in units}
    return [name for name in sorted(names - set(described)) if os.path.isdir(layout.Instance(name).activations)]


def plan(units: Mapping[str, Mapping[str, str]]) -> Plan:
    """What is noticed; ``units`` is what systemd says of the unit of each stray, by the instance's name."""
    found = Plan()
    for name, unit in units.items():
        runs = unit.get("ActiveState") not in ("inactive", "failed", None)
        if runs or unit.get("UnitFileState") == "enabled":
            found.notice(
                f"process/{name}",
                "not described",
                f"runs as pid {unit.get('MainPID')}" if runs else "starts with the host",
                "described in sglang_instances, or taken away (docs/unit.md)",
            )
    return found
