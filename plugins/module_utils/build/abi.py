# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Do the extension libraries of an environment fit its torch? Answered from ELF tables, without loading anything.

An import finds only the first symbol of the one library that this GPU needs; the tables show all of them, of every
library, on a machine without a GPU too.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import elf
from .elf import Library

#: Belongs to the driver, never to an environment; whether it is there is for the checks of the host.
DRIVER = frozenset({"libcuda.so.1", "libnvidia-ml.so.1", "libcuda.so", "libnvcuvid.so.1", "libnvidia-encode.so.1"})
_DRIVER_SYMBOL = re.compile(r"(cu|nvml|cuvid|NvEncode)[A-Z]\w*\Z")
#: Names that only torch's own libraries define.
_TORCH_SYMBOL = re.compile(r"_ZT?[A-Z]*N?[rVK]*(3c10|2at|5torch|6caffe2)|aoti_torch_|torch_")
_TORCH_LIBRARY = re.compile(r"lib(c10|torch)(_\w+)?\.so")


@dataclass(frozen=True)
class Finding:
    """One library that does not fit: symbols that nothing defines, and needed libraries that are nowhere."""

    library: str
    symbols: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class Environment:
    """The libraries that a process of an environment can have: its own, torch's and the system's."""

    def __init__(self, python: str, site_packages: str, system: Iterable[str] | None = None) -> None:
        self.site_packages = site_packages
        self.folders = [
            os.path.join(site_packages, "torch", "lib"),
            *sorted(glob.glob(os.path.join(site_packages, "nvidia", "**", "lib"), recursive=True)),
            os.path.join(site_packages, "tvm_ffi", "lib"),
        ]
        self.system = list(system_folders() if system is None else system)
        self._read: dict[str, Library | None] = {}
        base = [os.path.realpath(python), *sorted(glob.glob(os.path.join(self.folders[0], "*.so*")))]
        self._base = self._closure(path for path in base if elf.is_elf(path))
        self._provided = _defined(self._base)

    def judge(self, path: str) -> Finding:
        """What the library at ``path`` asks for that nothing here has.

        Where a needed library is missing, it may be the one that defines a symbol: then only the names that torch
        alone defines are counted.

        :raises elf.NotElf: when the file cannot be read as a library.
        """
        library = elf.read(path)
        loaded = self._closure([path])
        provided = _defined(loaded) | self._provided
        missing = sorted(self._absent(loaded) - DRIVER)
        unresolved = set(library.undefined - provided)
        if DRIVER & {name for other in loaded for name in other.needed}:
            unresolved = {name for name in unresolved if not is_driver_symbol(name)}
        if missing:
            unresolved = {name for name in unresolved if _TORCH_SYMBOL.match(name)}
        return Finding(os.path.relpath(path, self.site_packages), sorted(unresolved), missing)

    def _closure(self, paths: Iterable[str]) -> list[Library]:
        """The libraries at ``paths`` and all that they need, as far as it can be found."""
        found: dict[str, Library] = {}
        pending = list(paths)
        while pending:
            path = pending.pop()
            if path in found:
                continue
            library = self._library(path)
            if library is None:
                continue
            found[path] = library
            pending += [place for place in (self._find(name, library) for name in library.needed) if place]
        return list(found.values())

    def _absent(self, loaded: list[Library]) -> set[str]:
        return {name for library in loaded for name in library.needed if self._find(name, library) is None}

    def _find(self, name: str, by: Library) -> str | None:
        for folder in [*by.runpath, *self.folders, *self.system]:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return os.path.realpath(path)
        return None

    def _library(self, path: str) -> Library | None:
        if path not in self._read:
            try:
                self._read[path] = elf.read(path)
            except (elf.NotElf, OSError):
                # a linker script or another architecture: it can neither define nor need anything here
                self._read[path] = None
        return self._read[path]


def _defined(libraries: Iterable[Library]) -> set[str]:
    return {name for library in libraries for name in library.defined}


def extensions(site_packages: str, tops: Iterable[str]) -> list[str]:
    """The shared libraries below the named top folders."""
    found = []
    for name in tops:
        for folder, dummy, files in os.walk(os.path.join(site_packages, name)):
            found += [os.path.join(folder, file) for file in files if file.endswith(".so") or ".so." in file]
    return sorted(path for path in found if elf.is_elf(path))


def for_torch(path: str, version: str) -> bool:
    """Whether a library names one of torch's libraries as needed, and is not for another torch by its own name.

    Some packages carry a library for each torch release (``…_torch29-cuda.so``) and load the one that fits.
    """
    named = re.search(r"torch(\d)\.?(\d+)", os.path.basename(path))
    if named and [named.group(1), named.group(2)] != version.partition("+")[0].split(".")[:2]:
        return False
    try:
        return any(_TORCH_LIBRARY.match(name) for name in elf.read(path).needed)
    except elf.NotElf:
        return False


def is_driver_symbol(name: str) -> bool:
    """Whether a symbol is one that the driver's libraries define."""
    return _DRIVER_SYMBOL.match(name) is not None


def system_folders() -> list[str]:
    """Where the loader looks by itself: the folders of ``ld.so.conf`` and the built-in ones."""
    folders: list[str] = []
    for file in ["/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))]:
        try:
            with open(file, encoding="utf-8", errors="replace") as stream:
                folders += [line.strip() for line in stream if line.startswith("/")]
        except OSError:
            continue
    machine = os.uname().machine
    built_in = [
        f"/lib/{machine}-linux-gnu",
        f"/usr/lib/{machine}-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ]
    return [*folders, *built_in]
