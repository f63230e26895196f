# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Every file of a release against what it was released as: the wheel's ``RECORD``, or the commit of a checkout."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from .reference import References, matches

CHANGED, MISSING, ADDED = "changed", "missing", "added"
_NOT_FILES_OF_A_RELEASE = (".inferops-new", ".inferops-old")


def strangers(
    references: References, patched: dict[str, dict[str, Any]], others: list[str] | None
) -> list[dict[str, str]]:
    """The files that differ and that no patch explains: ``path`` and ``problem`` (changed, missing or added).

    ``patched`` is what the store remembers of files; ``others`` are the untracked files of a checkout (``None`` for a
    wheel: then the package's folder is searched for files that the wheel did not bring).
    """
    root = references.root
    found = []
    for path, reference in references.hashes.items():
        kind, dummy, expected = reference.partition(":")
        try:
            with open(os.path.join(root, path), "rb", buffering=0) as stream:
                data = stream.read()
        except OSError:
            found.append({"path": path, "problem": MISSING})
            continue
        is_released = hashlib.sha256(data).hexdigest() == expected if kind == "sha256" else matches(data, reference)
        if not is_released and not _explained(data, patched.get(path)):
            found.append({"path": path, "problem": CHANGED})
    if references.hashes:
        added = _added(root, references) if others is None else others
        found += [{"path": path, "problem": ADDED} for path in added]
    return sorted(found, key=lambda one: one["path"])


def _explained(data: bytes, entry: dict[str, Any] | None) -> bool:
    """Whether a patch put the text there, on a base that was the release's."""
    return entry is not None and not entry["foreign"] and hashlib.sha256(data).hexdigest() == entry["patched"]


def _added(root: str, references: References) -> list[str]:
    added = []
    folders = [os.path.join(root, references.package)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif not entry.name.endswith(_NOT_FILES_OF_A_RELEASE):
                    path = entry.path[len(root) :].lstrip("/")
                    if path not in references.hashes:
                        added.append(path)
    return added
