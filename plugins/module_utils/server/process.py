# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``process``: what really runs, compared with what should run.

The launcher notes what a server was started with (``start record``); the kernel says what it is now. A handler that
was lost, a file edited since, an environment switched under a running server: each is a reason to restart.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import layout, procfs
from ..files import read_bytes, read_json, sha256
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
    record = read_json(record_file(name, unit["InvocationID"])) if unit.get("InvocationID") else None
    drop_ins = tuple(unit.get("DropInPaths", "").split())
    return Observed(True, pid, procfs.cmdline(pid), procfs.environ(pid), procfs.uid(pid), record, _since(pid), drop_ins)


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


def reasons(
    instance: Mapping[str, Any],
    environment: Environment,
    rendered: Rendered,
    observed: Observed,
    before: Mapping[str, Any] | None,
) -> list[str]:
    """Why the running server is not the one that is wanted, in words; empty when it is, or when none runs.

    ``before`` is the record of the activation that the server was started from, where it is known.
    """
    if not observed.main_pid:
        return []
    if observed.record is None:
        return ["it was not started by this collection's launcher, so what it has loaded is not known"]
    return [
        *_environment_reasons(environment, observed),
        *_argv_reasons(rendered.argv, observed),
        *_variable_reasons(rendered, observed, before),
        *_unit_reasons(instance, rendered, observed),
        *_file_reasons(instance, rendered, observed.record),
        *_drop_in_reasons(observed),
    ]


def _environment_reasons(environment: Environment, observed: Observed) -> Iterator[str]:
    running = observed.argv[0] if observed.argv else ""
    if running != environment.python:
        yield f"it runs from {os.path.dirname(os.path.dirname(running))}; wanted is {environment.root}"


def _argv_reasons(wanted: list[str], observed: Observed) -> Iterator[str]:
    added = (observed.record or {}).get("added") or []
    have = [word for word in observed.argv[1:] if word not in added]
    want = wanted[1:]
    if have == want:
        return
    before, after = _options(have), _options(want)
    for option in sorted(before.keys() | after.keys()):
        if before.get(option) != after.get(option):
            yield f"option {option}: it runs {_said(before.get(option))}; wanted {_said(after.get(option))}"
    if before == after:
        yield "its arguments stand in another order"


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


def _said(value: str | None) -> str:
    if value is None:
        return "without it"
    return f"with {value!r}" if value else "with it"


def _variable_reasons(rendered: Rendered, observed: Observed, before: Mapping[str, Any] | None) -> Iterator[str]:
    have = observed.environ
    for name, value in rendered.variables.items():
        if have.get(name) != value:
            yield f"environment variable {name}: it runs {_said(have.get(name))}; wanted {_said(value)}"
    for name, value in rendered.secret_variables.items():
        if have.get(name) != value:
            yield f"secret environment variable {name} is not the one that it was started with"
    wanted = rendered.variables.keys() | rendered.secret_variables.keys()
    for name in (before or {}).get("variables") or []:
        if name not in wanted and name in have:
            yield f"environment variable {name} is set in it and no longer wanted"


def _unit_reasons(instance: Mapping[str, Any], rendered: Rendered, observed: Observed) -> Iterator[str]:
    record = observed.record or {}
    user = _user(observed.uid)
    if user != instance["run_as"]:
        yield f"it runs as {user}; wanted is {instance['run_as']}"
    if record.get("shape") != rendered.shape:
        yield "the unit's limits or its sandbox have changed since it was started"
    if record.get("gpus") != ",".join(instance["gpus"]):
        yield f"it was started on GPUs {record.get('gpus')}; wanted are {','.join(instance['gpus'])}"


def _file_reasons(instance: Mapping[str, Any], rendered: Rendered, record: Mapping[str, Any]) -> Iterator[str]:
    secrets = layout.Instance(instance["name"]).secrets_file
    loaded: dict[str, str | None] = record.get("files") or {}
    now = digests([path for path in loaded if path != secrets])
    text = rendered.files.get(secrets)
    now[secrets] = None if text is None else sha256(text.encode())
    for path, digest in loaded.items():
        if digest != now[path]:
            what = "the API keys" if path == secrets else path
            yield f"{what} changed since it was started"
    if instance["mode"] == IN_PLACE and instance.get("source"):
        newest = newest_source(instance["source"])
        if newest and newest[0] > record["started_at"]:
            yield f"{newest[1]} was edited since it was started"


def _drop_in_reasons(observed: Observed) -> Iterator[str]:
    """Settings of the user's own for the unit; what they say is not ours, that they count is."""
    for path in observed.drop_ins:
        try:
            changed = os.stat(path).st_mtime
        except OSError:
            continue
        if observed.record and changed > observed.record["started_at"]:
            yield f"the drop-in {path} of its unit changed since it was started"


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
