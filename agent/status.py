# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``status`` and ``diagnose``: what a person on the host wants to know, without Ansible."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.files import read_json
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import live
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation

from agent.running import run as runner


def show(instance: str) -> int:
    """Print the state of one instance, or of all on this host."""
    names = [instance] if instance else known()
    for name in names:
        print(_lines(name))
    if not names:
        print(f"no instance in {layout.ETC}; deploy.yml puts one there")
    return 0


def diagnose(instance: str) -> int:
    """Print what became of the present or the last start: the cause, and the rank that it came from."""
    told = live.diagnose(runner, instance)
    print(f"{instance}: {told['verdict']} ({told['category']}), phase {told['phase']}")
    if told["cause"]:
        print(f"  cause   line {told['cause']['number']}: {told['cause']['line'].strip()}")
    for label, value in (("rank", told["rank"]), ("advice", told["hint"]), ("log", told["log"])):
        if value:
            print(f"  {label:7} {value}")
    for finding in told["findings"]:
        print(f"  also    {finding}")
    for line in told.get("processes", []):
        print(f"  {line}")
    return 0


def known() -> list[str]:
    """The instances of this host, by their environment files."""
    names = os.listdir(layout.ETC) if os.path.isdir(layout.ETC) else []
    return sorted(name[:-4] for name in names if name.endswith(".env") and not name.endswith(".secret.env"))


def _lines(name: str) -> str:
    told: dict[str, Any] = live.status(runner, name)
    last = activation.newest(name)
    refused = read_json(os.path.join(layout.Instance(name).run, "breaker.json"))
    rows = [
        ("doing", told["doing"]),
        ("release", told["release"]),
        ("url", told["url"]),
        ("pid", told["pid"] or ""),
        ("started", _when(told["started_at"])),
        ("restarts", told["restarts"] or ""),
        ("build", last["root"] if last else ""),
        ("activation", f"{last['n']}, {last['outcome']}" if last else ""),
        ("log", told["log"]),
        ("advice", told.get("hint") or ""),
        ("refused", refused["why"] if refused else ""),
    ]
    shown = [f"  {label:10} {value}" for label, value in rows if value != ""]
    return "\n".join([f"{name}: {told['unit_state']}", *shown])


def _when(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else ""
