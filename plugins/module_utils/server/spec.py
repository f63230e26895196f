# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The description of one SGLang server: the options that every module with ``instances`` takes, and their rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InferopsError

MANAGED = "managed"
IN_PLACE = "in_place"
ALWAYS, MEASURED, NEVER = "always", "measured", "never"

#: Suboptions of one instance, in the form of an Ansible argument spec (documented in the ``instance`` fragment).
INSTANCE_OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "mode": {"type": "str", "choices": [MANAGED, IN_PLACE], "default": MANAGED},
    "model_path": {"type": "str", "required": True},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 30000},
    "gpus": {"type": "list", "elements": "str", "default": ["all"]},
    "speculative": {
        "type": "dict",
        "options": {
            "policy": {"type": "str", "choices": [ALWAYS, MEASURED, NEVER], "default": ALWAYS},
            "algorithm": {"type": "str", "default": "EAGLE3"},
            "draft_model_path": {"type": "str"},
            "num_steps": {"type": "int"},
            "eagle_topk": {"type": "int"},
            "num_draft_tokens": {"type": "int", "no_log": False},
        },
    },
    "args": {"type": "dict", "default": {}},
    "env": {"type": "dict", "default": {}},
    "secret_env": {"type": "dict", "default": {}, "no_log": True},
    "api_key": {"type": "str", "no_log": True},
    "admin_api_key": {"type": "str", "no_log": True},
    "lock": {"type": "str"},
    "patches": {"type": "list", "elements": "str", "default": []},
    "acknowledge": {"type": "list", "elements": "str", "default": []},
    "python": {"type": "path"},
    "source": {"type": "path"},
    "run_as": {"type": "str", "default": "sglang"},
    "cuda_home": {"type": "path"},
    "drain_timeout": {"type": "int", "default": 120},
    "restart_delay": {"type": "int", "default": 10},
    "liveness_interval": {"type": "int", "default": 0},
    "memory_max": {"type": "str"},
    "core_dumps": {"type": "bool", "default": False},
    "writable_paths": {"type": "list", "elements": "path", "default": []},
    "build": {"type": "dict"},
    "definitions": {"type": "list", "elements": "dict"},
    "agent": {"type": "dict", "options": {"version": {"type": "str"}, "path": {"type": "path"}}},
}

#: Options of SGLang that have a place of their own in an instance.
RESERVED_ARGS = {
    "model_path": "model_path",
    "model": "model_path",
    "host": "host",
    "port": "port",
    "api_key": "api_key",
    "admin_api_key": "admin_api_key",
    "config": "args",
    "speculative_algorithm": "speculative.algorithm",
    "speculative_draft_model_path": "speculative.draft_model_path",
    "speculative_draft_model": "speculative.draft_model_path",
    "speculative_num_steps": "speculative.num_steps",
    "speculative_eagle_topk": "speculative.eagle_topk",
    "speculative_num_draft_tokens": "speculative.num_draft_tokens",
}
#: Rendered by us from ``gpus`` when the server starts.
RESERVED_ENV = {"CUDA_VISIBLE_DEVICES": "gpus", "CUDA_DEVICE_ORDER": "gpus"}

_TAKEN = ("builds", "cache", "tools", "toolkits", "wheelhouse", "agent", "gateway", "drift-guard")
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,46}[a-z0-9])?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GPU = re.compile(r"[0-9]+|GPU-[0-9a-fA-F-]{8,}")
# A key travels in an HTTP header, and --config hands it to argparse as a word of its own.
_KEY = re.compile(r"[!-,./0-~][!-~]*")


def instances_option(required: bool = True) -> dict[str, Any]:
    """The argument spec of ``instances``."""
    return {"type": "list", "elements": "dict", "required": required, "options": INSTANCE_OPTIONS}


def plan_arguments() -> dict[str, Any]:
    """The argument spec of ``sglang_plan``, which the controller needs too."""
    return {
        "instances": instances_option(),
        "toolkit": {"type": "dict", "default": {}},
        "described": {"type": "list", "elements": "str"},
        "python": {"type": "path"},
        "thorough": {"type": "bool", "default": False},
        "agent_version": {"type": "str"},
    }


def validate(instances: Sequence[Mapping[str, Any]]) -> None:
    """Check what can be known without a host.

    :raises InferopsError: with every problem of every instance in one message.
    """
    problems = [problem for instance in instances for problem in problems_of(instance)]
    names = [instance["name"] for instance in instances]
    problems += [
        f"instance {name!r} is described more than once" for name in sorted(set(names)) if names.count(name) > 1
    ]
    problems += _clashes(instances)
    if problems:
        raise InferopsError("; ".join(problems), problems=problems)


