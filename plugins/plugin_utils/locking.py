# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make a lock: the exact set of packages of a release of SGLang for one CUDA version, with hashes.

``make lock RELEASE=0.5.15 CUDA=cu130`` writes ``locks/sglang-0.5.15-cu130``. What a person decides stands in the
folder's ``inputs.yml`` and is kept; ``requirements.txt`` and, where there is none, ``lock.yml`` are made from it by uv.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomllib
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.build.cuda import cuda_major, twin
from ansible_collections.inferops.sglang.plugins.module_utils.build.snapshot import normalise
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest
from ansible_collections.inferops.sglang.plugins.plugin_utils.builds import COLLECTION, DESCRIPTION, REQUIREMENTS

INPUTS = "inputs.yml"
#: The defaults of ``inputs.yml``.
DEFAULTS: dict[str, Any] = {
    "python": "3.12",
    # the newest releases have no wheels for older systems (glibc 2.34: Ubuntu 22.04, Debian 12, RHEL 9)
    "platform": "x86_64-manylinux_2_34",
    "requirements": [],
    "constraints": [],
    "elsewhere": [],
}
#: The parts of nvcc come with the CUDA version of the lock: a newer nvvm writes PTX that an older ptxas refuses.
_COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl", "nvidia-nvjitlink")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)\Z")


def make(release: str, cuda: str, locks: Path, indexes: Sequence[str] = (), uv: str = "uv") -> Path:
    """Write the lock of a release for ``cuda`` (``cu130``) and return its folder.

    :raises InferopsError: when the inputs are wrong, or no set of packages satisfies them.
    """
    match = re.fullmatch(r"cu(\d\d)(\d)", cuda)
    if not match:
        raise InferopsError(f"CUDA is given as in 'cu130', not as {cuda!r}")
    version = f"{match.group(1)}.{match.group(2)}"
    folder = locks / f"sglang-{release}-{cuda}"
    inputs = _inputs(folder / INPUTS)
    packages = _resolve(release, version, inputs, indexes, uv)
    versions = {name: resolved for name, (resolved, dummy) in packages.items()}
    versions.update((normalise(name), pinned) for name, pinned in (pin.split("==") for pin in inputs["elsewhere"]))
    _refuse_other_cuda(versions, match.group(1))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REQUIREMENTS).write_text(requirements(release, version, packages, inputs["elsewhere"]), encoding="utf-8")
    if not (folder / DESCRIPTION).exists():
        keys = [f'release: "{release}"', f'cuda: "{version}"', f'python: "{inputs["python"]}"', "waivers: []"]
        (folder / DESCRIPTION).write_text("\n".join([*keys, "environment: {}", ""]), encoding="utf-8")
    return folder


def requirements(
    release: str, cuda: str, packages: Mapping[str, tuple[str, Sequence[str]]], elsewhere: Sequence[str]
) -> str:
    """The text of ``requirements.txt``: pins with the hashes of the platform's wheels, then those without."""
    lines = [f"# SGLang {release} for CUDA {cuda}: made by `make lock`, from {INPUTS} in this folder."]
    for name, (version, hashes) in sorted(packages.items()):
        lines.append(f"{name}=={version} \\")
        lines.append(" \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(hashes)))
    if elsewhere:
        lines.append("# From indexes that were not asked when this was made: no hashes.")
        lines += sorted(elsewhere)
    return "\n".join(lines) + "\n"


def _inputs(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    for key in found:
        if key not in DEFAULTS:
            raise InferopsError(f"{path}: unknown key {key!r}; known are {', '.join(DEFAULTS)}{nearest(key, DEFAULTS)}")
    inputs = {**DEFAULTS, **found}
    for pin in inputs["elsewhere"]:
        if not _PIN.match(pin):
            raise InferopsError(f"{path}: elsewhere holds exact pins (torch==2.9.1+cu130), not {pin!r}")
    return inputs


def _resolve(
    release: str, cuda: str, inputs: Mapping[str, Any], indexes: Sequence[str], uv: str
) -> dict[str, tuple[str, list[str]]]:
    """What uv resolves: normalised name -> (version, SHA-256 of each wheel for the platform)."""
    elsewhere = dict(pin.split("==") for pin in inputs["elsewhere"])
    constraints = [f"{name}=={cuda}.*" for name in _COMPILER] + inputs["constraints"] + inputs["elsewhere"]
    with tempfile.TemporaryDirectory() as scratch:
        # what others ask of a package from elsewhere must hold: an empty one of its name and version stands for it
        for name, version in elsewhere.items():
            _stand_in(scratch, name, version)
        files = {}
        for kind, lines in (
            ("requirements", [f"sglang=={release}", *inputs["requirements"]]),
            ("constraints", constraints),
        ):
            files[kind] = os.path.join(scratch, f"{kind}.txt")
            Path(files[kind]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        output = os.path.join(scratch, "pylock.toml")
        argv = [uv, "pip", "compile", "--quiet", "--no-header", "--no-python-downloads", "--only-binary", ":all:"]
        argv += ["--python-version", inputs["python"], "--python-platform", inputs["platform"]]
        argv += ["--constraints", files["constraints"], "--find-links", scratch]
        argv += ["--format", "pylock.toml", "--output-file", output, files["requirements"]]
        env = dict(os.environ)
        if indexes:
            env.update(UV_INDEX=" ".join(indexes), UV_INDEX_STRATEGY="unsafe-best-match")
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InferopsError(f"no set of packages fits SGLang {release} for CUDA {cuda}: {done.stderr.strip()}")
        with open(output, "rb") as stream:
            resolved = tomllib.load(stream)
    packages = {}
    for package in resolved["packages"]:
        name = normalise(package["name"])
        if name not in map(normalise, elsewhere):
            version = package["version"]
            hashes = [wheel["hashes"]["sha256"] for wheel in package.get("wheels", []) if "sha256" in wheel["hashes"]]
            if not hashes:
                raise InferopsError(f"the index gives no hash for {name} {version}: list it under 'elsewhere'")
            packages[name] = (version, hashes)
    return packages


def _stand_in(folder: str, name: str, version: str) -> None:
    """A wheel with nothing in it, that requires nothing."""
    stem = f"{normalise(name).replace('-', '_')}-{version}"
    with zipfile.ZipFile(os.path.join(folder, f"{stem}-py3-none-any.whl"), "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")


def _refuse_other_cuda(versions: Mapping[str, str], major: str) -> None:
    """A release whose torch on the default index is for another CUDA version needs another index.

    :raises InferopsError: when a package for another CUDA major version has no twin for the wanted one.
    """
    for name, version in versions.items():
        found = cuda_major(name, version)
        if found not in (None, major) and (twin(name, major) == name or twin(name, major) not in versions):
            raise InferopsError(
                f"the set holds {name} {version}, which is for CUDA {found}, not {major} (mostly since torch on these "
                "indexes is): give the index that has the right one (INDEX=…), or list it under 'elsewhere' in "
                f"{INPUTS}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make a lock for a release of SGLang.")
    parser.add_argument("--release", required=True, help="of SGLang: 0.5.15")
    parser.add_argument("--cuda", required=True, help="cu130")
    parser.add_argument("--locks", type=Path, default=COLLECTION / "locks", help="where locks lie")
    parser.add_argument("--index", action="append", default=[], help="another package index, before the default one")
    parser.add_argument("--uv", default="uv", help="the program")
    args = parser.parse_args(argv)
    try:
        folder = make(args.release, args.cuda, args.locks, args.index, args.uv)
    except InferopsError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
