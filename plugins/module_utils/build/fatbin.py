# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Which GPU architectures a library holds code for, read from the file: no driver and no CUDA tool is needed.

The container of device code is not documented by its maker. What is read of it here was found by comparing libraries
that nvcc 13.0 wrote for single architectures: a region begins with a magic number, the size of its header and of its
content; each entry in it has a kind (1: PTX, 2: binary code), sizes, the number of its architecture, and two bits of
its flags that stand for the suffixes "a" and "f".
"""

from __future__ import annotations

import mmap
import struct

from . import elf

_MAGIC = struct.pack("<I", 0xBA55ED50)
_REGION = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQ")
_ARCHITECTURE, _FLAGS = 28, 40
_SUFFIXES = ((1 << 20, "a"), (1 << 21, "f"))
_KINDS = {1: "compute", 2: "sm"}
SECTIONS = (".nv_fatbin", "__nv_relfatbin")


def architectures(path: str) -> set[str]:
    """The names of the architectures (``sm_90a``, ``compute_120``) in the library; empty where it has none.

    :raises elf.NotElf: when the file is no library, or its device code is laid out in another way than is known.
    """
    found: set[str] = set()
    with elf.image_of(path) as image:
        for name in SECTIONS:
            for start, size in elf.places(path, image, name):
                _section(image, start, start + size, found)
    return found


def _section(image: mmap.mmap, position: int, end: int, found: set[str]) -> None:
    while True:
        position = image.find(_MAGIC, position, end)
        if position < 0:
            return
        dummy, dummy, header, size = _REGION.unpack_from(image, position)
        entry, position = position + header, position + header + size
        while entry < min(position, end):
            kind, dummy, header, payload = _ENTRY.unpack_from(image, entry)
            if not header:
                break
            if kind in _KINDS:
                (number,) = struct.unpack_from("<I", image, entry + _ARCHITECTURE)
                (flags,) = struct.unpack_from("<Q", image, entry + _FLAGS)
                suffix = "".join(letter for bit, letter in _SUFFIXES if flags & bit)
                found.add(f"{_KINDS[kind]}_{number}{suffix}")
            entry += header + payload
