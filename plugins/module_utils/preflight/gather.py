# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Gathers the facts for the checks, each once: from the host's files, the models' folders and the build's sources."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from .. import interpreter, layout, procfs
from ..errors import InferopsError
from ..files import read_text
from ..gpu import facts as gpu_facts
from ..gpu import holders
from ..running import Runner
from ..server import adopt, environment, options, options_worker, render, verdict
from ..server.environment import Environment
from ..server.options import Problem
from ..server.spec import IN_PLACE, NEVER
from . import calibration, models, sources_worker
from .checks_models import quantization
from .facts import SHAPE_KEYS, Facts, Host

# Imported so that they travel with the module: a build's interpreter runs them.
WORKERS = (sources_worker.__name__, options_worker.__name__)
#: Fields of the server's own configuration whose options are stored under another name by the parser.
_FIELDS = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
}
#: Options that the parser takes as any text, and that are read as a JSON object later.
_JSON_OPTIONS = ("json_model_override_args", "model_loader_extra_config")
_PROGRAMS = ("nvcc", "ninja", "g++")


def gather(instance: Mapping[str, Any], runner: Runner, gpus: Mapping[str, Any], adopting: bool) -> Facts:
    """Everything that is known of one instance.

    ``gpus`` is what ``gpu.facts`` says of the host; ``adopting``: a server started by hand on its port gives way.

    :raises InferopsError: when the environment's interpreter cannot read its sources.
    """
    broken: list[Problem] = []
    try:
        found = environment.find(instance, _schema_in_place(instance, runner))
    except InferopsError as error:
        found, broken = None, [Problem("python", error.message)]
    facts = described(instance, found)
    facts.problems += broken
    if found is not None:
        facts.sources = read_sources(facts, found, runner)
        facts.release = facts.sources.get("release") or found.release
        facts.cuda = found.cuda or facts.sources.get("torch_cuda")
    facts.host = host(facts, gpus)
    if facts.on_gpu:
        facts.measured = calibration.last_good_start(facts.instance)
    if adopting:
        facts.host.giving_way = _giving_way(facts)
    return facts


def _schema_in_place(instance: Mapping[str, Any], runner: Runner) -> dict[str, Any] | None:
    """The options of an environment in place that nobody has asked yet; it is asked here, and nothing is kept."""
    if instance["mode"] != IN_PLACE or environment.kept_schema(instance) is not None:
        return None
    variables = {name: str(value) for name, value in instance["env"].items()}
    return options.dump(runner, instance["python"], variables)


def _giving_way(facts: Facts) -> set[int]:
    """The processes of servers that were started by hand on this instance's port."""
    found = adopt.strangers(facts.instance["port"], layout.Instance(facts.name).unit)
    table = procfs.processes()
    below = [process.pid for server in found for process in procfs.descendants(server.pid, table)]
    return {*[server.pid for server in found], *below}


def described(instance: Mapping[str, Any], found: Environment | None) -> Facts:
    """The facts that need neither the host nor the sources: options, environment of the unit, model folders."""
    speculative = instance.get("speculative") or {}
    wants = bool(speculative) and speculative["policy"] != NEVER
    if found is None:
        speculates, problems = wants, []
        variables = {**_home(instance), **{name: str(value) for name, value in instance["env"].items()}}
    else:
        speculates = verdict.speculate(instance, found)
        problems = render.arguments(instance, found, speculates)[1]
        variables = render.plain_variables(instance, found)
    schema = found.schema if found is not None else None
    draft = speculative.get("draft_model_path") if speculates else None
    given = by_destination(instance["args"], schema)
    # a draft's names tell whether it is whole; a target's, whether it has layers of its own to draft with
    own = speculates and draft is None and str(speculative.get("algorithm") or "").upper() in ("EAGLE", "NEXTN")
    texts = {name: _json(given.get(name)) for name in _JSON_OPTIONS}
    override = texts["json_model_override_args"] or {}
    problems = [*problems, *(Problem(n, f"{n} is not a JSON object: {given[n]!r}") for n in texts if texts[n] is None)]
    revision = given.get("revision")
    target = models.read(instance["model_path"], variables, revision=revision, override=override)
    if own and target.names is None:
        target = models.read(instance["model_path"], variables, True, revision=revision, override=override)
    return Facts(
        instance=dict(instance),
        options=given,
        variables=variables,
        target=target,
        draft=models.read(
            draft, variables, True, revision=given.get("speculative_draft_model_revision"), override=override
        )
        if draft
        else None,
        python=found.python if found is not None else None,
        release=found.release if found is not None else (instance.get("build") or {}).get("release"),
        cuda=found.cuda if found is not None else (instance.get("build") or {}).get("cuda"),
        problems=list(problems),
        speculates=speculates,
        patches=[str(patch) for patch in instance.get("patches") or []],
        waiting_for=_environment_name(instance),
    )


def _json(value: Any) -> dict[str, Any] | None:
    """A mapping that may be written as JSON; ``None`` for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return None if value is not None and not isinstance(value, Mapping) else dict(value or {})


def by_destination(args: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options under the names that SGLang's own code gives them (``tp`` and ``--tp`` are ``tp_size``)."""
    named: dict[str, Any] = {}
    for key, value in args.items():
        name = key.lstrip("-").replace("-", "_")
        if schema is not None:
            # an option that does not exist keeps its name here; the check of the options says so
            with contextlib.suppress(InferopsError):
                name = options.find(key, schema)[1]["dest"]
        named[_FIELDS.get(name, name)] = value
    return named


def read_sources(facts: Facts, found: Environment, runner: Runner) -> dict[str, Any]:
    """Ask the build's own interpreter for what its sources say (see ``sources_worker``)."""
    payload = sources_payload(facts)
    read: dict[str, Any] = interpreter.call(runner, found.python, "preflight.sources_worker:describe", payload)
    return read


