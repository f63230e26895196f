# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What ``sglang_server`` does: brings instances to a state, one after the other, whatever becomes of the others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from .. import layout, procfs, systemd
from ..changes import RESTART, Plan
from ..errors import InferopsError
from ..running import Runner, check
from . import (
    activation,
    adopt,
    agents,
    environment,
    force,
    lease,
    options,
    options_worker,
    process,
    resource,
    spec,
    tree,
)
from .render import STOP_MARGIN
from .resource import ABSENT, RESTARTED, STARTED, STOPPED, Look

RESTORED, CLAIMED, RELEASED = "restored", "claimed", "released"
STATES = (STARTED, STOPPED, RESTARTED, RESTORED, CLAIMED, RELEASED, ABSENT)
# imported so that it travels with the module: a build's interpreter runs it
WORKER = options_worker.__name__


def run(
    runner: Runner,
    instances: Sequence[Mapping[str, Any]],
    *,
    state: str,
    enabled: bool,
    adopting: bool,
    holder: Mapping[str, Any],
    check_mode: bool,
    reject: Mapping[str, int] | None = None,
    term: int = lease.TERM,
) -> tuple[Plan, list[dict[str, Any]]]:
    """Bring each instance to ``state``: the plan, and what is known of each afterwards.

    ``holder`` is the run for which the lease on each instance is taken, for ``term`` seconds and a drain. ``reject``
    names activations that a restore must not keep although they served. Nothing is launched before all are planned.
    Once one instance is touched, all are brought as far as they come: one that fails leaves no other half done.

    :raises InferopsError: for a wrong description, a build that is not there, a server that is not ours on the port,
        a lease of another run, a unit that does not start or stop. All instances that failed are named, and
        ``servers`` in the result are those that did not.
    """
    if state == RELEASED:
        for name in [] if check_mode else [instance["name"] for instance in instances]:
            lease.release(name, holder)
        return Plan(), []
    spec.validate(instances)
    launching = state in (STARTED, RESTARTED)
    units = resource.show(runner, instances)
    whole, planned, results = Plan(), [], []
    failures: dict[str, InferopsError] = {}
    for instance in instances:
        name = instance["name"]
        try:
            look = _look(runner, instance, units[resource.unit_name(name)], launching, check_mode)
            changes = _plan(runner, look, state, enabled, reject or {})
            if look.strangers and launching and not adopting and not check_mode:
                raise adopt.refuse(name, look.strangers)
        except InferopsError as error:
            failures[name] = error
        else:
            planned.append((look, changes))
            whole.extend(changes)
    if failures and (launching or check_mode):
        raise _failed(failures)
    for look, changes in planned:
        try:
            if (changes.changed or state == CLAIMED) and not check_mode:
                lease.take(look.instance["name"], holder, term + look.instance["drain_timeout"])
            if changes.changed and not check_mode:
                _apply(runner, look, changes, state, enabled, holder, reject or {})
            results.append(_result(runner, look, changes, check_mode))
        except InferopsError as error:
            failures[look.instance["name"]] = error
        except OSError as error:
            # a full disk, say: the other instances need nothing of it to be stopped
            failures[look.instance["name"]] = InferopsError(f"instance {look.instance['name']!r}: {error}")
    if failures:
        raise _failed(failures, servers=results, changed=whole.changed, diff=whole.diff())
    return whole, results


def _failed(failures: Mapping[str, InferopsError], **known: Any) -> InferopsError:
    """One error for all: each instance with its message, and what its error carries."""
    told = [{"name": name, "msg": error.message, **error.result} for name, error in failures.items()]
    carried = {key: value for error in failures.values() for key, value in error.result.items()}
    message = "; ".join(error.message for error in failures.values())
    return InferopsError(message, **{**carried, **known, "failures": told})


def _look(
    runner: Runner, instance: Mapping[str, Any], unit: Mapping[str, str], launching: bool, check_mode: bool
) -> Look:
    schema = None
    if launching and instance["mode"] == spec.IN_PLACE and environment.kept_schema(instance) is None:
        schema = options.dump(runner, instance["python"], {name: str(v) for name, v in instance["env"].items()})
        if not check_mode:
            environment.keep_schema(instance, schema)
    return resource.look(instance, unit, schema, launching)


