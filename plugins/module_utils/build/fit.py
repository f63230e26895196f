# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Do the distributions of an environment fit each other? Each function is one kind of check, on facts from files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..running import Runner
from . import elf
from .abi import Finding
from .cuda import cuda_major, on_purpose
from .installed import Distribution, addresses, pins, required
from .snapshot import normalise
from .versions import public, same_version

Check = dict[str, Any]

#: Kernel package and version -> the torch that it was released for: what the SGLang releases 0.5.7 to 0.5.23 that pin
#: the one pin of the other (their METADATA).
KERNEL_TORCH = {
    "sgl-kernel": {"0.3.20": "2.9.1", "0.3.21": "2.9.1"},
    "sglang-kernel": {
        "0.4.1": "2.9.1",
        "0.4.2": "2.11.0",
        "0.4.2.post2": "2.11.0",
        "0.4.3": "2.11.0",
        "0.4.4": "2.11.0",
        "0.4.5": "2.11.0",
        "0.4.6.post1": "2.13.0",
        "0.4.7": "2.13.0",
        "0.4.9": "2.14.1",
        "0.4.10": "2.14.1",
    },
}
#: A name, what it is of another one, and the folder that both fill: the one installed last wins, file by file.
_RENAMED = (
    ("sgl-kernel", "the old name", "sglang-kernel", "sgl_kernel"),
    ("flashinfer", "the old name", "flashinfer-python", "flashinfer"),
    ("pytorch-triton", "the name of a nightly build", "triton", "triton"),
)
_COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")
_BROKEN = re.compile(r"The package `([^`]+)` requires `([^`]+)`, but (.+)")
#: What else ``uv pip check`` says of a distribution: for another Python or platform, there twice, without metadata.
_UNSOUND = re.compile(r"The package `([^`]+)` (.+)")
#: So many libraries, and symbols of each, are named.
_SHOWN = 3


def _check(name: str, wrong: str, right: str) -> Check:
    return {"name": name, "ok": not wrong, "detail": wrong or right}


def release(lock: Mapping[str, Any], found: Sequence[Distribution]) -> Check:
    """The release that the lock is named for is the one that is there: a resolver may quietly take an older one."""
    version = next((item.version for item in found if item.name == "sglang"), None)
    wrong = ""
    if version is None or not same_version(version, lock["release"]):
        wrong = f"found sglang {version or 'nowhere'}, the lock is for {lock['release']}: correct its pins or 'release'"
    return _check("release", wrong, f"sglang {version}")


def pins_hold(lock: Mapping[str, Any], found: Sequence[Distribution]) -> Check:
    """Exactly the pinned distributions are there. A pin with a local version (+cu130) must match in full."""
    wanted = pins(lock["requirements"])
    versions = {item.name: item.version for item in found}
    wrong = []
    for name, allowed in wanted.items():
        present = versions.get(name)
        if present is not None and not any(same_version(present, version) for version in allowed):
            wrong.append(f"{name} {present} in place of {' or '.join(allowed)}")
    extra = sorted(versions.keys() - wanted.keys() - addresses(lock["requirements"]))
    wrong += [f"{name} {versions[name]} is not in the lock" for name in extra]
    return _check("lock", "; ".join(wrong), f"{len(versions)} distributions as pinned")


def cuda_majors(lock: Mapping[str, Any], found: Sequence[Distribution]) -> Check:
    """All distributions are for the lock's CUDA major version, or for none where the lock is for the CPU.

    One for another major is excused where the package that asks for it has both on purpose.
    """
    wanted = None if lock["cuda"] is None else lock["cuda"].partition(".")[0]
    majors = {item.name: major for item in found for major in [cuda_major(item.name, item.version)] if major}
    wrong = [
        f"{item.name} {item.version} is for CUDA {majors[item.name]}"
        for item in found
        if majors.get(item.name, wanted) != wanted and not (wanted and on_purpose(item.name, wanted, found))
    ]
    target = f"CUDA {wanted}" if wanted else "the CPU"
    message = f"the lock is for {target}, but " + "; ".join(wrong) + ": take the builds for one CUDA version"
    return _check(
        "cuda", message if wrong else "", f"{len(majors)} distributions name a CUDA version, all for {target}"
    )


