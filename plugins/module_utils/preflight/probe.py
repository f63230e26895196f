# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The second part of preflight: a look from inside the unit's settings, by a transient unit that has the same ones."""

from __future__ import annotations

import inspect
import json
import os
import pwd
from collections.abc import Iterator

from .. import layout
from ..files import read_text
from ..running import Runner
from ..server import render
from . import probe_worker
from .check import ERROR, Item, Result, deferred, failed, passed
from .facts import Facts

#: What a launch needs to import first, if it is installed.
IMPORTS = ("torch", "sgl_kernel", "flashinfer")
#: Seconds that the look may take: imports from a cold disk are the longest part.
LONGEST = 180
# Settings of the real unit that make or need folders, or steer restarts: a look changes nothing on the host.
_LEFT_OUT = ("WorkingDirectory", "StateDirectory", "LogsDirectory", "RuntimeDirectory", "EnvironmentFile", "OOMPolicy")
_OF_DROP_INS = (
    "CapabilityBoundingSet=",
    "Device",
    "Environment=",
    "InaccessiblePaths=",
    "Limit",
    "Private",
    "Protect",
    "Read",
    "Restrict",
    "SupplementaryGroups=",
    "SystemCall",
)
_BOOT = """
import json, os, sys
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
given = json.load(sys.stdin)
space = {"__name__": "probe"}
exec(compile(given["source"], "probe_worker.py", "exec"), space)
json.dump(space["probe"](given["payload"]), out)
"""


def look(facts: Facts, runner: Runner) -> None:
    """Fill in ``facts.probe``, or ``facts.probe_problem`` with the reason why not."""
    facts.probe_problem = _obstacle(facts)
    if facts.probe_problem or facts.python is None:
        return
    payload = {
        "imports": [name for name in IMPORTS if facts.on_gpu or name != "flashinfer"],
        "folders": [
            path for path in sorted(facts.host.folders) if os.path.isdir(path) and not handed_over(facts, path)
        ],
        "files": _files(facts),
        "devices": [node["path"] for node in facts.host.gpus.get("device_nodes", [])] if facts.on_gpu else [],
        "nvcc": facts.host.programs.get("nvcc") if facts.on_gpu else None,
        "capability": facts.capability,
    }
    argv = [*command(facts), facts.python, "-I", "-B", "-c", _BOOT]
    done = runner(argv, data=json.dumps({"source": inspect.getsource(probe_worker), "payload": payload}))
    if done.rc != 0:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.rc}"]
        facts.probe_problem = f"the look from inside the unit failed: {said[-1]}"
        facts.probe = {}
        return
    facts.probe = json.loads(done.stdout)


def _files(facts: Facts) -> list[str]:
    """What the server reads when it starts, as far as it is there: two files of each model, and what options name."""
    found = []
    for model in (facts.target, facts.draft):
        if model is not None and model.folder:
            found += [os.path.join(model.folder, name) for name in ["config.json", *list(model.weights.sizes)[:1]]]
    named = [value for value in facts.options.values() if isinstance(value, str) and value.startswith("/")]
    return [path for path in [*found, *named] if os.path.exists(path)]


def _looked_at(facts: Facts, path: str) -> bool:
    return os.path.isdir(path) and not handed_over(facts, path)


def handed_over(facts: Facts, path: str) -> bool:
    """Whether systemd gives the folder to the unit's user at the next start: it does so with the unit's own folder
    (``StateDirectory``) and all below it, where that one still belongs to the user of an earlier start."""
    state = layout.Instance(facts.name).state
    if path != state and not path.startswith(state + "/"):
        return False
    return os.path.isdir(state) and os.stat(state).st_uid != pwd.getpwnam(facts.instance["run_as"]).pw_uid


def command(facts: Facts) -> list[str]:
    """``systemd-run`` with the settings and the environment of the instance's unit (no secret among them)."""
    paths = layout.Instance(facts.name)
    settings = [
        line
        for line in render.process_settings(facts.instance, paths)
        if not line.startswith(_LEFT_OUT) and not line.startswith("RuntimeDirectory")
    ]
    writable = [f"ReadWritePaths=-{path}" for path in (paths.state, paths.logs)]
    lines = [*settings, *writable, *drop_ins(f"{paths.unit_file}.d"), f"RuntimeMaxSec={LONGEST}"]
    properties = [f"--property={line}" for line in lines]
    variables = [f"--setenv={name}={value}" for name, value in sorted(facts.variables.items())]
    return ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *properties, *variables, "--"]


def drop_ins(folder: str) -> list[str]:
    """The settings of a unit's drop-ins (in the order in which systemd reads them) that a process lives under."""
    found: list[str] = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        section = ""
        for line in (read_text(os.path.join(folder, name)) or "").splitlines() if name.endswith(".conf") else []:
            text = line.strip()
            if text.startswith("["):
                section = text
            elif section == "[Service]" and text.startswith(_OF_DROP_INS):
                found.append(text)
    return found


def _obstacle(facts: Facts) -> str:
    if facts.python is None:
        return f"{facts.waiting_for} is not there yet"
    if not os.path.isdir("/run/systemd/system"):
        return "systemd does not run here"
    try:
        pwd.getpwnam(facts.instance["run_as"])
    except KeyError:
        return f"the user {facts.instance['run_as']} does not exist yet"
    return ""


def _missing(facts: Facts) -> Result:
    """What a check says where there is nothing to look at; an empty report is a failure that another check names."""
    return deferred(facts.probe_problem) if facts.probe is None and facts.probe_problem else None


