# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Variables of an inventory that look like ours and are not: one letter wrong, and a default holds without a word."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

_PREFIX = "sglang_"
_PUBLIC = """
    instances instances_override only python indexes find_links wheels waivers capabilities packages ready_timeout
    stall_timeout soak hosts worker_urls replica toolkit toolkit_indexes toolkit_find_links
    bench bench_prompts bench_variants rollout rollout_hosts rollout_plan
    gateway gateway_admin_key gateway_api_key gateway_env gateway_find_links gateway_host gateway_indexes
    gateway_metrics_port gateway_options gateway_port gateway_python gateway_state gateway_version gateway_workers
    drift_guard_cmdline drift_guard_correct drift_guard_extra_vars drift_guard_folder drift_guard_inventory
    drift_guard_keep drift_guard_metrics drift_guard_on_failure drift_guard_playbook drift_guard_project
    drift_guard_python drift_guard_schedule drift_guard_state drift_guard_timeout drift_guard_user drift_guard_window
"""
#: What an inventory may set for our roles and playbooks.
PUBLIC = frozenset(_PREFIX + name for name in _PUBLIC.split())
#: So alike are two words, one of which is the other with a slip.
_ALIKE = 0.75


def misspelt(variables: Mapping[str, Any]) -> list[str]:
    """Variables of a host that nothing reads and that a slip made of one of ours, in words.

    What another variable names in a template is a helper of the inventory's own, however it is called.
    """
    found = []
    for name in variables:
        if not name.startswith(_PREFIX) or name in PUBLIC or "__" in name:
            continue
        near = next((known for known in sorted(PUBLIC) if _slipped(name, known)), None)
        if near is not None and not _read(name, variables):
            found.append(
                f"the inventory sets {name!r}, which nothing reads; did you mean {near!r}? Correct it, or take it out"
            )
    return found


def _slipped(name: str, known: str) -> bool:
    """Whether one word of a name is another's with a slip, or an underscore is too many or too few."""
    words, wanted = name.split("_"), known.split("_")
    if len(words) != len(wanted):
        return "".join(words) == "".join(wanted)
    apart = [pair for pair in zip(words, wanted, strict=True) if pair[0] != pair[1]]
    return len(apart) == 1 and SequenceMatcher(None, *apart[0]).ratio() >= _ALIKE


def _read(name: str, variables: Mapping[str, Any]) -> bool:
    others = (value for key, value in variables.items() if key not in (name, "hostvars", "vars"))
    return any(name in str(value) for value in others)