def _plan(runner: Runner, look: Look, state: str, enabled: bool, reject: Mapping[str, int]) -> Plan:
    if state == CLAIMED:
        return Plan()
    if state != RESTORED:
        return resource.plan(look, state, enabled)
    name, changes = look.instance["name"], Plan()
    good, last = _good(look, reject), look.activation.last
    if last is None:
        raise InferopsError(f"instance {name!r} has never been put in force on this host: there is nothing to restore")
    if good is None and last["n"] == reject.get(name):
        raise InferopsError(
            f"instance {name!r} is on its first activation that served ({last['n']}): there is nothing to put back; "
            "nothing was touched"
        )
    if good is not None:
        changes.extend(tree.plan_restore(runner, look.instance, good))
    if good is None or good["n"] != last["n"]:
        changes.add(f"activation/{name}", "in force", last["n"], good["n"] if good else None, RESTART)
    elif not look.process.active:
        changes.add(look.resource, "state", STOPPED, STARTED)
    return changes


def _good(look: Look, reject: Mapping[str, int]) -> dict[str, Any] | None:
    """The activation that a restore puts back."""
    name, last = look.instance["name"], look.activation.last
    rejected = last is not None and last["n"] == reject.get(name)
    return activation.last_good(name, before=reject[name] if rejected else None)


def _apply(
    runner: Runner,
    look: Look,
    changes: Plan,
    state: str,
    enabled: bool,
    holder: Mapping[str, Any],
    reject: Mapping[str, int],
) -> None:
    name, unit = look.instance["name"], resource.unit_name(look.instance["name"])
    if state == STOPPED:
        stop(runner, unit, look.instance["drain_timeout"])
        _enable(runner, look, enabled)
        lease.release(name, holder)
    elif state == ABSENT:
        _remove(runner, look)
    elif state == RESTORED:
        _restore(runner, look, _good(look, reject))
    else:
        desired = resource.describe(look)
        _require_agent(desired["agent"])
        for stranger in look.strangers:
            adopt.end(stranger, look.instance["drain_timeout"])
        again = look.process.active and (state == RESTARTED or bool(look.reasons))
        if again:
            stop(runner, unit, look.instance["drain_timeout"])
        files = look.wanted.files if look.wanted else {}
        _end_timer(runner, look, files)
        # a server that runs on has served already, or is still to: its own activation tells, or will
        carried = None if again or not look.process.active else look.started_from
        desired["started_as"] = carried["n"] if carried else None
        desired["patches"] = tree.in_force(runner, look.instance)
        _put_in_force(runner, name, desired, files, carried["outcome"] if carried else activation.PENDING)
        _enable(runner, look, enabled)
        timer, timer_file = layout.Instance(name).timer, layout.Instance(name).timer_file
        if again or not look.process.active:
            start(runner, name, unit)
        elif timer_file in files and (resource.timer_stopped(look) or _timer_text(look) != files[timer_file]):
            check(runner, ["systemctl", "restart", timer], f"starting {timer}")


def _timer_text(look: Look) -> str | None:
    found = look.activation.files.get(layout.Instance(look.instance["name"]).timer_file)
    return found.text if found else None


def _end_timer(runner: Runner, look: Look, files: Mapping[str, str]) -> None:
    """Stop the timer of the looks at a server before its file goes."""
    paths = layout.Instance(look.instance["name"])
    if _timer_text(look) is not None and paths.timer_file not in files:
        check(runner, ["systemctl", "stop", paths.timer], f"stopping {paths.timer}")


def _put_in_force(
    runner: Runner, name: str, desired: Mapping[str, Any], files: Mapping[str, str], outcome: str
) -> None:
    with lease.locked(name):
        force.store(name, desired, files, outcome)
        force.put_in_force(name, desired, files)
        force.prune(name)
        agents.prune(desired["agent"])
    check(runner, ["systemctl", "daemon-reload"], "making systemd read its units again")


def start(runner: Runner, name: str, unit: str) -> None:
    """Start a unit, giving a start that was asked for the two attempts that the breaker allows.

    :raises InferopsError: when it does not start; the breaker's reason is in the message.
    """
    force.ask(name)
    check(runner, ["systemctl", "start", unit], f"starting {unit}")
    now = systemd.show(runner, [unit])[unit]
    if now["ActiveState"] not in process.RUNNING:
        raise InferopsError(
            f"{unit} was started and is {now['ActiveState']} ({now['Result']}); "
            f"see 'systemctl status {unit}' and the newest log in {layout.Instance(name).logs}",
            unit=unit,
        )