def metadata(found: Sequence[Distribution]) -> list[Check]:
    """A wheel whose file name and content disagree on the version: version checks of others then go wrong."""
    return [
        _check(
            f"metadata:{item.name}",
            f"the wheel's file name says {item.folder_version}, its METADATA says {item.version}: fetch another build",
            "",
        )
        for item in found
        if not same_version(item.folder_version, item.version)
    ]


def leftovers(lock: Mapping[str, Any], found: Sequence[Distribution]) -> list[Check]:
    """Packages that an upgrade leaves behind and that break the import of their successor."""
    versions = {item.name: item.version for item in found}
    checks = []
    for name, what, other, folder in _RENAMED:
        if {name, other} <= versions.keys():
            text = f"{name} is {what} of {other}, and both fill the folder {folder}: drop {name}"
            checks.append(_check(f"leftover:{name}", text, ""))
    base = versions.get("flashinfer-python")
    for name in ("flashinfer-cubin", "flashinfer-jit-cache"):
        version = versions.get(name)
        if version is None:
            continue
        wrong = ""
        if base is None or not same_version(public(version), public(base)):
            wrong = (
                f"{name} {version} beside flashinfer-python {base}: flashinfer refuses to start; drop it or match it"
            )
        checks.append(_check(f"leftover:{name}", wrong, f"{name} {version} fits flashinfer-python {base}"))
    return checks


def compiler(found: Sequence[Distribution]) -> Check:
    """nvcc's parts are of one version: a newer nvvm writes PTX that the older assembler beside it refuses."""
    parts = {item.name: item.version for item in found if item.name in _COMPILER}
    wrong = ""
    if len({".".join(version.split(".")[:2]) for version in parts.values()}) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in parts.items())
        wrong = f"the compiler's parts are of different versions ({listed}): pin them to one"
    return _check(
        "nvcc", wrong, ", ".join(f"{name} {version}" for name, version in parts.items()) or "no nvcc in the lock"
    )


def broken_pins(runner: Runner, uv: str, python: str) -> list[Check]:
    """The requirements of distributions that the set breaks, as uv finds them: ``pin:<who asks>:<for what>``.

    What it finds wrong with a distribution itself is ``package:<name>``.
    """
    done = runner([uv, "pip", "check", "--python", python], env={"NO_COLOR": "1", "LC_ALL": "C.UTF-8"}, cwd="/")
    checks = []
    for line in (done.stderr + "\n" + done.stdout).splitlines():
        match = _BROKEN.match(line.strip())
        if match:
            text = f"{match.group(1)} requires {match.group(2)}, but {match.group(3).replace('`', '')}"
            checks.append(_check(f"pin:{normalise(match.group(1))}:{required(match.group(2))}", text, ""))
            continue
        match = _UNSOUND.match(line.strip())
        if match:
            text = f"{match.group(1)} {match.group(2).replace('`', '')}"
            checks.append(_check(f"package:{normalise(match.group(1))}", text, ""))
        elif line.startswith("  - ") and checks:  # the folders of one that is there twice
            checks[-1]["detail"] += f" {os.path.basename(line.strip())}"
    if done.rc != 0 and not checks:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing was printed").splitlines()
        checks.append(_check("pins", f"uv pip check ended with status {done.rc}: {said[-1]}", ""))
    return checks or [_check("pins", "", "every requirement of every distribution is met")]


