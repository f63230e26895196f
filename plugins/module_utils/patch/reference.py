# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the files of a release must be: the hashes in a wheel's ``RECORD``, or the blobs of a git checkout.

``RECORD`` is described in the "Recording installed projects" specification of PyPA; a git blob's id is the hash of
``blob <size>\\0`` and the content.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from typing import Any


def hash_of(data: bytes, kind: str) -> str:
    """The hash of ``data`` in the form that references have: ``sha256:…`` (hex) or ``git:…``."""
    if kind == "sha256":
        return "sha256:" + hashlib.sha256(data).hexdigest()
    blob = hashlib.sha1(usedforsecurity=False) if kind == "git" else hashlib.sha256()
    blob.update(b"blob %d\0" % len(data))
    blob.update(data)
    return f"{kind}:{blob.hexdigest()}"


def matches(data: bytes | None, reference: str | None) -> bool:
    """Whether ``data`` is what the reference says. A checkout may have other line endings than git keeps."""
    if data is None or reference is None:
        return False
    kind = reference.partition(":")[0]
    if hash_of(data, kind) == reference:
        return True
    return kind != "sha256" and b"\r\n" in data and hash_of(data.replace(b"\r\n", b"\n"), kind) == reference


class References:
    """The references of one package: path below the root -> hash. Empty where neither wheel nor git knows it."""

    def __init__(self, root: str, package: str, distribution: str, git: dict[str, Any] | None) -> None:
        """``git`` is ``{"blobs": {path: id}, …}`` for a checkout, with paths below the root."""
        self.root = root
        self.package = package
        self.dist_info = dist_info(root, distribution)
        self.hashes = record(root, self.dist_info) if self.dist_info else {}
        self.from_git = False
        if not any(path.startswith(package + "/") for path in self.hashes) and git:
            self.from_git = True
            self.hashes = {
                path: ("git256:" if len(blob) == 64 else "git:") + blob
                for path, blob in git["blobs"].items()
                if path.startswith(package + "/")
            }

    @property
    def version(self) -> str | None:
        """The version of the distribution, from the name of its metadata folder."""
        return self.dist_info[: -len(".dist-info")].rpartition("-")[2] if self.dist_info else None


def dist_info(root: str, distribution: str) -> str | None:
    """The name of the metadata folder of a distribution in a ``site-packages``."""
    wanted = normal(distribution)
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return None
    for name in sorted(names):
        if name.endswith(".dist-info") and normal(name[: -len(".dist-info")].rpartition("-")[0]) == wanted:
            return name
    return None


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def record(root: str, folder: str) -> dict[str, str]:
    """Path -> ``sha256:…`` of each file that the wheel's ``RECORD`` has a hash for; bytecode left out."""
    try:
        with open(os.path.join(root, folder, "RECORD"), encoding="utf-8", newline="") as stream:
            text = stream.read()
    except FileNotFoundError:
        return {}
    result = {}
    for line in text.splitlines():
        if line.startswith('"'):
            import csv

            path, hashed, dummy = next(csv.reader([line]))
        else:
            path, hashed, dummy = line.rsplit(",", 2)
        if hashed.startswith("sha256="):
            digest = hashed[len("sha256=") :]
            result[path] = "sha256:" + base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
    return result
