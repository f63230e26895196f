# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Servers that were put in force on a host and that nobody describes any more: reported, never ended by a plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from .. import layout
from ..changes import Plan
from . import spec


def find(described: Iterable[str]) -> list[str]:
    """The names of instances that were put in force here, in order, without those that are ``described``.

    Their activations tell: a server runs on when its unit's file is gone. A copy of such a folder by a name that
    no instance can have is none.
    """
    try:
        names = os.listdir(layout.ROOT)
    except FileNotFoundError:
        return []
    left = sorted(set(filter(spec.is_name, names)) - set(described))
    return [name for name in left if os.path.isdir(layout.Instance(name).activations)]


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
