# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``launch``: opens this start's log, notes what is started with what, and becomes the server."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from typing import Any, NoReturn

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.files import write_atomic
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation, process

#: Logs of so many starts are kept.
KEPT_LOGS = 20
_EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"
_LOWEST_PORT = 20000


@dataclass(frozen=True)
class Told:
    """What the unit tells the launcher beside the server's command."""

    instance: str
    gpus: str
    release: str
    shape: str
    pin_nccl_port: bool


def run(told: Told, argv: list[str]) -> NoReturn:
    """Become the server. Its output goes to the log of this start; what goes wrong before goes there and to systemd.

    :raises InferopsError: when a GPU is not there.
    """
    invocation = os.environ.get("INVOCATION_ID") or uuid.uuid4().hex
    logs = layout.Instance(told.instance).logs
    log = os.path.join(logs, f"{invocation}.log")
    _prune(logs)
    try:
        variables = gpu_variables(told.gpus)
    except InferopsError as error:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{error}\n")
        raise
    keep_compiled_headers(os.environ.get("XDG_CACHE_HOME", ""))
    added = _nccl_port(argv) if told.pin_nccl_port else []
    entry = record(told, argv, added, invocation, log, variables.get("CUDA_VISIBLE_DEVICES"))
    write_atomic(process.record_file(told.instance, invocation), (json.dumps(entry, indent=1) + "\n").encode(), 0o640)
    _become(argv + added, {**os.environ, **variables}, log)


def record(
    told: Told, argv: list[str], added: list[str], invocation: str, log: str, visible: str | None
) -> dict[str, Any]:
    """The start record: what this process was started with, secrets by digest only."""
    given = dict(word.partition("=")[::2] for word in argv if word.startswith("--"))
    paths = layout.Instance(told.instance)
    root = os.path.dirname(os.path.dirname(argv[0]))
    with contextlib.suppress(PermissionError):
        newest = activation.newest(told.instance)
        return {
            "format": 1,
            "invocation_id": invocation,
            "instance": told.instance,
            "activation": newest["n"] if newest else None,
            "release": told.release,
            "argv": argv,
            "added": added,
            "host": given.get("--host", "127.0.0.1"),
            "port": int(given.get("--port", "30000")),
            "speculative": _speculative(given),
            "tp_size": int(given.get("--tp-size") or given.get("--tensor-parallel-size") or 1),
            "dp_size": int(given.get("--dp-size") or given.get("--data-parallel-size") or 1),
            "started_at": time.time(),
            "log": log,
            "gpus": told.gpus,
            "cuda_visible_devices": visible,
            "shape": told.shape,
            "files": process.digests(process.loaded_files(argv, root, paths.secrets_file)),
            "agent": sys.argv[0],
        }
    raise InferopsError(f"{paths.activations} cannot be read by {os.getuid()}; the unit's user must be in its group")


def gpu_variables(gpus: str) -> dict[str, str]:
    """The variables that name the GPUs, as indices: SGLang reads the list as integers.

    ``CUDA_DEVICE_ORDER`` makes CUDA count as nvidia-smi does.

    :raises InferopsError: for a UUID that no GPU of this host has.
    """
    if gpus == "none":
        return {"CUDA_VISIBLE_DEVICES": ""}
    if gpus == "all":
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    wanted = gpus.split(",")
    known = uuids() if any(not gpu.isdigit() for gpu in wanted) else {}
    indices = []
    for gpu in wanted:
        if not gpu.isdigit() and gpu not in known:
            there = ", ".join(known) or "none"
            raise InferopsError(f"GPU {gpu} is not on this host; there are {there}. Correct 'gpus' of the instance")
        indices.append(gpu if gpu.isdigit() else str(known[gpu]))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(indices)}


def uuids() -> dict[str, int]:
    """The index of each GPU of this host, by its UUID."""
    argv = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InferopsError(f"the GPUs cannot be listed, which their UUIDs need: {error}") from error
    rows = (line.partition(",") for line in done.stdout.splitlines() if "," in line)
    return {name.strip(): int(index) for index, dummy, name in rows}


def free_port(avoid: set[int], first: int) -> int | None:
    """A TCP port below the range that outgoing connections use, free now; ``None`` where there is none."""
    with open(_EPHEMERAL, encoding="ascii") as stream:
        end = int(stream.read().split()[0])
    span = end - _LOWEST_PORT
    for step in range(max(span, 0)):
        port = _LOWEST_PORT + (first + step) % span
        if port in avoid:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port
    return None


def keep_compiled_headers(cache: str, temporary: str = tempfile.gettempdir()) -> None:
    """Let torch's precompiled headers outlive this start.

    torch keeps them below the folder for temporary files, whatever TORCHINDUCTOR_CACHE_DIR says (codecache.py,
    ``_HEADER_DIR``), and the unit's own is gone when it stops; compiling them takes a minute or more.
    """
    link = os.path.join(temporary, f"torchinductor_{getpass.getuser()}")
    if cache and not os.path.lexists(link):
        kept = os.path.join(cache, "torchinductor")
        os.makedirs(kept, exist_ok=True)
        os.symlink(kept, link)


def _nccl_port(argv: list[str]) -> list[str]:
    """The argument that pins the ranks' meeting port. Left out where it was given, or where hosts meet elsewhere."""
    given = {word.partition("=")[0]: word.partition("=")[2] for word in argv if word.startswith("--")}
    if "--nccl-port" in given or "--dist-init-addr" in given:
        return []
    # two instances that start at once begin to look in different places
    serving = int(given.get("--port") or 30000)
    port = free_port({serving}, serving * 7)
    return [f"--nccl-port={port}"] if port else []


def _speculative(given: dict[str, str]) -> dict[str, Any] | None:
    if not given.get("--speculative-algorithm"):
        return None
    numbers = {name: given.get(f"--speculative-{name.replace('_', '-')}") for name in _NUMBERS}
    counted = {name: int(value) if value else None for name, value in numbers.items()}
    return {"algorithm": given["--speculative-algorithm"], **counted}


_NUMBERS = ("num_steps", "eagle_topk", "num_draft_tokens")


def _prune(logs: str) -> None:
    """Remove the logs and records of the oldest starts."""
    kept = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(logs) if entry.name.endswith(".log"))
    for dummy, path in kept[:-KEPT_LOGS]:
        for name in (path, path[:-4] + ".json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def _become(argv: list[str], variables: dict[str, str], log: str) -> NoReturn:
    if shutil.which(argv[0]) is None:
        raise InferopsError(f"{argv[0]} is not there or cannot be run by this user")
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    for descriptor in (1, 2):
        os.dup2(out, descriptor, inheritable=True)
    os.execve(argv[0], argv, variables)
