# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``process``: what really runs, compared with what should run.

The launcher notes what a server was started with (``start record``); the kernel says what it is now. A handler that
was lost, a file edited since, an environment switched under a running server: each is a reason to restart.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import layout, procfs
from ..files import read_bytes, read_json, sha256
from ..hiding import AS_DESCRIBED, AS_FOUND, SECRET, redacted
from .environment import Environment
from .render import Rendered
from .spec import IN_PLACE

#: States of a unit in which there is, or soon will be again, a process.
RUNNING = ("active", "activating", "reloading", "deactivating")


@dataclass(frozen=True)
class Observed:
    """What runs for an instance. ``argv`` is empty where there is no main process; ``record`` is its start record."""

    active: bool
    main_pid: int
    argv: list[str]
    environ: dict[str, str] = field(repr=False)
    uid: int | None
    record: dict[str, Any] | None
    active_since: float | None
    drop_ins: tuple[str, ...] = ()


def observe(name: str, unit: Mapping[str, str]) -> Observed:
    """What runs; ``unit`` is what systemd says of the instance's unit (``systemd.show``)."""
    active = unit.get("ActiveState") in RUNNING
    pid = int(unit.get("MainPID") or 0)
    if not active or not pid:
        return Observed(active, 0, [], {}, None, None, None)
    started = record_file(name, unit["InvocationID"]) if unit.get("InvocationID") else None
    record = read_json(started, "started_at") if started else None
    drop_ins = tuple(sorted({*unit.get("DropInPaths", "").split(), *_drop_ins(name)}))
    return Observed(True, pid, procfs.cmdline(pid), procfs.environ(pid), procfs.uid(pid), record, _since(pid), drop_ins)


def _drop_ins(name: str) -> list[str]:
    """The drop-ins in the unit's own folder, those that systemd has not read yet among them."""
    folder = layout.Instance(name).unit_file + ".d"
    try:
        return [os.path.join(folder, file) for file in os.listdir(folder) if file.endswith(".conf")]
    except OSError:
        return []


def record_file(name: str, invocation_id: str) -> str:
    """The start record of one start."""
    return os.path.join(layout.Instance(name).logs, f"{invocation_id}.json")


def loaded_files(argv: list[str], root: str, secrets_file: str) -> list[str]:
    """The small files that a server reads once, when it starts: configurations, keys, templates, the build's seal."""
    files = [os.path.join(root, "manifest.json"), secrets_file]
    for word in argv:
        option, dummy, value = word.partition("=")
        if option in ("--model-path", "--speculative-draft-model-path", "--tokenizer-path") and os.path.isdir(value):
            files += [os.path.join(value, name) for name in ("config.json", "tokenizer_config.json")]
        elif option.startswith("--") and value.startswith("/") and os.path.isfile(value):
            files.append(value)
    return files


def digests(files: list[str]) -> dict[str, str | None]:
    """The digest of each file, ``None`` for one that is not there."""
    found = ((path, read_bytes(path)) for path in files)
    return {path: None if raw is None else sha256(raw) for path, raw in found}


@dataclass(frozen=True)
class Difference:
    """Why the running server is not the one that is wanted: the part, as it runs, as it should, and all in words."""

    what: str
    before: Any
    after: Any
    text: str


def differences(
    instance: Mapping[str, Any],
    environment: Environment,
    rendered: Rendered,
    observed: Observed,
    before: Mapping[str, Any] | None,
) -> list[Difference]:
    """What makes the running server another than the wanted one; empty when it is that one, or when none runs.

    ``before`` is the record of the activation that the server was started from, where it is known.
    """
    if not observed.main_pid:
        return []
    if observed.record is None:
        text = "it was not started by this collection's launcher, so what it has loaded is not known"
        return [Difference("start record", None, "of this collection's launcher", text)]
    return [
        *_environment_differences(environment, observed),
        *_argv_differences(rendered.argv, observed),
        *_variable_differences(rendered, observed, before),
        *_unit_differences(instance, rendered, observed),
        *_file_differences(instance, rendered, observed.record),
        *_drop_in_differences(observed),
    ]


def _environment_differences(environment: Environment, observed: Observed) -> Iterator[Difference]:
    running = observed.argv[0] if observed.argv else ""
    if running != environment.python:
        root = os.path.dirname(os.path.dirname(running))
        text = f"it runs from {root}; wanted is {environment.root}"
        yield Difference("environment", root, environment.root, text)


def _argv_differences(wanted: list[str], observed: Observed) -> Iterator[Difference]:
    added = (observed.record or {}).get("added") or []
    have = [word for word in observed.argv[1:] if word not in added]
    want = wanted[1:]
    if have == want:
        return
    before, after = _options(have), _options(want)
    for option in sorted(before.keys() | after.keys()):
        runs, wants = before.get(option), after.get(option)
        if runs != wants:
            yield _said_of(f"option {option}", runs, wants)
    if before == after:
        yield Difference("order of arguments", redacted(have), redacted(want), "its arguments stand in another order")


