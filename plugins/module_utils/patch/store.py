# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the engine remembers of a tree: the text of files before it changed them, and what it has put there.

The store lies in the tree that it belongs to, so that both are on one file system and go together: ``.inferops-patch``
in a ``site-packages``, ``inferops-patch`` in the git folder of a checkout (where ``git status`` does not see it).

``state.json``::

    {"format": 1, "release": "0.5.9",
     "definitions": [...],                      # in force, in order
     "results": {"name": {"digest": …, "state": …, "examined": {"sglang/srt/…": sha256}, …}},
     "files": {"sglang/srt/…": {"base": sha256, "patched": sha256, "reference": "sha256:…", "foreign": false,
                                "digests": {"name": digest}}}}
"""

from __future__ import annotations

import os

from ..files import read_bytes, read_json, sha256, write_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMAT = 1
IN_SITE_PACKAGES = ".inferops-patch"
IN_GIT = "inferops-patch"


class Store:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.state_file = os.path.join(folder, "state.json")
        self.lock_file = os.path.join(folder, "lock")
        self._pristine = os.path.join(folder, "pristine")

    def state(self) -> dict[str, Any]:
        """What is remembered; empty for a tree that was never patched.

        :raises InferopsError: when the state is there and cannot be read.
        """
        state = read_json(self.state_file)
        return state if state else empty_state()

    def text(self) -> bytes | None:
        """The state as it is written, or ``None``."""
        return read_bytes(self.state_file)

    def make_folders(self) -> None:
        os.makedirs(self._pristine, mode=0o755, exist_ok=True)

    def sweep(self) -> None:
        """Remove what a killed run left half written. Call it under the lock."""
        for folder in (self.folder, self._pristine):
            for name in os.listdir(folder):
                if name.startswith("."):
                    os.unlink(os.path.join(folder, name))

    def put(self, data: bytes) -> str:
        """Keep a text; returns its SHA-256."""
        name = sha256(data)
        path = os.path.join(self._pristine, name)
        if read_bytes(path) != data:
            write_atomic(path, data, 0o644)
        return name

    def get(self, name: str) -> bytes | None:
        """A text that was kept, or ``None`` where it is gone or no longer what its name says."""
        data = read_bytes(os.path.join(self._pristine, name))
        return data if data is not None and sha256(data) == name else None


def empty_state() -> dict[str, Any]:
    return {"format": FORMAT, "release": None, "definitions": [], "results": {}, "files": {}}
