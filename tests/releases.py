"""Releases of SGLang (and of other packages) from the package index, unpacked once and kept in a cache.

Files only: nothing is installed and no dependency is fetched. What is in the cache is shared by all tests, so read it
and copy it, but never write into it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: Every release that the collection supports, oldest first (post releases replace nothing that is patched here).
RELEASES = tuple(f"0.5.{n}" for n in range(7, 24))


def cache_root() -> Path:
    """The folder that holds what is fetched: ``INFEROPS_CACHE``, shared with the sandbox."""
    return Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops"))


def release_tree(version: str, distribution: str = "sglang") -> Path:
    """The unpacked wheel of a release, as it would lie in ``site-packages``; fetched on first use.

    It is safe to call from several processes at once: one fetches, the others wait. A folder appears only when it is
    complete.

    :raises RuntimeError: when the index has no such wheel or cannot be reached.
    """
    releases = cache_root() / "releases"
    releases.mkdir(parents=True, exist_ok=True)
    name = version if distribution == "sglang" else f"{distribution}-{version}"
    tree = releases / name
    if tree.is_dir():
        return tree
    with open(releases / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.is_dir():
            _fetch(distribution, version, tree)
    return tree


def _fetch(distribution: str, version: str, tree: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.parent))
    try:
        argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*argv, "--dest", str(scratch), f"{distribution}=={version}"], capture_output=True, text=True, check=False
        )
        wheels = list(scratch.glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise RuntimeError(f"no wheel of {distribution} {version} from the package index: {done.stderr.strip()}")
        unpacked = scratch / "tree"
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(unpacked)
        unpacked.rename(tree)
    finally:
        shutil.rmtree(scratch)