def stop(runner: Runner, unit: str, drain: int) -> None:
    """Stop a unit and see that nothing of it is left. A unit that waits for its next attempt is stopped too.

    :raises InferopsError: when a process of it stays, or when it ended as a failure.
    """
    before = systemd.show(runner, [unit])[unit]
    check(runner, ["systemctl", "stop", unit], f"stopping {unit} (its running requests have {drain + STOP_MARGIN} s)")
    now = systemd.show(runner, [unit])[unit]
    if now["ActiveState"] == "failed":
        check(runner, ["systemctl", "reset-failed", unit], f"clearing the failure of {unit}")
        now = systemd.show(runner, [unit])[unit]
    left = _members(before.get("ControlGroup", ""))
    if now["ActiveState"] != "inactive" or left:
        shown = ", ".join(f"{pid} ({' '.join(procfs.cmdline(pid))[:60]})" for pid in left)
        raise InferopsError(
            f"{unit} is {now['ActiveState']} after it was stopped; still there: {shown or 'no process'}"
        )


def _members(group: str) -> list[int]:
    """The processes that are left in a unit's control group."""
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"):
        path = f"{base}{group}/cgroup.procs"
        if group and os.path.exists(path):
            with open(path, encoding="ascii") as stream:
                return [int(line) for line in stream]
    return []


def _enable(runner: Runner, look: Look, enabled: bool) -> None:
    unit = resource.unit_name(look.instance["name"])
    if (look.unit.get("UnitFileState") == "enabled") != enabled:
        verb = "enable" if enabled else "disable"
        check(runner, ["systemctl", verb, unit], f"{verb[:-1]}ing {unit}")


def _restore(runner: Runner, look: Look, good: Mapping[str, Any] | None) -> None:
    """Put the activation ``good`` back, with its content as it was then."""
    name, unit = look.instance["name"], resource.unit_name(look.instance["name"])
    last = look.activation.last
    stop(runner, unit, look.instance["drain_timeout"])
    if last is not None and (good is None or last["n"] != good["n"]):
        force.set_outcome(name, last["n"], activation.FAILED)
    if good is None:
        raise InferopsError(
            f"instance {name!r} did not come up, and no activation of it has served before; it is left stopped"
        )
    files = force.files_of(name, good["n"])
    tree.restore(runner, good)
    desired = {key: value for key, value in good.items() if key not in ("format", "n", "outcome", "content", "made_at")}
    _put_in_force(runner, name, {**desired, "restored_from": good["n"]}, files, activation.RESTORED)
    start(runner, name, unit)


def _remove(runner: Runner, look: Look) -> None:
    """Take the instance off the host; its logs stay."""
    name, unit = look.instance["name"], resource.unit_name(look.instance["name"])
    loaded = look.unit.get("LoadState") == "loaded"
    if loaded or look.process.active:  # it runs on when its unit's file is gone
        stop(runner, unit, look.instance["drain_timeout"])
    if loaded:
        check(runner, ["systemctl", "disable", unit], f"disabling {unit}")
    _end_timer(runner, look, {})
    for path in look.activation.files:
        os.unlink(path)
    check(runner, ["systemctl", "daemon-reload"], "making systemd read its units again")
    paths = layout.Instance(name)
    for folder in (paths.root, paths.state, paths.run):
        if os.path.isdir(folder):
            shutil.rmtree(folder)


def _require_agent(path: str) -> None:
    if not os.path.exists(path):
        raise InferopsError(
            f"the host agent {path} is not there; the role's entry point 'prepare' (deploy.yml) puts it on the host"
        )


def _result(runner: Runner, look: Look, changes: Plan, check_mode: bool) -> dict[str, Any]:
    name = look.instance["name"]
    unit = resource.unit_name(name)
    running = look.process
    if changes.changed and not check_mode:
        running = process.observe(name, systemd.show(runner, [unit])[unit])
    last = activation.newest(name)
    restart = bool(look.reasons)
    return {
        "name": name,
        "unit": unit,
        "argv": look.wanted.argv if look.wanted else [],
        "activation": last["n"] if last else None,
        "outcome": last["outcome"] if last else None,
        "restart_needed": restart,
        "restart_reasons": look.reasons,
        "main_pid": running.main_pid or None,
        "active_since": running.active_since,
        "adopted": [stranger.describe() for stranger in look.strangers],
    }