def _options(words: list[str]) -> dict[str, str]:
    """The options of a command line: name and the rest, further words joined to the option before them."""
    found: dict[str, str] = {}
    option = ""
    for word in words:
        if word.startswith("--"):
            option, dummy, value = word.partition("=")
            # an option that is given twice is one text, so that a change of either is seen
            found[option] = f"{found[option]} {value}" if option in found else value
        else:
            found[option] = f"{found.get(option, '')} {word}".strip()
    return found


def _said_of(what: str, runs: str | None, wants: str | None, secret: bool = False) -> Difference:
    if secret or SECRET.search(what):
        runs, wants = (AS_FOUND if runs else runs), (AS_DESCRIBED if wants else wants)
    return Difference(what, runs, wants, f"{what}: it runs {_said(runs)}; wanted {_said(wants)}")


def _said(value: str | None) -> str:
    if value is None:
        return "without it"
    return f"with {value!r}" if value else "with it"


def _variable_differences(
    rendered: Rendered, observed: Observed, before: Mapping[str, Any] | None
) -> Iterator[Difference]:
    have = observed.environ
    # what it was given in secret may be described in the open now
    secret = set((before or {}).get("secret_variables") or [])
    for name, value in rendered.variables.items():
        if have.get(name) != value:
            yield _said_of(f"environment variable {name}", have.get(name), value, name in secret)
    for name, value in rendered.secret_variables.items():
        if have.get(name) != value:
            what = f"secret environment variable {name}"
            yield Difference(what, AS_FOUND, AS_DESCRIBED, f"{what} is not the one that it was started with")
    wanted = rendered.variables.keys() | rendered.secret_variables.keys()
    for name in (before or {}).get("variables") or []:
        if name not in wanted and name in have:
            # it may have been a secret one
            what = f"environment variable {name}"
            yield Difference(what, "set", None, f"{what} is set in it and no longer wanted")


def _unit_differences(instance: Mapping[str, Any], rendered: Rendered, observed: Observed) -> Iterator[Difference]:
    record = observed.record or {}
    user, run_as = _user(observed.uid), instance["run_as"]
    if user != run_as:
        yield Difference("user", user, run_as, f"it runs as {user}; wanted is {run_as}")
    if record.get("shape") != rendered.shape:
        text = "the unit's limits or its sandbox have changed since it was started"
        yield Difference("limits and sandbox", record.get("shape"), rendered.shape, text)
    gpus = ",".join(instance["gpus"])
    if record.get("gpus") != gpus:
        text = f"it was started on GPUs {record.get('gpus')}; wanted are {gpus}"
        yield Difference("GPUs", record.get("gpus"), gpus, text)


def _file_differences(
    instance: Mapping[str, Any], rendered: Rendered, record: Mapping[str, Any]
) -> Iterator[Difference]:
    secrets = layout.Instance(instance["name"]).secrets_file
    loaded: dict[str, str | None] = record.get("files") or {}
    now = digests([path for path in loaded if path != secrets])
    text = rendered.files.get(secrets)
    now[secrets] = None if text is None else sha256(text.encode())
    for path, digest in loaded.items():
        if digest == now[path]:
            continue
        if path == secrets:
            yield Difference("API keys", AS_FOUND, AS_DESCRIBED, "the API keys changed since it was started")
        else:
            yield Difference(f"loaded file {path}", digest, now[path], f"{path} changed since it was started")
    if instance["mode"] == IN_PLACE and instance.get("source"):
        newest = newest_source(instance["source"])
        if newest and newest[0] > record["started_at"]:
            yield _older(newest[1], record["started_at"], newest[0], f"{newest[1]} was edited since it was started")


def _drop_in_differences(observed: Observed) -> Iterator[Difference]:
    """Settings of the user's own for the unit; what they say is not ours, that they count is."""
    for path in observed.drop_ins:
        try:
            changed = os.stat(path).st_mtime
        except OSError:
            continue
        if observed.record and changed > observed.record["started_at"]:
            text = f"the drop-in {path} of its unit changed since it was started"
            yield _older(f"drop-in {path}", observed.record["started_at"], changed, text)


def _older(what: str, started: float, changed: float, text: str) -> Difference:
    """The process is older than a file that it has read."""
    return Difference(what, f"started {_clock(started)}", f"changed {_clock(changed)}", text)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def newest_source(root: str) -> tuple[float, str] | None:
    """The Python file below a checkout's package that was changed last, with the time of its change."""
    newest: tuple[float, str] | None = None
    for base in (os.path.join(root, "python", "sglang"), os.path.join(root, "sglang")):
        for folder, dummy, names in os.walk(base):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    changed = os.stat(path).st_mtime
                    newest = max(newest or (0.0, ""), (changed, path))
    return newest


def _user(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid).pw_name if uid is not None else "an unknown user"
    except KeyError:
        return f"user id {uid}"


def _since(pid: int) -> float | None:
    """When the process started, in seconds since the epoch."""
    process = procfs.read(pid)
    if process is None:
        return None
    with open("/proc/stat", encoding="ascii") as stream:
        booted = next(int(line.split()[1]) for line in stream if line.startswith("btime"))
    return booted + process.started / os.sysconf("SC_CLK_TCK")