def problems_of(instance: Mapping[str, Any]) -> list[str]:
    """What is wrong with one instance, in words."""
    return [f"instance {instance['name']!r}: {text}" for text in _problems(instance)]


def is_name(name: str) -> bool:
    """Whether an instance can be called so."""
    return not any(_name_problems(name))


def _name_problems(name: str) -> Iterable[str]:
    if not _NAME.fullmatch(name):
        yield "a name is at most 48 lower-case letters, digits, '-' or '_', with a letter or digit at both ends"
    if name in _TAKEN or name.endswith("-liveness"):
        yield "this name is taken by a folder or a unit of the collection; choose another"


def _problems(instance: Mapping[str, Any]) -> Iterable[str]:
    yield from _name_problems(instance["name"])
    if instance["mode"] == IN_PLACE and not instance.get("python"):
        yield "mode in_place needs 'python', the interpreter of your own environment (/root/ml-env/bin/python)"
    yield from _gpu_problems(instance["gpus"])
    yield from _args_problems(instance["args"])
    yield from _env_problems(instance)
    for option in ("api_key", "admin_api_key"):
        if instance.get(option) == "":
            yield f"{option} is empty, which would leave the server open; give a key, or leave the option out"
        if instance.get(option) and not _KEY.fullmatch(instance[option]):
            yield f"{option} must be printable ASCII without blanks and must not begin with '-'"
    for option in ("model_path", "host"):
        if not instance[option] or not _printable(instance[option]):
            yield f"{option} is empty or holds a NUL character or a line break"


def _gpu_problems(gpus: Sequence[str]) -> Iterable[str]:
    if list(gpus) in (["all"], ["none"]):
        return
    for gpu in gpus:
        if not _GPU.fullmatch(gpu):
            yield f"gpus has {gpu!r}; give 'all', 'none', or a list of indices or UUIDs (GPU-… as nvidia-smi -L prints)"
    if len(set(gpus)) != len(gpus):
        yield f"gpus names a GPU twice: {', '.join(gpus)}"
    if not gpus:
        yield "gpus is an empty list; give 'none' for a server without a GPU"


def _args_problems(args: Mapping[str, Any]) -> Iterable[str]:
    seen: dict[str, str] = {}
    for key in args:
        plain = key.lstrip("-").replace("-", "_")
        if plain in RESERVED_ARGS:
            yield f"args has {key!r}; set it as '{RESERVED_ARGS[plain]}' of the instance instead"
        if plain in seen:
            yield f"args has the same option twice: {seen[plain]!r} and {key!r}"
        seen[plain] = key


def _env_problems(instance: Mapping[str, Any]) -> Iterable[str]:
    for option in ("env", "secret_env"):
        for name, value in instance[option].items():
            if not _ENV_NAME.fullmatch(str(name)):
                yield f"{option} has {name!r}, which is not a name of an environment variable"
            elif name in RESERVED_ENV:
                yield f"{option} sets {name}; set it through '{RESERVED_ENV[name]}' of the instance instead"
            elif value is None or isinstance(value, (dict, list)) or "\0" in str(value):
                yield f"{option}.{name} must be a string (without NUL characters)"
    for name in sorted(set(instance["env"]) & set(instance["secret_env"])):
        yield f"{name} is set in env and in secret_env; keep one of them"


def _clashes(instances: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Two instances of one host that would take each other's port or GPUs."""
    for index, one in enumerate(instances):
        for other in instances[index + 1 :]:
            pair = f"instances {one['name']!r} and {other['name']!r}"
            if one["port"] == other["port"] and _same_host(one["host"], other["host"]):
                yield f"{pair} both listen on port {one['port']}"
            shared = sorted(set(one["gpus"]) & set(other["gpus"]) - {"all", "none"})
            if shared and not (_bounded(one) and _bounded(other)):
                yield f"{pair} both use GPU {', '.join(shared)}; set mem_fraction_static of both if that is meant"


def _bounded(instance: Mapping[str, Any]) -> bool:
    """Whether it says how much of a card's memory it takes; preflight looks whether that fits together."""
    return any(str(key).lstrip("-").replace("-", "_") == "mem_fraction_static" for key in instance["args"])


def _same_host(one: str, other: str) -> bool:
    return one == other or bool({one, other} & {"0.0.0.0", "::"})


def _printable(text: str) -> bool:
    return not re.search(r"[\0\r\n]", text)