def torch_cuda(lock: Mapping[str, Any], torch: Mapping[str, Any] | None) -> list[Check]:
    """The CUDA version that torch was built for is the lock's."""
    if torch is None:
        return []
    wrong = ""
    if torch["cuda"] != lock["cuda"]:
        wrong = (
            f"torch {torch['version']} is built for {_for_cuda(torch['cuda'])}, the lock is for "
            f"{_for_cuda(lock['cuda'])}: pin the build of torch for it and give the index that has it"
        )
    return [_check("cuda:torch", wrong, f"torch {torch['version']} is built for {_for_cuda(torch['cuda'])}")]


def torch_architectures(torch: Mapping[str, Any] | None, capabilities: Sequence[str]) -> list[Check]:
    """torch has kernels for each compute capability, compiled for it or as PTX of an older one."""
    if torch is None or torch["cuda"] is None:
        return []
    listed = ", ".join(torch["arch_list"])
    checks = []
    for capability in capabilities:
        wrong = "" if runs_on(torch["arch_list"], capability) else f"torch has no code for capability {capability}: "
        checks.append(_check(f"arch:torch:{capability}", wrong and wrong + listed, listed))
    return checks


def kernel_architectures(code: Mapping[str, Collection[str]], capabilities: Sequence[str]) -> list[Check]:
    """The kernel package has code for each compute capability in the libraries that every server loads.

    ``code`` is what each library holds. The others serve single features (an attention backend): those that do not
    serve the card are named, and that is no error.
    """
    always = {name: held for name, held in code.items() if "common_ops" in name} or dict(code)
    checks = []
    for capability in capabilities if code else ():
        silent = sorted(name for name, held in code.items() if held and not runs_on(held, capability))
        listed = ", ".join(sorted({name for held in always.values() for name in held}))
        wrong = ""
        if not any(runs_on(held, capability) for held in always.values()):
            wrong = f"the kernel package has no code for capability {capability} (it has {listed or 'none at all'})"
        right = f"no code in {', '.join(silent)}: what needs them cannot run" if silent else "in every library"
        checks.append(_check(f"arch:sgl_kernel:{capability}", wrong, right))
    return checks


def runs_on(listed: Iterable[str], capability: str) -> bool:
    """Whether one of the architectures (``sm_90``, ``compute_90``, ``sm_120a``) serves a capability (``12.0``).

    Binary code, and PTX with the suffix "f", serves the same major version with the same or a higher minor one; code
    with the suffix "a" serves exactly its own; PTX serves everything newer (CUDA C++ Programming Guide, "Compute
    Capabilities").
    """
    wanted = tuple(int(part) for part in capability.split("."))
    for name in listed:
        match = re.match(r"(sm|compute)_(\d+)(\d)([af]?)\Z", name)
        if not match:
            continue
        has = (int(match.group(2)), int(match.group(3)))
        if match.group(4) == "a" and has == wanted:
            return True
        if match.group(4) == "a":
            continue
        if has <= wanted and (has[0] == wanted[0] or (match.group(1) == "compute" and not match.group(4))):
            return True
    return False


def mismatch(wrong: Sequence[Finding], found: Sequence[Distribution], torch: str) -> str:
    """What does not fit, library by library, and the torch that it was made for where that is known."""
    parts = []
    for finding in wrong[:_SHOWN]:
        if finding.missing:
            parts.append(f"{finding.library} needs {', '.join(finding.missing)}, which this environment does not have")
        if finding.symbols:
            names = list(dict.fromkeys(map(elf.demangle, finding.symbols)))
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            shown = ", ".join(names[:_SHOWN])
            parts.append(f"{finding.library} needs {shown}{more}, not in torch {torch} (first: {finding.symbols[0]})")
    if len(wrong) > _SHOWN:
        parts.append(f"{len(wrong) - _SHOWN} more libraries")
    for item in found:
        made_for = KERNEL_TORCH.get(item.name, {}).get(public(item.version))
        if made_for and made_for != public(torch) and any(f.library.startswith("sgl_kernel/") for f in wrong):
            parts.append(f"{item.name} {item.version} was released for torch {made_for}")
    return "; ".join(parts)


def _for_cuda(version: str | None) -> str:
    return f"CUDA {version}" if version else "the CPU"
