# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What a new build can take from those beside it: digests of the same files, and their bytecode.

uv links the files of all builds to one cache. A build that shares them should not read gigabytes again, nor compile
and store the same modules again.
"""

from __future__ import annotations

import os
from typing import Any

from ..files import read_json
from . import snapshot, store


def sealed(root: str) -> list[str]:
    """The sealed builds below ``root``, quarantined ones too, newest first."""
    found = [os.path.join(path, snapshot.MANIFEST) for path, *dummy in store.folders(root)]
    there = [manifest for manifest in found if os.path.exists(manifest)]
    return [os.path.dirname(manifest) for manifest in sorted(there, key=os.path.getmtime, reverse=True)]


def digests(root: str) -> dict[str, list[Any]]:
    """The records of all sealed builds in one; that of the newest counts.

    A digest is taken over only where size and time agree to the nanosecond: what a plan goes by, too.
    """
    known: dict[str, list[Any]] = {}
    for path in reversed(sealed(root)):
        known.update(read_json(os.path.join(path, snapshot.FILES)) or {})
    return known


def share_bytecode(root: str, path: str, packages: str) -> int:
    """Link into the build at ``path`` the bytecode that others have of the very same source files; how many.

    Python checks the time and size of the source before it believes bytecode, and replaces the file, never writes
    into it, when it does not.
    """
    linked = 0
    for sibling in sealed(root):
        for folder, names, dummy in os.walk(os.path.join(sibling, packages)):
            if "__pycache__" in names:
                names.remove("__pycache__")
                linked += _share_folder(folder, os.path.join(path, os.path.relpath(folder, sibling)))
    return linked


def _share_folder(there: str, here: str) -> int:
    linked = 0
    target = os.path.join(here, "__pycache__")
    for name in os.listdir(os.path.join(there, "__pycache__")):
        source = name.partition(".")[0] + ".py"
        wanted = os.path.join(target, name)
        if not os.path.exists(wanted) and _same(os.path.join(there, source), os.path.join(here, source)):
            os.makedirs(target, exist_ok=True)
            os.link(os.path.join(there, "__pycache__", name), wanted)
            linked += 1
    return linked


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
