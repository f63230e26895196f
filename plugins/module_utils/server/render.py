# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""From the description of an instance to what lies on the host: arguments, unit, environment and secrets. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import layout
from ..errors import InferopsError
from ..files import sha256
from . import options, quoting
from .environment import Environment
from .spec import IN_PLACE, NEVER

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Seconds that a stop may take beside the drain: SGLang's own end, and the memory of its GPUs.
STOP_MARGIN = 90
#: The longest delay that the breaker puts before a start (see the agent).
LONGEST_DELAY = 300

_SPECULATIVE = {
    "algorithm": "speculative_algorithm",
    "draft_model_path": "speculative_draft_model_path",
    "num_steps": "speculative_num_steps",
    "eagle_topk": "speculative_eagle_topk",
    "num_draft_tokens": "speculative_num_draft_tokens",
}


@dataclass(frozen=True)
class Rendered:
    """What an instance comes to.

    ``argv`` is the server's own command; ``shape`` a digest of those settings of the unit that a running process keeps
    from its start (user, limits, sandbox); ``files`` maps each path to its text, ``secret`` names those whose text is
    never shown.
    """

    argv: list[str]
    variables: dict[str, str]
    secret_variables: dict[str, str] = field(repr=False)
    shape: str
    files: dict[str, str] = field(repr=False)
    secret: frozenset[str]
    problems: list[options.Problem]


def render(instance: Mapping[str, Any], environment: Environment, *, speculate: bool) -> Rendered:
    """Everything that the host gets for ``instance``.

    ``speculate`` is the policy's outcome. Arguments that the release would refuse are named in ``problems``; the other
    files are written out nonetheless, so that a plan can show them.
    """
    paths = layout.Instance(instance["name"])
    argv, problems = arguments(instance, environment, speculate)
    variables = plain_variables(instance, environment)
    secrets = {name: str(value) for name, value in sorted(instance["secret_env"].items())}
    process = process_settings(instance, paths)
    shape = sha256("\n".join(process).encode())[:16]
    files = {
        paths.unit_file: _unit(instance, environment, argv, process, shape),
        paths.env_file: quoting.environment(variables),
        paths.secret_env_file: quoting.environment(secrets),
    }
    if instance["liveness_interval"]:
        files[paths.liveness_file] = _liveness(instance, environment)
        files[paths.timer_file] = _timer(instance)
    if _keys(instance):
        files[paths.secrets_file] = quoting.yaml(_keys(instance))
    return Rendered(
        argv, variables, secrets, shape, files, frozenset({paths.secret_env_file, paths.secrets_file}), problems
    )


def arguments(
    instance: Mapping[str, Any], environment: Environment, speculate: bool
) -> tuple[list[str], list[options.Problem]]:
    """The command of the server, and what its release would refuse in it."""
    given = {name: instance[name] for name in ("model_path", "host", "port")}
    speculative = instance.get("speculative") or {}
    if speculative and speculate and speculative["policy"] != NEVER:
        given.update({ours: speculative.get(key) for key, ours in _SPECULATIVE.items()})
    words, problems = options.render({**instance["args"], **given}, environment.schema)
    if _keys(instance):
        # Two words: SGLang looks for --config as a word of its own and passes over --config=FILE
        words += ["--config", layout.Instance(instance["name"]).secrets_file]
    return [environment.python, "-m", "sglang.launch_server", *words], problems


def plain_variables(instance: Mapping[str, Any], environment: Environment) -> dict[str, str]:
    """The environment of the unit without its secrets: ours, then the lock's, then the instance's own.

    Every cache has a name of its own under the instance's folder: some libraries look for the home folder although
    their cache is set, so both are.
    """
    home = layout.Instance(instance["name"]).state
    cache = os.path.join(home, ".cache")
    cuda = cuda_home(instance, environment)
    path = [os.path.dirname(environment.python), *([os.path.join(cuda, "bin")] if cuda else []), SYSTEM_PATH]
    variables = {
        "HOME": home,
        "XDG_CACHE_HOME": cache,
        "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
        "TVM_FFI_CACHE_DIR": os.path.join(cache, "tvm-ffi"),
        "FLASHINFER_WORKSPACE_BASE": home,
        "PATH": ":".join(path),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **({"CUDA_HOME": cuda} if cuda else {}),
        **environment.variables,
    }
    variables.update({name: str(value) for name, value in instance["env"].items()})
    return variables


def cuda_home(instance: Mapping[str, Any], environment: Environment) -> str | None:
    """The CUDA toolkit of the instance: named by it, or the one of its lock's version; ``None`` on a CPU."""
    if instance.get("cuda_home"):
        return str(instance["cuda_home"])
    return f"/usr/local/cuda-{environment.cuda}" if environment.cuda else None


def agent_file(instance: Mapping[str, Any]) -> str:
    """The host agent's archive.

    :raises InferopsError: when the controller did not say which version.
    """
    version = (instance.get("agent") or {}).get("version")
    if not version:
        raise InferopsError(
            f"instance {instance['name']!r} names no agent; the action plugin adds it, so call the module as a task"
        )
    return os.path.join(layout.AGENT, f"{version}.pyz")


