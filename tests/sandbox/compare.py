"""Compare a server on a host, token by token, with transformers: speculation must not change what is generated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from .shell import SandboxError
from .ssh import CONFIG

#: Argument lists of all processes: a word a line, an empty line between processes.
_LISTING = "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/cmdline && echo; done 2>/dev/null"
_REMOTE = Path(__file__).with_name("remote_greedy.py")


def compare(name: str, port: int) -> list[dict]:
    """A row for each prompt: ``prompt``, ``wanted`` and ``got`` tokens, ``accept_length`` (None without speculation).

    The server must compute in float32. Raises SandboxError when there is none on that port.
    """
    processes = [block.splitlines() for block in _on(name, [_LISTING]).split("\n\n")]
    python, model = find_server(processes, port)
    said = _on(name, ["HF_HUB_OFFLINE=1", python, "-", str(port), model], _REMOTE.read_text(encoding="utf-8"))
    return json.loads(said.strip().splitlines()[-1])


def find_server(processes: Iterable[Sequence[str]], port: int) -> tuple[str, str]:
    """The interpreter and the model of the server with that port, from argument lists of processes."""
    for argv in processes:
        if "sglang.launch_server" in argv and _option(argv, "port", "30000") == str(port):
            return argv[0], _option(argv, "model-path", "")
    raise SandboxError(f"no SGLang server with port {port} runs there")


def _option(argv: Sequence[str], name: str, default: str) -> str:
    for index, word in enumerate(argv):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}" and index + 1 < len(argv):
            return argv[index + 1]
    return default


def _on(name: str, command: Sequence[str], data: str | None = None) -> str:
    argv = ["ssh", "-F", str(CONFIG), name, *command]
    done = subprocess.run(argv, input=data, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(f"{' '.join(command)} failed on {name}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
