# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Preflight of a host's instances: facts once, then the table of checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InferopsError
from ..running import Runner
from ..server import spec
from . import (
    check,
    checks_attention,
    checks_draft,
    checks_host,
    checks_kernels,
    checks_models,
    checks_parallel,
    checks_speculation,
    gather,
    probe,
)

#: Every check there is, in the order in which a reader wants them; docs/preflight.md lists the same.
TABLE: tuple[check.Item, ...] = (
    *checks_host.TABLE[:2],
    *checks_models.TABLE,
    *checks_parallel.TABLE,
    *checks_draft.TABLE,
    *checks_speculation.TABLE,
    *checks_attention.TABLE,
    *checks_kernels.TABLE,
    *checks_host.TABLE[2:],
    *probe.TABLE,
)


def preflight(
    instances: Sequence[Mapping[str, Any]], runner: Runner, *, inside_unit: bool, adopting: bool
) -> dict[str, Any]:
    """Check every instance. ``inside_unit`` adds the look from inside each unit's settings (some seconds each);
    ``adopting``: servers that were started by hand on an instance's port give way.

    Returns ``checks`` and ``summary`` (a line for each finding that needs attention).

    :raises InferopsError: with the same values, when a check that fails as an error was not acknowledged.
    """
    spec.validate(instances)
    for instance in instances:
        check.refuse_unknown(instance["acknowledge"], TABLE, instance["name"])
    gpus = gather.gpus_of_host(instances, runner)
    every = [gather.gather(instance, runner, gpus, adopting) for instance in instances]
    found: list[dict[str, Any]] = []
    for facts in every:
        facts.others = [other for other in every if other is not facts]
        if inside_unit:
            probe.look(facts, runner)
        found += check.run(TABLE, facts, facts.instance["acknowledge"])
    result = {"changed": False, "checks": found, "summary": summary(found)}
    fatal = check.fatal(found)
    if fatal:
        raise InferopsError(
            f"{len(fatal)} check{'s' if len(fatal) > 1 else ''} forbid{'' if len(fatal) > 1 else 's'} a launch. "
            + " ".join(f"[{c['instance']}: {c['name']}] {c['message']}." for c in fatal)
            + " A finding that you accept is named in the instance's 'acknowledge'.",
            **result,
        )
    return result


def summary(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each finding that is not in order."""
    return [
        f"{c['instance']}: {'acknowledged ' if c['acknowledged'] else ''}{c['severity']} {c['name']}: {c['message']}"
        for c in checks
        if not c["ok"]
    ]