def unit_imports(facts: Facts) -> Result:
    if facts.probe == {}:
        return failed(facts.probe_problem)
    if not facts.probe:
        return _missing(facts)
    bad = {name: error for name, error in facts.probe["imports"].items() if error}
    if bad:
        return failed(
            "; ".join(f"'import {name}' fails inside the unit: {error}" for name, error in bad.items())
            + ". The build's libraries do not go together, or the unit hides what they need",
            imports=bad,
        )
    there = [name for name, error in facts.probe["imports"].items() if error == ""]
    return passed(f"{', '.join(there) or 'nothing'} can be imported inside the unit")


def unit_limits(facts: Facts) -> Result:
    if not facts.probe:
        return _missing(facts)
    return list(_limit_problems(facts.probe["limits"], facts.on_gpu)) or passed(
        "limits are those of the unit, or enough", **facts.probe["limits"]
    )


def _limit_problems(limits: dict[str, int], on_gpu: bool) -> Iterator:
    # getrlimit gives -1 for "unlimited"; only what talks to a card registers memory
    if on_gpu and limits["memlock"] != -1 and limits["memlock"] < 1 << 30:
        yield failed(
            f"locked memory is limited to {limits['memlock'] // 1024} KiB inside the unit: registering memory with the "
            "network card or for copies fails (limits.conf does not count for services); LimitMEMLOCK=infinity is in "
            "the unit, so a drop-in or the container lowers it",
            memlock=limits["memlock"],
        )
    # A server holds a few files for each connection and shard; SGLang itself only asks for 65536.
    if limits["nofile"] < 16384:
        yield failed(
            f"open files are limited to {limits['nofile']} inside the unit: many connections and shards need more; "
            "LimitNOFILE is in the unit, so a drop-in or the container lowers it",
            nofile=limits["nofile"],
        )


def unit_folders(facts: Facts) -> Result:
    if not facts.probe:
        return _missing(facts)
    bad = {path: error for path, error in facts.probe["folders"].items() if error}
    if bad:
        return failed(
            "; ".join(f"{path} cannot be written inside the unit: {error}" for path, error in bad.items())
            + f"; give it to {facts.instance['run_as']}, or add it to writable_paths",
            folders=bad,
        )
    return passed(f"{len(facts.probe['folders'])} folders can be written inside the unit")


def unit_models(facts: Facts) -> Result:
    if not facts.probe:
        return _missing(facts)
    bad = {path: error for path, error in facts.probe["files"].items() if error}
    if bad:
        return failed(
            "; ".join(f"{path} cannot be read inside the unit: {error}" for path, error in bad.items())
            + f"; let {facts.instance['run_as']} read it, folders above it included (a unit sees no /tmp but its own)",
            files=bad,
        )
    return passed(f"{len(facts.probe['files'])} files of the models can be read inside the unit")


def unit_devices(facts: Facts) -> Result:
    if not facts.on_gpu:
        return None
    if not facts.probe:
        return _missing(facts)
    bad = {path: error for path, error in facts.probe["devices"].items() if error}
    if bad:
        return failed(
            "; ".join(f"{path} cannot be opened by {facts.instance['run_as']}: {error}" for path, error in bad.items())
            + "; put the user into the group of the node, or refresh the container's device numbers",
            devices=bad,
        )
    return passed(f"{len(facts.probe['devices'])} device nodes can be opened inside the unit")


def unit_compile(facts: Facts) -> Result:
    if not facts.on_gpu:
        return None
    if not facts.probe or facts.probe["compile"] is None:
        return _missing(facts)
    if facts.probe["compile"]:
        return failed(
            f"nvcc cannot compile for compute capability {facts.capability or 'of the host'} inside the unit: "
            f"{facts.probe['compile']}; kernels are compiled while the server starts, so it would fail then",
            nvcc=facts.host.programs.get("nvcc"),
        )
    return passed(f"nvcc compiles for compute capability {facts.capability} inside the unit")


def unit_triton(facts: Facts) -> Result:
    """Triton compiles while the server starts and serves, with an assembler that is not the toolkit's."""
    if not facts.on_gpu:
        return None
    if not facts.probe or not facts.probe["assembler"]:
        return _missing(facts)
    told = facts.probe["assembler"]
    if told["error"]:
        return failed(
            f"Triton's assembler cannot assemble for compute capability {facts.capability}: {told['path']}: "
            f"{told['error']}; set {told['variable']} in env to the ptxas of a toolkit that knows these cards "
            f"({facts.variables.get('CUDA_HOME', '/usr/local/cuda-13.0')}/bin/ptxas)",
            **told,
        )
    return passed(f"Triton's assembler {told['path']} knows compute capability {facts.capability}")


TABLE = (
    Item("unit_imports", ERROR, "Inside the unit: torch and the kernels can be imported", unit_imports),
    Item("unit_limits", ERROR, "Inside the unit: locked memory and open files are not limited too low", unit_limits),
    Item("unit_models", ERROR, "Inside the unit: models and other named files can be read", unit_models),
    Item("unit_folders", ERROR, "Inside the unit: home and caches can be written", unit_folders),
    Item(
        "unit_devices", ERROR, "Inside the unit: the GPUs' device nodes can be opened by the service user", unit_devices
    ),
    Item("unit_compile", ERROR, "Inside the unit: nvcc compiles for the host's cards", unit_compile),
    Item("unit_triton", ERROR, "Inside the unit: Triton's own assembler knows the host's cards", unit_triton),
)
