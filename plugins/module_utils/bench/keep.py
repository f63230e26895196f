# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""From two measurements to the verdict that ``speculative.policy: measured`` goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..changes import Plan
from ..errors import InferopsError
from ..server import environment, spec
from ..server import verdict as kept
from . import figures


def combine(base: Mapping[str, Any], changed: Mapping[str, Any], min_gain: float) -> dict[str, Any]:
    """One decision from the comparisons at all concurrencies: slower anywhere is off, faster somewhere is on.

    :raises InferopsError: when the two have no concurrency in common.
    """
    theirs = {level["concurrency"]: level["output_tok_s"]["runs"] for level in base["levels"]}
    found = [
        {
            "concurrency": level["concurrency"],
            **figures.verdict(theirs[level["concurrency"]], level["output_tok_s"]["runs"], min_gain),
        }
        for level in changed["levels"]
        if level["concurrency"] in theirs
    ]
    if not found:
        raise InferopsError(
            f"the two measurements have no concurrency in common: {sorted(theirs)} without speculation, "
            f"{sorted(level['concurrency'] for level in changed['levels'])} with it"
        )
    decisions = {entry["decision"] for entry in found}
    decision = next((name for name in (figures.OFF, figures.ON) if name in decisions), figures.UNDECIDED)
    return {"decision": decision, "ratio": min(entry["ratio"] for entry in found), "verdicts": found}


def verdict(
    instances: Sequence[Mapping[str, Any]],
    base: Mapping[str, Any],
    changed: Mapping[str, Any],
    min_gain: float,
    check_mode: bool,
) -> dict[str, Any]:
    """The module's result: the decision, kept for each instance (there is mostly one).

    :raises InferopsError: for an instance that does not speculate, a build that is not there, or figures that do not
        fit together.
    """
    spec.validate(instances)
    found = combine(base, changed, min_gain)
    plan = Plan()
    for instance in instances:
        if not instance.get("speculative"):
            raise InferopsError(f"instance {instance['name']!r} has no 'speculative': there is nothing to decide")
        place = environment.find(instance)
        if place is None:
            raise InferopsError(f"the build of instance {instance['name']!r} is not on this host; run deploy.yml first")
        old = kept.read(instance, place)
        before = None if old is None else old["speculate"]
        speculate = before if found["decision"] == figures.UNDECIDED else found["decision"] == figures.ON
        plan.add(f"activation/{instance['name']}", "speculation by measurement", before, speculate)
        if not check_mode and speculate is not None and found["decision"] != figures.UNDECIDED:
            kept.write(instance, place, speculate=speculate, ratio=found["ratio"])
    return {"changed": plan.changed, "diff": plan.diff(), **found}
