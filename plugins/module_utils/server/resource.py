# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One instance on one host: ``look`` reads, ``plan`` decides. What ``sglang_server`` and ``sglang_plan`` share."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import layout, systemd
from ..changes import NONE, RESTART, Plan
from ..errors import InferopsError
from ..files import read_json
from ..running import Runner
from . import activation, environment, process
from .options import ERROR
from .process import Difference
from .render import Rendered, agent_file, render
from .spec import IN_PLACE

if TYPE_CHECKING:
    from .adopt import Stranger

STARTED, STOPPED, RESTARTED, ABSENT = "started", "stopped", "restarted", "absent"


@dataclass(frozen=True)
class Look:
    """Everything that is known of an instance. ``wanted`` is ``None`` while its environment does not exist."""

    instance: Mapping[str, Any]
    unit: Mapping[str, str]
    activation: activation.Observed
    process: process.Observed
    environment: environment.Environment | None
    wanted: Rendered | None
    differences: list[Difference]
    strangers: list[Stranger]
    #: The record of the last start that ``sglang_ready`` has seen serving, this one or an earlier one.
    last_served: dict[str, Any] | None

    @property
    def resource(self) -> str:
        return f"process/{self.instance['name']}"

    @property
    def reasons(self) -> list[str]:
        """Why the running server must be restarted, in words."""
        return [difference.text for difference in self.differences]

    @property
    def started_from(self) -> dict[str, Any] | None:
        """The record of the activation that the running server was started from."""
        return _started_from(self.instance["name"], self.process)

    @property
    def served(self) -> dict[str, Any] | None:
        """What ``sglang_ready`` has kept of the running start; ``None`` for one that it has not seen serving."""
        kept = self.last_served
        return kept if kept is not None and kept["invocation"] == self.unit.get("InvocationID") else None


def show(
    runner: Runner, instances: Sequence[Mapping[str, Any]], others: Sequence[str] = ()
) -> dict[str, dict[str, str]]:
    """What systemd says of the units of the instances, and of ``others``, by their names; asked once.

    ``LookTimer`` is the state of the timer of the looks at a server, where it is to have one.
    """
    timers = {
        unit_name(instance["name"]): layout.Instance(instance["name"]).timer
        for instance in instances
        if instance["liveness_interval"]
    }
    services = [unit_name(instance["name"]) for instance in instances]
    found = systemd.show(runner, [*services, *others, *timers.values()])
    for unit, timer in timers.items():
        if timer in found:
            found[unit]["LookTimer"] = found[timer].get("ActiveState", "")
    return found


def look(
    instance: Mapping[str, Any], unit: Mapping[str, str], schema: dict[str, Any] | None = None, launching: bool = True
) -> Look:
    """Read the host; ``unit`` is what systemd says of the instance's unit.

    ``schema`` are the options of an environment in place, where they have been read and not been kept. A server can be
    stopped, taken away or put back as it was whatever its description says: then it is not ``launching``.

    :raises InferopsError: when the host lacks what an instance to launch names, or its release would refuse an
        argument.
    """
    name = instance["name"]
    absent = list(_absent(instance)) if launching else []
    if absent:
        raise InferopsError("; ".join(f"instance {name!r}: {text}" for text in absent), problems=absent)
    running = process.observe(name, unit)
    found = environment.find(instance, schema)
    wanted = None
    different: list[Difference] = []
    if found is not None:
        wanted = render(instance, found, speculate=_speculates(instance, found))
        refused = [problem for problem in wanted.problems if problem.severity == ERROR]
        if refused and launching:
            raise InferopsError(
                f"instance {name!r} has options that its SGLang would refuse: "
                + "; ".join(f"args.{problem.option}: {problem.message}" for problem in refused),
                problems=[problem.message for problem in refused],
            )
        different = process.differences(instance, found, wanted, running, _started_from(name, running))
    strangers: list[Stranger] = []
    if not running.active:
        # a host on which everything runs needs none of this
        from . import adopt

        strangers = adopt.strangers(instance["port"], unit_name(name))
    last_served = read_json(layout.Instance(name).ready, "invocation")
    return Look(instance, unit, activation.observe(name), running, found, wanted, different, strangers, last_served)


def plan(seen: Look, state: str = STARTED, enabled: bool = True) -> Plan:
    """What ``sglang_server`` would do to bring the instance to ``state``.

    A server that someone started by hand on the instance's port is to be taken over: the caller asks whether it may.
    """
    name = seen.instance["name"]
    changes = Plan()
    if state == ABSENT:
        for path in seen.activation.files:
            changes.add(f"activation/{name}", path, "present", None)
        changes.add(f"activation/{name}", "record", seen.activation.last and seen.activation.last["n"], None)
        changes.add(seen.resource, "state", _state(seen), STOPPED, RESTART)
        return changes
    if state != STOPPED:
        for stranger in seen.strangers:
            changes.add(seen.resource, "adopt", stranger.describe(), "ended and taken over by the unit", RESTART)
        changes.extend(_activation(seen))
    if seen.unit.get("LoadState") == "loaded" or state != STOPPED:
        changes.add(f"activation/{name}", "enabled", seen.unit.get("UnitFileState") == "enabled", enabled)
    if state != STOPPED and timer_stopped(seen):
        changes.add(f"activation/{name}", f"state of {layout.Instance(name).timer}", STOPPED, STARTED)
    if state == STOPPED:
        changes.add(seen.resource, "state", _state(seen), STOPPED, RESTART)
    elif not seen.process.active:
        changes.add(seen.resource, "state", STOPPED, STARTED)
    elif state == RESTARTED:
        changes.add(seen.resource, "restart", "running", "restarted, as asked for", RESTART)
    else:
        for different in seen.differences:
            changes.add(seen.resource, different.what, different.before, different.after, RESTART)
    return changes