def _keys(instance: Mapping[str, Any]) -> dict[str, str]:
    """The API keys by the names that --config takes: it puts two dashes before them and changes nothing else."""
    names = {"api_key": "api-key", "admin_api_key": "admin-api-key"}
    return {ours: instance[name] for name, ours in names.items() if instance.get(name)}


def _liveness(instance: Mapping[str, Any], environment: Environment) -> str:
    """The look at whether the server generates. It runs as root: it restarts the unit of a dead one."""
    look = [environment.python, "-I", agent_file(instance), "liveness", instance["name"]]
    lines = [
        "[Unit]",
        f"Description=Look at whether SGLang instance {instance['name']} generates",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={quoting.command(look)}",
    ]
    return "\n".join(lines) + "\n"


def _timer(instance: Mapping[str, Any]) -> str:
    """Comes and goes with the unit, which names it."""
    lines = [
        "[Unit]",
        f"Description=Looks at SGLang instance {instance['name']}",
        f"PartOf={layout.Instance(instance['name']).unit}",
        "",
        "[Timer]",
        f"OnActiveSec={instance['liveness_interval']}",
        f"OnUnitInactiveSec={instance['liveness_interval']}",
        "AccuracySec=1",
    ]
    return "\n".join(lines) + "\n"


def _unit(
    instance: Mapping[str, Any], environment: Environment, argv: list[str], process: list[str], shape: str
) -> str:
    # isolated: what the instance sets for its server (PYTHONPATH, say) is not meant for the agent
    agent = [environment.python, "-I", agent_file(instance)]
    told = [f"--gpus={','.join(instance['gpus'])}", f"--release={environment.release}", f"--shape={shape}"]
    if any("--nccl-port" in option["names"] for option in environment.schema["options"]):
        told.append("--pin-nccl-port")
    mounts = [environment.root, instance["model_path"], (instance.get("speculative") or {}).get("draft_model_path")]
    lines = [
        "# Written by inferops.sglang, which puts right what is changed here; your own settings belong in a drop-in.",
        "[Unit]",
        f"Description=SGLang instance {instance['name']}",
        "Wants=network-online.target nvidia-fabricmanager.service",
        *([f"Wants={layout.Instance(instance['name']).timer}"] if instance["liveness_interval"] else []),
        "After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service",
        *[f"RequiresMountsFor={quoting.word(path)}" for path in mounts if path and path.startswith("/")],
        # the breaker of the agent decides when to give up, and says why
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecCondition={quoting.command([*agent, 'breaker', instance['name']])}",
        f"ExecStart={quoting.command([*agent, 'launch', instance['name'], *told, '--', *argv])}",
        f"ExecStop={quoting.command([*agent, 'stop', instance['name'], '--drain=' + str(instance['drain_timeout'])])}",
        "KillMode=mixed",
        # SGLang ends itself with SIGKILL, on a clean stop too; a stop that was not asked for is followed by a start
        "SuccessExitStatus=SIGKILL",
        "Restart=always",
        f"RestartSec={instance['restart_delay']}",
        f"TimeoutStartSec={LONGEST_DELAY + 90}",
        f"TimeoutStopSec={instance['drain_timeout'] + STOP_MARGIN}",
        *process,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def process_settings(instance: Mapping[str, Any], paths: layout.Instance) -> list[str]:
    """The settings that a process has from its start to its end."""
    name = instance["name"]
    memory = [f"MemoryMax={quoting.word(instance['memory_max'])}"] if instance.get("memory_max") else []
    return [
        f"User={instance['run_as']}",
        f"WorkingDirectory={paths.state}",
        f"StateDirectory=sglang/{name}",
        f"LogsDirectory=sglang/{name}",
        f"RuntimeDirectory=sglang/{name}",
        "StateDirectoryMode=0750",
        "LogsDirectoryMode=0750",
        "RuntimeDirectoryMode=0755",
        "RuntimeDirectoryPreserve=yes",
        f"EnvironmentFile={paths.env_file}",
        f"EnvironmentFile={paths.secret_env_file}",
        "UMask=0027",
        "OOMPolicy=kill",
        *memory,
        f"LimitCORE={'infinity' if instance['core_dumps'] else '0'}",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        "TasksMax=infinity",
        *_hardening(instance),
    ]


def _hardening(instance: Mapping[str, Any]) -> list[str]:
    """As far as CUDA and compilers at run time allow; docs/hardening.md says why each open point is open."""
    settings = [
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "ProtectControlGroups=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "SystemCallArchitectures=native",
    ]
    if instance["mode"] == IN_PLACE:
        # an environment of one's own may lie anywhere, in a home folder too, and may write beside its sources
        return settings
    writable = [f"ReadWritePaths={quoting.word(path)}" for path in instance["writable_paths"]]
    return [
        *settings,
        "CapabilityBoundingSet=",
        "KeyringMode=private",
        "PrivateTmp=yes",
        "ProtectHome=read-only",
        "ProtectHostname=yes",
        "ProtectKernelTunables=yes",
        "ProtectSystem=strict",
        *writable,
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "RestrictNamespaces=yes",
        "SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap",
        "SystemCallErrorNumber=EPERM",
    ]
