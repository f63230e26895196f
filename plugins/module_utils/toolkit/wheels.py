# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Source ``wheels``: the vendor's Python wheels, made into a folder that ``CUDA_HOME`` can name.

The meta-package ``cuda-toolkit`` pins each component to its release, but only those that are asked for by name: with
``cuda-toolkit[nvcc]==13.0.2`` alone, ``nvidia-cuda-nvcc`` brings the newest ``nvidia-nvvm`` and ``nvidia-cuda-crt`` of
any later minor release, whose PTX the release's own ptxas refuses ("Unsupported .version"). So both are asked for too,
and what came is checked before it has its name.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable

from .. import layout
from ..build import uv
from ..errors import InferopsError
from ..running import Runner
from . import state
from .desired import Desired

#: The wheels of CUDA 12 hold ptxas and no nvcc (seen in 12.8 and 12.9).
FIRST_MAJOR = 13
#: Components whose version must be of the release's own minor: compiler, its front and middle end, their headers.
_COMPILER = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt")
#: Not asked for by people: parts of the compiler that are packages of their own since CUDA 13.
_WITH_NVCC = ("nvvm", "crt")
#: What a wheel holds beside the toolkit's own folders.
_NOT_TOOLKIT = re.compile(r"^(__init__\.py|__pycache__|\.metadata)$")


def requirement(desired: Desired) -> str:
    """What uv is asked for: ``cuda-toolkit[crt,cudart,nvcc,nvvm]==13.0.*``."""
    extras = sorted({*desired.components, *(_WITH_NVCC if "nvcc" in desired.components else ())})
    version = desired.version if desired.version.count(".") == 2 else f"{desired.version}.*"
    return f"cuda-toolkit[{','.join(extras)}]=={version}"


def install(runner: Runner, desired: Desired) -> tuple[str, dict[str, str]]:
    """Put the toolkit at ``desired.path`` by one rename; the release and the packages that it came from.

    What is at that path is replaced: the caller has made sure that it is ours.

    :raises InferopsError: when the wheels cannot be had or do not fit each other.
    """
    folder, name = os.path.split(desired.path)
    os.makedirs(folder, exist_ok=True)
    for leftover in glob.glob(os.path.join(folder, f".{name}.*")):
        shutil.rmtree(leftover)
    scratch = tempfile.mkdtemp(prefix=f".{name}.", dir=folder)
    try:
        site, tree = os.path.join(scratch, "site"), os.path.join(scratch, "tree")
        _fetch(runner, desired, site)
        packages = distributions(site)
        release = packages.pop("cuda-toolkit")
        require_one_release(release, packages)
        arrange(site, tree)
        os.chmod(tree, 0o755)
        if state.version_at(tree) is None:
            raise InferopsError(
                f"the wheels of CUDA {release} made no toolkit with a compiler: add 'nvcc' and 'cudart' to components "
                f"(they are {', '.join(desired.components)})"
            )
        if os.path.lexists(desired.path):
            os.rename(desired.path, os.path.join(scratch, "old"))
        os.rename(tree, desired.path)
    finally:
        shutil.rmtree(scratch)
    return release, packages


def _fetch(runner: Runner, desired: Desired, site: str) -> None:
    indexes, find_links = desired.indexes, desired.find_links
    program = uv.ensure(runner, python=sys.executable, indexes=indexes, find_links=find_links)
    os.makedirs(layout.CACHE, exist_ok=True)
    argv = [program, "pip", "install", "--python", sys.executable, "--target", site, "--only-binary", ":all:"]
    done = runner([*argv, requirement(desired)], env=uv.environment(layout.CACHE, indexes, find_links), cwd="/")
    if done.rc != 0:
        said = uv.said(done, uv.secrets(indexes, find_links))
        raise InferopsError(
            f"the wheels of CUDA {desired.version} could not be installed: {said} (wanted: {requirement(desired)}; "
            "they come from the package index, or from indexes and find_links where those are set)",
            rc=done.rc,
        )


def distributions(site: str) -> dict[str, str]:
    """The installed distributions of a folder by their normalized name, with their versions."""
    found = {}
    for info in glob.glob(os.path.join(glob.escape(site), "*.dist-info")):
        name, dummy, version = os.path.basename(info)[: -len(".dist-info")].rpartition("-")
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


def require_one_release(release: str, packages: dict[str, str]) -> None:
    """:raises InferopsError: when a part of the compiler is of another minor release than the toolkit."""
    minor = release.split(".")[:2]
    for name, version in sorted(packages.items()):
        if name in _COMPILER and version.split(".")[:2] != minor:
            raise InferopsError(
                f"{name} came as {version} and the toolkit is {release}: its own ptxas refuses what another minor "
                f"release's compiler makes; provide {name} {'.'.join(minor)} in the index or wheelhouse"
            )


def arrange(site: str, tree: str) -> None:
    """Move the contents of the wheels into one tree in the shape of a toolkit.

    All wheels of a release share one folder, ``nvidia/cu13``. They carry no link names (``libcudart.so``) and no
    ``lib64``: compilers look for both.
    """
    os.makedirs(tree)
    for part in sorted(glob.glob(os.path.join(glob.escape(site), "nvidia", "*", ""))):
        _merge(part, tree)
    licences = os.path.join(tree, "dist-info")
    os.mkdir(licences)
    for info in glob.glob(os.path.join(glob.escape(site), "*.dist-info")):
        os.rename(info, os.path.join(licences, os.path.basename(info)))
    library = os.path.join(tree, "lib")
    os.makedirs(library, exist_ok=True)
    for name, target in link_names(os.listdir(library)).items():
        os.symlink(target, os.path.join(library, name))
    os.symlink("lib", os.path.join(tree, "lib64"))


def link_names(names: Iterable[str]) -> dict[str, str]:
    """``{"libcudart.so": "libcudart.so.13"}`` for the libraries that lack their link name."""
    there = set(names)
    matches = (re.fullmatch(r"(lib[^.]+\.so)\.[\d.]+", name) for name in sorted(there))
    return {match.group(1): match.group(0) for match in matches if match and match.group(1) not in there}


def _merge(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    for entry in os.scandir(source):
        if _NOT_TOOLKIT.match(entry.name):
            continue
        to = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            _merge(entry.path, to)
        else:
            os.rename(entry.path, to)