def timer_stopped(seen: Look) -> bool:
    """Whether nobody looks at a server that runs and is to be looked at, though its files are right."""
    path = layout.Instance(seen.instance["name"]).timer_file
    found, wanted = seen.activation.files.get(path), seen.wanted.files.get(path) if seen.wanted else None
    if not seen.process.active or wanted is None or found is None or found.text != wanted:
        return False
    return seen.unit.get("LookTimer") in ("inactive", "failed")


def unproven(seen: Look) -> Plan:
    """The change that ``sglang_ready`` makes: an activation in force, or a start, that nobody has seen serving yet.

    systemd starts servers too: at boot and after a crash.
    """
    last = seen.activation.last
    changes = Plan()
    if last is not None and last["outcome"] == activation.PENDING:
        changes.add(f"activation/{seen.instance['name']}", "outcome", last["outcome"], activation.GOOD, NONE)
    elif seen.process.active and not seen.differences and seen.served is None:
        changes.add(seen.resource, "serves", "not seen since its start", True, NONE)
    return changes


def describe(seen: Look) -> dict[str, Any]:
    """The record of the wanted activation, without its number and outcome."""
    if seen.environment is None or seen.wanted is None:
        raise InferopsError(_missing(seen.instance))
    instance, argv = seen.instance, seen.wanted.argv
    return {
        "instance": instance["name"],
        "mode": instance["mode"],
        "build_id": seen.environment.build_id,
        "root": seen.environment.root,
        "python": seen.environment.python,
        "release": seen.environment.release,
        "agent": agent_file(instance),
        "run_as": instance["run_as"],
        "argv": argv,
        "variables": sorted(seen.wanted.variables.keys() | seen.wanted.secret_variables.keys()),
        "secret_variables": sorted(seen.wanted.secret_variables),
        "model_path": instance["model_path"],
        "host": instance["host"],
        "port": instance["port"],
        "speculating": any(word.startswith("--speculative-algorithm=") for word in argv),
    }


def _activation(seen: Look) -> Plan:
    name = seen.instance["name"]
    changes = Plan()
    if seen.wanted is None:
        before = seen.activation.last
        in_place = seen.instance["mode"] == IN_PLACE
        wanted = seen.instance["python"] if in_place else seen.instance["build"]["build_id"]
        changes.add(f"activation/{name}", "options" if in_place else "build", before and before["build_id"], wanted)
        changes.deferred.append(f"activation/{name}: unit and arguments are known once {wanted} has been read")
        return changes
    changes = activation.plan(seen.activation, describe(seen), seen.wanted.files, seen.wanted.secret)
    if not changes.changed:
        # the file is right and systemd has not read it
        changes.add(f"activation/{name}", "loaded by systemd", seen.unit.get("NeedDaemonReload") != "yes", True)
    return changes


def _absent(instance: Mapping[str, Any]) -> Iterable[str]:
    """What the description names and this host does not have; the service user is made by ``prepare``."""
    user = instance["run_as"]
    try:
        pwd.getpwnam(user if user != layout.SERVICE_USER else "root")
    except KeyError:
        yield f"run_as is {user!r}, and this host has no such user: make it, or leave run_as out"
    if instance["mode"] != IN_PLACE:
        return
    if not os.access(instance["python"], os.X_OK):
        yield f"python is {instance['python']!r}, which is no program on this host: name your environment's bin/python"
    if instance.get("source") and not os.path.isdir(instance["source"]):
        yield f"source is {instance['source']!r}, which is no folder on this host: name the checkout, or leave it out"


def _missing(instance: Mapping[str, Any]) -> str:
    name = instance["name"]
    if instance["mode"] == IN_PLACE:
        return f"instance {name!r}: the options of {instance['python']} have not been read"
    return (
        f"instance {name!r} wants the build {instance['build']['build_id']}, which is not there or not sealed under "
        f"{layout.BUILDS}; make it with python_env (deploy.yml does) before the server is put in force"
    )


def unit_name(name: str) -> str:
    return layout.Instance(name).unit


def _state(seen: Look) -> str:
    return STARTED if seen.process.active else STOPPED


def _speculates(instance: Mapping[str, Any], found: environment.Environment) -> bool:
    if not instance.get("speculative"):
        return False
    from . import verdict

    return verdict.speculate(instance, found)


def _started_from(name: str, running: process.Observed) -> dict[str, Any] | None:
    number = (running.record or {}).get("activation")
    return activation.record(name, number) if number else None
