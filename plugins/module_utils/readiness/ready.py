# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What ``sglang_ready`` does with a wait: its result, its failure message, and the mark on the activation."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from textwrap import shorten
from typing import Any

from .. import procfs
from ..errors import InferopsError
from ..files import read_json, write_atomic
from ..gpu.driver import Roots, kernel_version
from ..layout import Instance
from ..running import Runner
from ..server import activation, force, lease
from . import unit as units
from .inspect import of_instance
from .verdict import FAILED, READY, STALLED, STARTING
from .watch import TIMEOUT, Abandoned, Options, Result, Watch

#: In the instance's folder: what is kept of the last start that served.
KEPT = "ready.json"
# How Ansible names a folder that it makes on a host, and a module in one.
_MADE = re.compile(r"ansible-tmp-[\d.-]+")
# As much of a cause as a person reads; all of it is in the result.
_CAUSE = 300
_SENT = re.compile(r"/AnsiballZ_\w+\.py$")


def wait(
    runner: Runner,
    name: str,
    options: Options,
    progress: str = "",
    *,
    mark: bool = True,
    run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Wait until the instance is ready.

    ``progress``: a file that gets a line on each change of phase. ``mark``: whether the activation in force is marked
    good or failed, by which a later restore is chosen. ``run``: whose lease is renewed meanwhile; after that it holds
    for as long as others, who are told when all are through, may still wait.

    :raises InferopsError: when it does not become ready; the result holds the diagnosis.
    """
    options.report = _reporter(progress) if progress else None
    renewed = lease.Renewed(name, run)
    options.alive = renewed.tick
    before = {number: signal.signal(number, _leave) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        result = Watch(runner, name, options).wait()
    except Abandoned:
        _clean_up(progress)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    renewed.renew(options.timeout)
    told = to_dict(result)
    if mark and result.start is not None:
        told["changed"] = _mark(name, result)
        if result.verdict == READY:
            told["changed"] |= _keep(name, told)
    if result.verdict != READY:
        raise InferopsError(message(name, result, told), **told)
    return told


def look(runner: Runner, name: str, *, mark: bool = True) -> dict[str, Any]:
    """What can be said without waiting or asking the server anything (check mode).

    A start that goes well is expected to end well: ``changed`` foretells what the wait would note of it then.
    """
    instance = Instance(name)
    unit = units.observe(runner, instance)
    if not unit.found or unit.pid == 0:
        return {"changed": False, "state": "deferred", "deferred": [f"{instance.unit} does not run yet"]}
    found = of_instance(runner, name)
    verdict = READY if found["verdict"] == STARTING else found["verdict"]
    news = _outcome(name, unit.invocation, verdict) is not None
    news |= verdict == READY and not _seen(instance, unit.invocation)
    failure = None if found["verdict"] == READY else found
    return {"changed": mark and news, "state": found["verdict"], "failure": failure}


def to_dict(result: Result) -> dict[str, Any]:
    """The result as the module returns it."""
    state, gate, start = result.state, result.gate, result.start
    first = gate.first if gate is not None else None
    told: dict[str, Any] = {
        "changed": False,
        "state": result.verdict,
        "phases": result.phases,
        "ready_after_s": None,
        "first_generation": None,
        "generation": None,
        "sampled_generation": None,
        "soak": None,
        "speculative": None,
        "waited_s": round(result.waited_s, 3),
        "verdict_at": time.time(),
        "cpu_s": round(result.cpu_s, 3),
        "findings": list(state.findings),
        "invocation": start.invocation if start else None,
        "log": start.log if start else None,
        "failure": None,
    }
    if gate is not None and first is not None:
        after = _after(result, gate.first_at)
        told["first_generation"] = {"seconds": round(first.seconds, 4), "text": first.text, "at": gate.first_at}
        told["ready_after_s"] = None if after is None else round(after, 3)
        if gate.sampled is not None:
            told["sampled_generation"] = {"seconds": round(gate.sampled.seconds, 4), "text": gate.sampled.text}
        if gate.soaked:
            told["soak"] = {"requests": len(gate.soaked), "slowest_s": round(max(gate.soaked), 4)}
        shown = gate.measured or first
        told["generation"] = shown.text
        told["speculative"] = _speculative(result)
    elif result.verdict == READY:  # a node that nobody can ask
        told["ready_after_s"] = _said_after(result)
    if result.verdict != READY:
        told["failure"] = _failure(result)
    return told


def message(name: str, result: Result, told: dict[str, Any]) -> str:
    """What happened, the line that is the cause, where it stands, and what to do: a few lines for a person."""
    state = result.state
    who = f" of {state.rank}" if state.rank else ""
    head = f"{name} is not ready: {result.verdict}, {state.category}, in phase {state.phase}{who}"
    if result.verdict == TIMEOUT:
        head = f"{name} is not ready after {result.waited_s:.0f} s: still in phase {state.phase} ({state.category})"
    cause = state.cause
    rows = [
        ("cause", shorten(cause.text, _CAUSE, placeholder=" …") if cause else ""),
        ("log", f"{told['log']}{f', line {cause.number}' if cause else ''}" if told["log"] else ""),
        *(("also", finding) for finding in state.findings[:3]),
        ("advice", state.hint),
    ]
    return "\n".join([head, *(f"  {label:6} {text}" for label, text in rows if text)])


def _failure(result: Result) -> dict[str, Any]:
    described = result.state.to_dict()
    kept = ("verdict", "category", "cause", "rank", "phase", "hint", "excerpt", "was_ready", "ranks", "progress")
    failure = {key: described[key] for key in kept}
    failure["stacks"] = result.stacks
    if result.gate is not None and result.gate.last_error:
        failure["last_answer"] = result.gate.last_error
    return failure


def _after(result: Result, first_at: float) -> float | None:
    """Seconds from the start to the first token; of a server that was ready before we came, to its own ready line."""
    start = result.start
    if start is None or start.started_at is None:
        return None
    said = _said_after(result)
    if said is not None and first_at - start.started_at > said + result.waited_s + 1:
        return said
    return first_at - start.started_at


def _said_after(result: Result) -> float | None:
    """Seconds from the start to the server's own word that it serves."""
    return next((float(phase["started"]) for phase in result.phases if phase["name"] == "serving"), None)


def _speculative(result: Result) -> dict[str, Any] | None:
    start, gate = result.start, result.gate
    if start is None or gate is None or not start.speculative:
        return None
    accept, steps = gate.accept_length, start.speculative.get("num_steps")
    most = None if steps is None else int(steps) + 1
    told = {**start.speculative, "accept_length": accept, "most": most}
    if accept is not None and accept < 1.05:
        told["warning"] = (
            f"accept length {accept:.2f} of at most {most}: the draft is hardly ever right; check that it belongs to "
            "this target and has its lm_head"
        )
    return told


def _mark(name: str, result: Result) -> bool:
    """Mark the activation that was started. One that has been good stays good: a later failure is not its fault."""
    wanted = _outcome(name, result.start.invocation, result.verdict) if result.start else None
    return wanted is not None and bool(force.set_outcome(name, *wanted))


def _outcome(name: str, invocation: str, verdict: str) -> tuple[int, str] | None:
    """The activation that a verdict says something new of, and what; ``None`` where there is no news."""
    recorded = read_json(units.record_path(Instance(name), invocation))
    number = recorded.get("activation") if recorded else None
    found = activation.record(name, int(number)) if number is not None else None
    if number is None or found is None:
        return None
    if verdict == READY:
        return None if found["outcome"] == "good" else (int(number), "good")
    failed = verdict in (FAILED, STALLED) and found["outcome"] == activation.PENDING
    return (int(number), "failed") if failed else None


def _seen(instance: Instance, invocation: str) -> bool:
    """Whether this start has been seen serving before. A unit that is none of ours has no memory for it."""
    if not os.path.isdir(os.path.dirname(instance.ready)):
        return True
    kept = read_json(instance.ready)
    return kept is not None and kept["invocation"] == invocation


def _keep(name: str, told: dict[str, Any]) -> bool:
    """Keep what is worth telling of a start, for status and the summary of a deploy; the first look is the true one.

    Whether it was the first.

    :raises OSError: when the instance's folder cannot be written.
    """
    if _seen(Instance(name), told["invocation"]):
        return False
    entry = {key: told[key] for key in ("invocation", "ready_after_s", "phases", "first_generation")}
    entry["generation"] = told["generation"]
    entry["speculative"] = told["speculative"]
    # a plan tells by it that the driver was moved since
    entry["driver"] = kernel_version(Roots())
    write_atomic(Instance(name).ready, json.dumps(entry, indent=1).encode())
    return True


def _reporter(path: str) -> Callable[[str], None]:
    def report(line: str) -> None:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    return report


def _leave(number: int, dummy: object) -> None:
    """The terminal is gone (a connection without pipelining has one), or someone ends the module."""
    raise Abandoned(f"ended by {signal.Signals(number).name}: nobody waits for the answer any more")


def _clean_up(progress: str) -> None:
    """Nobody is left to remove what was put on the host for this wait: the progress file and the module itself.

    Without pipelining a module is a file in a folder of its own, and this process was started from it.
    """
    leftovers = [progress] if progress else []
    leftovers += [word for word in procfs.cmdline(os.getpid()) if _SENT.search(word)]
    for path in leftovers:
        if _MADE.fullmatch(os.path.basename(os.path.dirname(path))):
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
