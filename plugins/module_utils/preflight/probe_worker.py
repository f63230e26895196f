# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Runs under the unit's own user, environment, limits and sandbox: what a launch would meet there.

Its text is sent to the build's interpreter, since that user cannot read where the module lies: it imports nothing of
this collection. It imports and compiles; it creates no CUDA context and allocates no memory of a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
import tempfile
from typing import Any

# Includes that the kernels of flashinfer and SGLang need beside the compiler itself.
_PROGRAM = """
#include <cuda_fp8.h>
#include <curand_kernel.h>
#include <cublas_v2.h>
__global__ void add(float *x) { x[threadIdx.x] += 1.0f; }
"""
# The least that an assembler takes; a later target than its own is fine.
_ASSEMBLY = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry probe() { ret; }
"""
_INTERESTING = ("error", "fatal", "not found", "cannot", "undefined symbol")


def probe(payload: dict[str, Any]) -> dict[str, Any]:
    """``payload``: ``imports`` (module names), ``folders``, ``files``, ``devices``, ``nvcc`` and ``capability``
    (``null`` for none).

    ``proxies`` are the variables that systemd itself may add to those of the unit. ``assembler`` is the one that Triton
    would use, with its error; ``null`` where there is no Triton.
    Each import, folder, file and device gives its error, ``""`` for none; a module that is not there gives ``null``.
    """
    return {
        "user": os.geteuid(),
        "imports": {name: _import(name) for name in payload["imports"]},
        "folders": {path: _writable(path) for path in payload["folders"]},
        "files": {path: _readable(path) for path in payload["files"]},
        "devices": {path: _openable(path) for path in payload["devices"]},
        "limits": {
            "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
            "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        },
        "proxies": {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
        "compile": _compile(payload["nvcc"], payload["capability"]) if payload["nvcc"] else None,
        "assembler": _assemble(payload["capability"]) if payload["capability"] else None,
    }


def _import(name: str) -> str | None:
    """In a process of its own: a library that aborts must not take the report with it."""
    if importlib.util.find_spec(name) is None:
        return None
    status, said = _run([sys.executable, "-B", "-c", f"import {name}"])
    return "" if status == 0 else _cause(said) or f"ended with status {status}"


def _writable(path: str) -> str:
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _readable(path: str) -> str:
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            with open(path, "rb") as stream:
                stream.read(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _openable(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _compile(nvcc: str, capability: str | None) -> str:
    """Compile a few lines for the host's cards; the first telling line where that fails."""
    architecture = [f"-arch=sm_{capability.replace('.', '')}"] if capability else []
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.cu")
        with open(source, "w", encoding="ascii") as stream:
            stream.write(_PROGRAM)
        argv = [nvcc, *architecture, "-c", source, "-o", os.path.join(folder, "probe.o")]
        status, said = _run(argv)
    return "" if status == 0 else _cause(said) or f"nvcc ended with status {status}"


def _assemble(capability: str) -> dict[str, str] | None:
    """Assemble for the host's cards as Triton would: it brings an assembler of its own, of some CUDA release.

    Its choice is that of ``get_ptxas`` in triton/backends/nvidia/compiler.py (3.5 to 3.7).
    """
    spec = importlib.util.find_spec("triton")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    if not folders:
        return None
    number = int(capability.replace(".", ""))
    own = os.path.join(folders[0], "backends", "nvidia", "bin")
    name = "ptxas-blackwell" if number >= 100 and os.path.exists(os.path.join(own, "ptxas-blackwell")) else "ptxas"
    variable = f"TRITON_{name.upper().replace('-', '_')}_PATH"
    path = os.environ.get(variable) or os.path.join(own, name)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.ptx")
        with open(source, "w", encoding="ascii") as stream:
            stream.write(_ASSEMBLY)
        target = f"sm_{number}{'a' if number >= 90 else ''}"
        status, said = _run([path, "--gpu-name", target, source, "-o", os.path.join(folder, "probe.o")])
    error = "" if status == 0 else _cause(said) or f"{path} ended with status {status}"
    return {"path": path, "variable": variable, "error": error}


def _run(argv: list[str]) -> tuple[int, str]:
    """The exit status (negative for a signal) and what was printed."""
    with tempfile.TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1), (os.POSIX_SPAWN_DUP2, output.fileno(), 2)]
        try:
            pid = os.posix_spawn(argv[0], argv, dict(os.environ), file_actions=actions)
        except OSError as error:
            return 127, f"{argv[0]}: {error.strerror}"
        wait = os.waitpid(pid, 0)[1]
        status = os.WEXITSTATUS(wait) if os.WIFEXITED(wait) else -os.WTERMSIG(wait)
        output.seek(0)
        return status, output.read().decode("utf-8", "replace")


def _cause(said: str) -> str:
    """The line that says why: the last of a Python traceback, else the first that looks like an error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1][:400]
    return next((line for line in lines if any(word in line.lower() for word in _INTERESTING)), "\n".join(lines[-1:]))[
        :400
    ]
