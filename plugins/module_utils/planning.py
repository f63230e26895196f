# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A whole host in one call: every resource's observe and plan, in the order in which changes are applied."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from . import host
from .build import store
from .changes import Plan
from .errors import InferopsError
from .gpu import drift as gpu_drift
from .running import Runner
from .server import resource, spec, strays, tree


def run(
    runner: Runner,
    instances: Sequence[Mapping[str, Any]],
    toolkit: Mapping[str, Any],
    agent_version: str,
    thorough: bool = False,
    described: Sequence[str] | None = None,
    python: str | None = None,
) -> dict[str, Any]:
    """The plan of a host and what was observed.

    ``described`` names every instance that the host is to have, where ``instances`` are some of them; others that are
    in force there are noticed. ``None``: which those are is not known. ``python`` is what builds
    are made with.

    :raises InferopsError: for a description that cannot be right on this host; every instance's problems are named.
    """
    spec.validate(instances)
    changes = Plan()
    found_host = host.observe(agent_version)
    changes.extend(host.plan(found_host, agent_version))

    found_toolkit = _toolkit(toolkit, changes)

    names = [instance["name"] for instance in instances]
    left = [] if described is None else strays.find([*names, *described])
    units = resource.show(runner, instances, [resource.unit_name(name) for name in left])
    changes.extend(strays.plan({name: units[resource.unit_name(name)] for name in left}))
    builds = _builds(instances, changes, thorough)
    _find_python(python, changes)
    seen = _look(instances, units)
    for look in seen:
        changes.extend(tree.plan(runner, look.instance))
        changes.extend(resource.plan(look))
        changes.extend(resource.unproven(look))
    found_gpus = gpu_drift.observe()
    changes.extend(gpu_drift.plan(found_gpus, [(look.last_served or {}).get("driver") for look in seen]))
    return {
        "plan": changes.to_list(),
        "noticed": [change.to_dict() for change in changes.noticed],
        "in_sync": not changes.changed,
        "consequence": changes.consequence,
        "deferred": changes.deferred,
        "observed": {
            "host": found_host,
            "toolkit": found_toolkit,
            "gpus": found_gpus,
            "instances": {look.instance["name"]: _instance(look, builds) for look in seen},
        },
    }


def _toolkit(described: Mapping[str, Any], changes: Plan) -> dict[str, Any]:
    """What there is of toolkits, where one is described; its plan is added to ``changes``."""
    if dict(described) in ({}, {"source": "none"}):
        return {}  # nor is loaded what compares one: a tenth of all that a plan loads
    from .toolkit import desired, state

    wanted = desired.parse(described)
    found = state.observe(wanted)
    changes.extend(state.plan(found, wanted))
    return found


def _builds(instances: Sequence[Mapping[str, Any]], changes: Plan, thorough: bool) -> dict[str, store.Build | None]:
    """Each distinct build, looked at once, its plan added to ``changes``."""
    builds: dict[str, store.Build | None] = {}
    for instance in instances:
        wanted = instance.get("build")
        if wanted and wanted["build_id"] not in builds:
            builds[wanted["build_id"]] = store.observe(wanted["build_id"], thorough=thorough)
            changes.extend(store.plan(wanted, builds[wanted["build_id"]]))
    return builds


def _find_python(python: str | None, changes: Plan) -> None:
    """Make sure that there is the interpreter to make builds with, if one has to be made.

    :raises InferopsError: when there is none, and ``prepare`` has no packages to install that could bring it.
    """
    builds = any(change.resource.startswith("build/") for change in changes.changes)
    if python is None or not builds or shutil.which(python) is not None:
        return
    if any((change.resource, change.what) == (host.RESOURCE, "compilers") for change in changes.changes):
        changes.deferred.append(f"builds are made with {python}, which is not there yet; packages are installed before")
        return
    raise InferopsError(
        f"sglang_python is {python!r}, which is no program on this host, and a build has to be made with it: install "
        "that Python, or name the one that there is"
    )


def _look(instances: Sequence[Mapping[str, Any]], units: Mapping[str, Mapping[str, str]]) -> list[resource.Look]:
    """Look at all instances; what is wrong with several of them is said in one message."""
    seen, problems = [], []
    for instance in instances:
        try:
            seen.append(resource.look(instance, units[resource.unit_name(instance["name"])]))
        except InferopsError as error:
            problems.append(error.message)
    if problems:
        raise InferopsError("; ".join(problems), problems=problems)
    return seen


def _instance(look: resource.Look, builds: Mapping[str, store.Build | None]) -> dict[str, Any]:
    """What a person wants to know of an instance, in or out of sync."""
    instance, last = look.instance, look.activation.last
    build = builds.get((instance.get("build") or {}).get("build_id", ""))
    host_name = "127.0.0.1" if instance["host"] in ("0.0.0.0", "::") else instance["host"]
    return {
        "state": _state(look),
        "release": look.environment.release if look.environment else None,
        "build_id": look.environment.build_id if look.environment else None,
        "activation": last["n"] if last else None,
        "outcome": last["outcome"] if last else None,
        "restored_from": last.get("restored_from") if last else None,
        "url": f"http://{host_name}:{instance['port']}",
        "main_pid": look.process.main_pid or None,
        "active_since": look.process.active_since,
        "restart_reasons": look.reasons,
        "patches": [{"name": p["name"], "state": p["state"]} for p in build.manifest["patches"]] if build else [],
        "start": look.served,
    }


def _state(look: resource.Look) -> str:
    """``ready`` (it served once since its start), ``starting``, ``failed``, ``stopped`` or ``absent``."""
    if look.process.main_pid:
        return "ready" if look.served else "starting"
    if look.unit.get("ActiveState") == "failed":
        return "failed"
    return "stopped" if look.activation.last else "absent"
