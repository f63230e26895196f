# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The proof of a build: what must hold before it can be put in force.

Each check has a name. Imports, the symbols of the kernel libraries and one CUDA version are hard. Another check that
fails is an error too, unless a waiver of the lock names it with a reason; a waiver that excuses nothing is reported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InferopsError, nearest
from ..interpreter import call
from ..running import Runner
from . import abi, fatbin, fit, installed, proof_worker
from .snapshot import normalise

#: Checks that no waiver excuses. A patched module is named in full, so a lock may excuse one that needs a GPU.
HARD = frozenset(
    {"lock", "release", "cuda", "cuda:torch", "imports", *(f"import:{name}" for name in ("torch", "sgl_kernel"))}
) | {
    "import:flashinfer",
    "import:sglang",
    "import:sglang.launch_server",
    "abi:sgl_kernel",
    "abi:flashinfer",
    "abi:flashinfer_jit_cache",
    "abi:flashinfer_cubin",
}
#: What to do where the driver's own library is missing.
NO_DRIVER = (
    ": that is the driver's library, which comes with the driver and never with a lock; install the driver first"
)
#: What a server imports before SGLang, where it is there: the kernel package has had several names.
_BASE = ("torch", "sgl_kernel", "flashinfer")


def prove(
    spec: Mapping[str, Any],
    runner: Runner,
    path: str,
    site_packages: str,
    patches: Sequence[Mapping[str, Any]],
    uv: str,
    capabilities: Sequence[str] = (),
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The checks of the environment at ``path``, and the option schema of its SGLang (``None`` if it cannot be read).

    Each check has ``name``, ``ok``, ``detail`` and, where a waiver was used, its reason as ``waived``. ``patches`` are
    the results of the patch engine: the modules of patched files are imported too.
    """
    lock = spec["lock"]
    python = os.path.join(path, "bin", "python")
    packages = os.path.join(path, site_packages)
    found = installed.distributions(path, site_packages)
    modules = [name for name in _BASE if os.path.isdir(os.path.join(packages, name))]
    modules += ["sglang", "sglang.launch_server", *patched_modules(patches)]
    checks = [
        fit.release(lock, found),
        fit.pins_hold(lock, found),
        fit.cuda_majors(lock, found),
        *fit.metadata(found),
        *fit.leftovers(lock, found),
        fit.compiler(found),
        *fit.broken_pins(runner, uv, python),
    ]
    imported, torch, options = _imports(runner, python, list(dict.fromkeys(modules)), lock["environment"])
    checks += imported
    checks += fit.torch_cuda(lock, torch)
    checks += fit.torch_architectures(torch, capabilities)
    checks += fit.kernel_architectures(_device_code(packages), capabilities)
    checks += _abi(python, packages, found)
    return judged(checks, lock["waivers"]), options


def judged(checks: Iterable[dict[str, Any]], waivers: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The checks with their waivers: each used one as ``waived``; each that excuses nothing as a check of its own.

    A waiver may spell the names of packages as people do (``pin:sglang:cuda_python``).
    """
    result = [dict(check) for check in checks]
    reasons = {normalise(waiver["check"]): waiver["reason"] for waiver in waivers}
    hard = {normalise(name) for name in HARD}
    broken = set()
    for check in result:
        name = normalise(check["name"])
        if check["ok"]:
            continue
        broken.add(name)
        if name in reasons and name not in hard:
            check["waived"] = reasons[name]
    unwaived = [check["name"] for check in result if not check["ok"] and "waived" not in check]
    for written in sorted({waiver["check"] for waiver in waivers}):
        name = normalise(written)
        if name in hard:
            result.append(failed(f"waiver:{written}", f"{written} cannot be waived: without it no server can run"))
        elif name not in broken:
            text = f"the waiver of {written} is no longer needed: remove it from the lock"
            result.append(passed(f"waiver:{written}", text + nearest(written, unwaived, 0.9)))
    return result


def require(checks: Sequence[Mapping[str, Any]], path: str) -> None:
    """Refuse a build whose proof fails.

    :raises InferopsError: it names every failed check.
    """
    broken = [check for check in checks if not check["ok"] and "waived" not in check]
    if not broken:
        return
    lines = "\n".join(f"- {check['name']}: {check['detail']}" for check in broken)
    excusable = [check["name"] for check in broken if check["name"] not in HARD]
    advice = (
        f"\nIf the lock breaks this on purpose, name it with a reason under 'waivers': {', '.join(excusable)}"
        if excusable
        else ""
    )
    raise InferopsError(
        f"the environment made at {path} does not hold together, so it is not put in force and nothing that runs was "
        f"touched; {len(broken)} of {len(checks)} checks failed:\n{lines}{advice}",
        proof={"checks": list(checks)},
    )


def passed(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": True, "detail": detail}


def failed(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": False, "detail": detail}


def patched_modules(patches: Sequence[Mapping[str, Any]]) -> list[str]:
    """The modules of the files that patches changed."""
    files = [file for patch in patches for file in patch.get("files", []) if file.endswith(".py")]
    return sorted({file[: -len(".py")].replace("/", ".").replace(".__init__", "") for file in files})


def _imports(
    runner: Runner, python: str, modules: list[str], environment: Mapping[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None, dict[str, Any] | None]:
    entry = proof_worker.__name__.rpartition(".module_utils.")[2] + ":imports"
    home = tempfile.mkdtemp(prefix="sglang-proof-")
    try:
        # caches of the modules go to a home that is thrown away, whoever runs this
        done = call(runner, python, entry, {"modules": modules}, env={**environment, "HOME": home})
    except InferopsError as error:
        text = f"the interpreter ended while it imported ({error.message}); its last lines: "
        return [failed("imports", text + str(error.result.get("stderr", ""))[-600:])], None, None
    finally:
        shutil.rmtree(home, ignore_errors=True)
    checks = []
    for module in done["modules"]:
        name = f"import:{module['name']}"
        if module["error"] is None:
            checks.append(passed(name, f"{module['seconds']} s"))
        else:
            checks.append(failed(name, telling_line(module["error"])))
    return checks, done["torch"], done["options"]


def telling_line(error: str) -> str:
    """The line of a long message that names the cause.

    The kernel package reports every failed import as a missing GPU architecture and gives the loader's message below.
    """
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    for sign in ("undefined symbol", "cannot open shared object file"):
        for line in lines:
            if sign in line:
                return line + (NO_DRIVER if "libcuda.so.1" in line else "")
    return lines[0] if lines else error


def _device_code(packages: str) -> dict[str, set[str]]:
    """What each library of the kernel package holds for which architecture."""
    libraries = abi.extensions(packages, ["sgl_kernel"])
    return {os.path.relpath(path, packages): fatbin.architectures(path) for path in libraries}


def _abi(python: str, packages: str, found: Sequence[installed.Distribution]) -> list[dict[str, Any]]:
    """One check for each top folder with libraries that use torch, the kernel packages first."""
    if not os.path.isdir(os.path.join(packages, "torch", "lib")):
        return []
    environment = abi.Environment(python, packages)
    torch = next((item.version for item in found if item.name == "torch"), "?")
    checks = []
    for top in sorted(name for name in os.listdir(packages) if os.path.isdir(os.path.join(packages, name))):
        hard = f"abi:{top}" in HARD
        if top in ("torch", "nvidia", "triton"):
            continue
        libraries = [path for path in abi.extensions(packages, [top]) if hard or abi.for_torch(path, torch)]
        if not libraries:
            continue
        wrong = [item for item in map(environment.judge, libraries) if item.symbols or (hard and item.missing)]
        if wrong:
            checks.append(failed(f"abi:{top}", fit.mismatch(wrong, found, torch)))
        else:
            checks.append(passed(f"abi:{top}", f"{len(libraries)} libraries fit torch {torch}"))
    return checks