def sources_payload(facts: Facts) -> dict[str, Any]:
    """What ``sources_worker`` is asked for one instance."""
    return {
        "root": _source_root(facts.instance),
        "target": facts.target.architecture,
        "draft": facts.draft.architecture if facts.draft is not None else None,
        "algorithm": facts.algorithm,
        "options": facts.options,
        "automatic": all(facts.speculative(key) is None for key in SHAPE_KEYS),
        "quantization": quantization(facts.target) is not None and facts.options.get("quantization") is not None,
        "overlap": facts.variable("SGLANG_ENABLE_SPEC_V2") if facts.before("0.5.11") else None,
    }


def host(facts: Facts, gpus: Mapping[str, Any]) -> Host:
    """The part of the host that this instance depends on."""
    variables = facts.variables
    names = ["HOME", *[name for name in variables if name.endswith(("_CACHE_DIR", "_CACHE_HOME", "_WORKSPACE_BASE"))]]
    folders = {variables[name] for name in names if variables.get(name, "").startswith("/")}
    cuda = variables.get("CUDA_HOME")
    search = variables.get("PATH", render.SYSTEM_PATH)
    return Host(
        gpus=dict(gpus),
        memory=memory_total(),
        shm=_size("/dev/shm"),
        port_owners=[_owner(pid) for pid in procfs.port_owners(facts.instance["port"])],
        folders={path: folder(path, facts.instance) for path in sorted(folders)},
        programs={name: shutil.which(name, path=search) for name in _PROGRAMS} if facts.cuda else {},
        bind_problem=_bind_problem(facts.instance["host"]),
        first_port=int(read_text("/proc/sys/net/ipv4/ip_unprivileged_port_start") or 1024),
        cuda_home=None
        if cuda is None
        else {"folder": os.path.isdir(cuda), "nvcc": os.access(os.path.join(cuda, "bin", "nvcc"), os.X_OK)},
    )


def _bind_problem(host: str) -> str:
    """Why nobody can listen at an address of this host; empty where one can."""
    try:
        for family, dummy, dummy2, dummy3, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[:1]:
            with socket.socket(family, socket.SOCK_STREAM) as listener:
                listener.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def gpus_of_host(instances: Sequence[Mapping[str, Any]], runner: Runner) -> dict[str, Any]:
    """What ``gpu.facts`` says; nothing is asked where no instance uses a GPU."""
    if all(instance["gpus"] == ["none"] for instance in instances):
        return {"gpus": [], "problems": [], "driver_version": None, "container": None}
    return gpu_facts.facts(runner)


def memory_total() -> int:
    """Bytes of memory of the host, or of the container where that has less (``MemTotal`` in /proc/meminfo)."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    return 0


def folder(path: str, instance: Mapping[str, Any]) -> dict[str, Any]:
    """The file system under a folder that may not exist yet, and whether the unit's user could write there."""
    existing = path
    while not os.path.isdir(existing) and existing != "/":
        existing = os.path.dirname(existing)
    return {"type": file_system(existing), "writable": _unit_may_write(path, existing, instance)}


def file_system(path: str, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that a path lies on (``ext4``, ``nfs4``), by the longest mount point above it."""
    path = os.path.realpath(path)
    best, kind = "", "unknown"
    with open(mounts, encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            fields = line.split(" ")
            point = fields[1].replace("\\040", " ")
            inside = point == "/" or path == point or path.startswith(point + "/")
            if inside and len(point) >= len(best):
                best, kind = point, fields[2]
    return kind


def _unit_may_write(path: str, existing: str, instance: Mapping[str, Any]) -> bool:
    """Whether the sandbox of the unit leaves the path writable, and its existing part belongs to the unit's user."""
    paths = layout.Instance(instance["name"])
    open_to_unit = [paths.state, paths.logs, paths.run, "/tmp", "/var/tmp", "/dev/shm", *instance["writable_paths"]]
    if instance["mode"] != IN_PLACE and not any(path == top or path.startswith(top + "/") for top in open_to_unit):
        return False
    if path == paths.state or path.startswith(paths.state + "/"):
        # systemd makes the instance's own folder, and gives it to the user
        return True
    try:
        user = pwd.getpwnam(instance["run_as"])
    except KeyError:
        return True
    status = os.stat(existing)
    if user.pw_uid == 0 or status.st_mode & 0o002:
        return True
    mine = status.st_uid == user.pw_uid and bool(status.st_mode & 0o200)
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return mine or (status.st_gid in groups and bool(status.st_mode & 0o020))


def _size(path: str) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_frsize * status.f_blocks


def _owner(pid: int) -> dict[str, Any]:
    holder = holders.describe(pid)
    if holder is None:
        return {"pid": pid, "user": "?", "unit": None, "cmd": "a process that has just ended"}
    return {"pid": pid, "user": holder.user, "unit": holder.unit, "cmd": holder.cmd}


def _source_root(instance: Mapping[str, Any]) -> str | None:
    """Where a checkout in place has the package; ``None``: the environment's interpreter finds it."""
    source = instance.get("source")
    if not source:
        return None
    nested = os.path.join(source, "python")
    return nested if os.path.isdir(os.path.join(nested, "sglang")) else source


def _environment_name(instance: Mapping[str, Any]) -> str:
    if instance["mode"] == IN_PLACE:
        return f"the environment of {instance.get('python')}"
    return f"the build {(instance.get('build') or {}).get('build_id', '')}".rstrip()


def _home(instance: Mapping[str, Any]) -> dict[str, str]:
    return {"HOME": layout.Instance(instance["name"]).state}
