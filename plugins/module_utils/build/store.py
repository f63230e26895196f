# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Builds on a host: which are sealed, whether they are still as sealed, and what a wanted build lacks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import layout
from ..changes import REBUILD, Change, Plan
from ..files import read_json
from . import snapshot
from .snapshot import FileDrift

#: So many files are named one by one in a plan; more of them are counted by folder.
NAMED_FILES = 20
_KEYS = ("build_id", "n", "lock", "packages", "patches", "site_packages")


@dataclass(frozen=True)
class Build:
    """A sealed build. ``packages`` and ``drift`` are as found now, the manifest is as sealed."""

    path: str
    manifest: dict[str, Any]
    packages: dict[str, str] = field(default_factory=dict)
    drift: list[FileDrift] = field(default_factory=list)

    @property
    def build_id(self) -> str:
        return str(self.manifest["build_id"])

    @property
    def n(self) -> int:
        return int(self.manifest["n"])

    @property
    def python(self) -> str:
        """The build's interpreter. Never resolve the link: its own path is what makes it this environment's."""
        return os.path.join(self.path, "bin", "python")

    @property
    def site_packages(self) -> str:
        return os.path.join(self.path, self.manifest["site_packages"])

    @property
    def options_file(self) -> str:
        """The option schema of the release's own parser (JSON)."""
        return os.path.join(self.path, snapshot.OPTIONS)

    @property
    def intact(self) -> bool:
        return not self.drift and self.packages == self.manifest["packages"]


def folders(root: str = layout.BUILDS) -> Iterator[tuple[str, str, int]]:
    """Every folder that is named like a build: path, build id and number; sealed or not."""
    try:
        names = sorted(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        build_id, dummy, number = name.rpartition(".")
        if build_id and number.isdigit() and os.path.isdir(os.path.join(root, name)):
            yield os.path.join(root, name), build_id, int(number)


def sealed(path: str) -> dict[str, Any] | None:
    """The manifest of the build at ``path``; ``None`` where it is not sealed or was quarantined."""
    if os.path.lexists(os.path.join(path, snapshot.QUARANTINED)):
        return None
    manifest: dict[str, Any] | None = read_json(os.path.join(path, snapshot.MANIFEST), *_KEYS)
    return manifest


def observe(build_id: str, root: str = layout.BUILDS, thorough: bool = False) -> Build | None:
    """The newest sealed build with this id, compared with what was sealed; ``None`` where there is none.

    ``thorough`` reads every file (minutes for some gigabytes on a slow disk) in place of those whose size or time
    changed.
    """
    numbered = [(n, path) for path, found_id, n in folders(root) if found_id == build_id]
    for dummy, path in sorted(numbered, reverse=True):
        manifest = sealed(path)
        if manifest is not None:
            return inspect(path, manifest, thorough)
    return None


def inspect(path: str, manifest: dict[str, Any], thorough: bool = False) -> Build:
    """The build at ``path`` as it is now."""
    recorded = read_json(os.path.join(path, snapshot.FILES)) or {}
    found = snapshot.walk(path)
    packages = snapshot.dist_infos(found, manifest["site_packages"])
    return Build(path, manifest, packages, snapshot.compare(path, recorded, found, thorough))


def plan(spec: Mapping[str, Any], observed: Build | None) -> Plan:
    """The changes between the wanted build and what is there; each means that a build must be made.

    ``spec`` needs ``build_id`` only; ``release`` and ``patches`` (names or definitions) make the text better.
    """
    resource = f"build/{spec['build_id']}"
    wanted = Plan()
    if observed is None:
        wanted.changes.append(Change(resource, "environment", None, _described(spec), REBUILD))
        return wanted
    sealed_packages = observed.manifest["packages"]
    changed = set()
    for name in sorted(sealed_packages.keys() | observed.packages.keys()):
        before, after = observed.packages.get(name), sealed_packages.get(name)
        if before != after:
            changed.add(name)
            wanted.changes.append(Change(resource, f"package {name}", before, after, REBUILD))
    patched = _patched(observed)
    # a changed package accounts for its files, but not for a patch that somebody undid
    files = [d for d in observed.drift if d.path in patched or not _owners(observed, d.path) & changed]
    for what, found, sealed_as in _named(observed, files):
        wanted.changes.append(Change(resource, what, found, sealed_as, REBUILD))
    return wanted


def _described(spec: Mapping[str, Any]) -> str:
    release = spec.get("release") or (spec.get("lock") or {}).get("release")
    names = [patch if isinstance(patch, str) else patch["name"] for patch in spec.get("patches") or []]
    return f"SGLang {release}, patches: {', '.join(names) or 'none'}"


def top(path: str, site_packages: str) -> str:
    """The part of a file's path that tells whose it is: its top folder in ``site-packages``, or the path itself."""
    prefix = site_packages + "/"
    return path[len(prefix) :].partition("/")[0] if path.startswith(prefix) else path


def _owners(build: Build, path: str) -> set[str]:
    """The distributions that a file may belong to: an upgrade of one changes thousands of files."""
    name = top(path, build.manifest["site_packages"])
    if name.endswith(".dist-info"):
        return {snapshot.normalise(name.partition("-")[0])}
    return set(build.manifest.get("owners", {}).get(name, ()))


def _patched(build: Build) -> dict[str, str]:
    """The files that patches changed, relative to the build -> the name of the patch."""
    prefix = build.manifest["site_packages"] + "/"
    return {prefix + path: patch["name"] for patch in build.manifest["patches"] for path in patch.get("files", [])}


def _named(build: Build, files: list[FileDrift]) -> Iterator[tuple[str, str | None, str | None]]:
    """What a plan says of drifted files: (what, found, sealed as)."""
    if len(files) > NAMED_FILES:
        counts: dict[str, dict[str, int]] = {}
        for drift in files:
            states = counts.setdefault(top(drift.path, build.manifest["site_packages"]), {})
            states[drift.state] = states.get(drift.state, 0) + 1
        for name, states in sorted(counts.items()):
            text = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
            yield f"files of {name}", text, "as sealed"
        return
    prefix = build.manifest["site_packages"] + "/"
    patched = _patched(build)
    for drift in files:
        short = drift.path[len(prefix) :] if drift.path.startswith(prefix) else drift.path
        what = f"patched file ({patched[drift.path]}) {short}" if drift.path in patched else f"file {short}"
        if drift.state == snapshot.EXTRA:
            yield what, "not part of the build", None
        else:
            found = None if drift.state == snapshot.MISSING else f"sha256 {drift.before}"
            yield what, found, f"sha256 {drift.after}"
