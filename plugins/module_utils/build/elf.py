# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The dynamic tables of an ELF library, read without loading it: no GPU, driver or compiler is needed.

Only what a 64-bit little-endian machine loads is read (x86-64, aarch64). Layout: the System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_SHT_DYNAMIC = 6
_SHT_DYNSYM = 11
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29
_STB_WEAK = 2
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


class NotElf(Exception):
    """The file is no 64-bit little-endian ELF file with section headers."""


@dataclass(frozen=True)
class Library:
    """What a library offers and asks for. ``undefined`` leaves out weak symbols: the loader does without those."""

    path: str
    soname: str
    needed: list[str] = field(default_factory=list)
    runpath: list[str] = field(default_factory=list)
    defined: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()


def read(path: str) -> Library:
    """The tables of the library at ``path``; ``$ORIGIN`` in its search path is already its folder.

    :raises NotElf: for any other file.
    :raises OSError: when the file cannot be read.
    """
    with image_of(path) as image:
        return _parse(path, image)


@contextmanager
def image_of(path: str) -> Iterator[mmap.mmap]:
    """The file as memory; whatever goes wrong with its layout while it is read becomes ``NotElf``."""
    with open(path, "rb") as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
                yield image
        except (struct.error, IndexError, ValueError) as error:
            raise NotElf(f"{path} is empty, cut short or damaged: {error}") from error


def is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False


def demangle(symbol: str) -> str:
    """A C++ symbol's qualified name (``_ZN3c106DeviceC1Ev`` -> ``c10::Device``), without arguments; others as is.

    Only nested and plain names of the Itanium C++ ABI are understood; that is what a person needs to find the place.
    """
    rest = symbol[2:] if symbol.startswith("_Z") else ""
    if rest[:1] == "N":
        rest = rest[1:].lstrip("rVK")
    parts = []
    while rest[:1].isdigit():
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        length = int(digits)
        parts.append(rest[len(digits) : len(digits) + length])
        rest = rest[len(digits) + length :]
    return "::".join(parts) or symbol


def places(path: str, image: mmap.mmap, name: str) -> list[tuple[int, int]]:
    """Where in the file the sections with this name lie: offset and size.

    :raises NotElf: when the file is no library.
    """
    sections = _sections(path, image)
    (index,) = struct.unpack_from("<H", image, 0x3E)
    names = image[sections[index][4] : sections[index][4] + sections[index][5]]
    return [(section[4], section[5]) for section in sections if _text(names, section[0]) == name]


def _sections(path: str, image: mmap.mmap) -> list[tuple[int, ...]]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise NotElf(f"{path} is no 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    if not offset or entry_size != _SECTION.size:
        raise NotElf(f"{path} has no section headers")
    return [_SECTION.unpack_from(image, offset + index * entry_size) for index in range(count)]


def _parse(path: str, image: mmap.mmap) -> Library:
    needed: list[str] = []
    runpath: list[str] = []
    soname = os.path.basename(path)
    defined: set[str] = set()
    undefined: set[str] = set()
    sections = _sections(path, image)
    for section in sections:
        kind, start, size, link = section[1], section[4], section[5], section[6]
        if kind not in (_SHT_DYNAMIC, _SHT_DYNSYM):
            continue
        strings = image[sections[link][4] : sections[link][4] + sections[link][5]]
        if kind == _SHT_DYNAMIC:
            for tag, value in _DYNAMIC.iter_unpack(image[start : start + size]):
                if tag == _DT_NEEDED:
                    needed.append(_text(strings, value))
                elif tag == _DT_SONAME:
                    soname = _text(strings, value)
                elif tag in (_DT_RPATH, _DT_RUNPATH):
                    runpath += _folders(_text(strings, value), path)
        else:
            for name, info, dummy, index, dummy, dummy in _SYMBOL.iter_unpack(image[start : start + size]):
                if not name:
                    continue
                if index:
                    defined.add(_text(strings, name))
                elif info >> 4 != _STB_WEAK:
                    undefined.add(_text(strings, name))
    return Library(path, soname, needed, runpath, frozenset(defined), frozenset(undefined))


def _text(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode("ascii", "replace")


def _folders(text: str, path: str) -> list[str]:
    origin = os.path.dirname(os.path.abspath(path))
    parts = [part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in text.split(":") if part]
    return [os.path.normpath(part) for part in parts]
