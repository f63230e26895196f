# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Remove builds that nothing needs any more."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable

from .. import layout, procfs
from ..files import read_json, read_text
from . import make, snapshot, store

#: A restore may go back so far: builds of an instance's last activations stay.
ACTIVATIONS = 3


def prune(keep: int, root: str = layout.BUILDS, instances: str = layout.ROOT, dry: bool = False) -> list[str]:
    """Remove all builds but the ``keep`` newest and those in use; the paths that were, or would be, removed.

    In use is a build with a live process in it and one that the last three activations of an instance name, whether
    it was quarantined or not.
    """
    with make.locked(root):
        sealed = [path for path, *dummy in store.folders(root) if os.path.exists(os.path.join(path, snapshot.MANIFEST))]
        newest = sorted(sealed, key=_age)[: max(keep, 0)]
        candidates = [path for path in sealed if path not in newest]
        gone = sorted(set(candidates) - activated(candidates, instances) - alive(candidates))
        for path in gone:
            if not dry:
                # without its manifest a half-removed folder is a leftover, which the next build cleans up
                os.unlink(os.path.join(path, snapshot.MANIFEST))
                shutil.rmtree(path)
        return gone


def activated(paths: Iterable[str], instances: str = layout.ROOT) -> set[str]:
    """Those of the builds that one of the last activations of an instance names."""
    texts = []
    for folder in glob.glob(os.path.join(glob.escape(instances), "*", "activations")):
        numbers = sorted((int(name) for name in os.listdir(folder) if name.isdigit()), reverse=True)
        for number in numbers[:ACTIVATIONS]:
            texts.append(read_text(os.path.join(folder, str(number), "activation.json")) or "")
    return {path for path in paths if any(f'"{path}"' in text for text in texts)}


def alive(paths: Iterable[str]) -> set[str]:
    """Those of the builds that a process runs in: it was started by the build's interpreter, or has a library mapped.

    The command alone does not tell: SGLang's children rename themselves.
    """
    wanted = [(path, path + "/") for path in paths]
    found: set[str] = set()
    for pid in procfs.processes() if wanted else ():
        try:
            with open(f"{procfs.PROC}/{pid}/maps", encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            text = ""
        command = procfs.cmdline(pid)[:1]
        found |= {path for path, prefix in wanted if prefix in text or any(word.startswith(prefix) for word in command)}
    return found


def _age(path: str) -> tuple[bool, str]:
    """Sorts the newest sealed build first and quarantined ones last."""
    manifest = read_json(os.path.join(path, snapshot.MANIFEST))
    stamp = "".join(chr(255 - ord(letter)) for letter in str(manifest["sealed_at"]))
    return os.path.exists(os.path.join(path, snapshot.QUARANTINED)), stamp
