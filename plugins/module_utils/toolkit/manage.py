# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Apply the plan of a CUDA toolkit."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .. import layout
from ..changes import Plan
from ..errors import InferopsError
from ..files import read_json, write_atomic
from ..gpu import requirement
from ..gpu.driver import Roots, container, kernel_version
from ..running import Runner
from . import apt, link, smoke, state, wheels
from .desired import APT, NONE, PRESENT, WHEELS, Desired


def manage(desired: Desired, runner: Runner, check_mode: bool) -> tuple[Plan, dict[str, Any]]:
    """Bring the toolkit to its description, or in check mode say how; the plan and what is there afterwards.

    :raises InferopsError: when that cannot be done; the toolkit that was there before is then there still.
    """
    apt.refuse_credentials(desired)
    observed = state.observe(desired)
    changes = state.plan(observed, desired)
    refused = refusal(observed, desired)
    if refused is not None:
        raise InferopsError(refused, installed=observed["installed"])
    if check_mode or not changes.changed:
        return changes, observed
    with _locked():
        observed = state.observe(desired)
        changes = state.plan(observed, desired)
        if desired.state == "absent":
            _remove(desired, observed, runner)
        else:
            _provide(desired, observed, changes, runner)
    return changes, state.observe(desired)


def refusal(observed: dict[str, Any], desired: Desired) -> str | None:
    """Why the plan cannot be applied at all, in a sentence; ``None`` when it can."""
    if desired.source == NONE or desired.state == "absent":
        return None
    manifest = observed["manifest"]
    if desired.source == WHEELS and int(desired.version.partition(".")[0]) < wheels.FIRST_MAJOR:
        return (
            f"the wheels of CUDA {desired.version} hold no nvcc (those since {wheels.FIRST_MAJOR}.0 do), so they are "
            "no toolkit: use source 'apt' or 'present' for that release"
        )
    if desired.source == PRESENT:
        if desired.satisfied_by(state.version_at(desired.path)):
            return None
        others = ", ".join(f"{entry['path']} ({entry['version']})" for entry in observed["installed"]) or "none"
        return (
            f"source is 'present', so CUDA {desired.version} must already be in {desired.path}; found there: "
            f"{state.described(desired.path)} (toolkits on this host: {others}); correct path or version, or use "
            "source 'apt' or 'wheels'"
        )
    ours = manifest is not None and (manifest["path"], manifest["source"]) == (desired.path, desired.source)
    if os.path.lexists(desired.path) and not ours:
        # what dpkg installed is dpkg's to repair, so a lost manifest is no obstacle there
        if desired.source == APT and observed["packages"]:
            return None
        if state.version_at(desired.path) is None:
            return (
                f"{desired.path} is there and did not come from source {desired.source!r}; it holds "
                f"{state.described(desired.path)} (what is left of one, say): remove it, or choose another path"
            )
        return (
            f"{desired.path} is there and did not come from source {desired.source!r}: adopt it with source 'present', "
            "choose another path, or remove it first"
        )
    if manifest is not None and not ours and manifest["source"] != PRESENT:
        return (
            f"CUDA {desired.minor} is managed in {manifest['path']} from source {manifest['source']!r}: remove that "
            "one first (state: absent), then install it anew"
        )
    return None


def _provide(desired: Desired, observed: dict[str, Any], changes: Plan, runner: Runner) -> None:
    parts = {change.what for change in changes.changes}
    manifest = observed["manifest"]
    if parts & {"toolkit", "files", "components", "packages", "apt configuration", "repository"}:
        _install(desired, manifest, runner)
    elif "hold" in parts:
        apt.hold(runner, observed["packages"])
    if "capabilities" in parts:
        wanted = next(change.after for change in changes.changes if change.what == "capabilities")
        smoke.compile_for(runner, desired.path, wanted)
        _record({**read_json(state.manifest_path(desired.minor)), "capabilities": wanted}, desired)
    if "default_link" in parts:
        link.lead(runner, desired.path)


def _install(desired: Desired, manifest: dict[str, Any] | None, runner: Runner) -> None:
    """Install or adopt, and record what is there now; nothing is proved yet.

    A repair brings back the release that was there: only a new wish moves it.
    """
    packages: dict[str, str] = {}
    apt_files: dict[str, str] = {}
    recorded = manifest if manifest is not None and desired.satisfied_by(manifest["version"]) else None
    if desired.source == WHEELS:
        wanted = desired if recorded is None else replace(desired, version=recorded["version"])
        release, packages = wheels.install(runner, wanted)
    elif desired.source == APT:
        with link.kept(runner):
            release, packages, apt_files = apt.install(runner, desired, recorded["packages"] if recorded else {})
    else:
        release = state.version_at(desired.path) or desired.version
    installed = {
        "format": 1,
        "version": release,
        "source": desired.source,
        "path": desired.path,
        "packages": packages,
        "components": list(desired.components),
        "apt_files": apt_files,
        "repository": state.repository_identity(desired),
        "nvcc_version": smoke.nvcc_version(runner, desired.path),
        "files": record(desired.path),
        "capabilities": [],
    }
    _record(installed, desired)


def record(path: str) -> dict[str, list[int]]:
    """Size and time of change of what compiles and links: programs, libraries, the headers of the first level."""
    found: dict[str, list[int]] = {}
    for top, deep in (("bin", True), ("nvvm", True), ("lib64", False), ("include", False)):
        for folder, names, files in os.walk(os.path.join(path, top)):
            if not deep:
                names.clear()
            for name in files:
                full = os.path.join(folder, name)
                if os.path.exists(full):
                    status = os.stat(full)
                    found[os.path.relpath(full, path)] = [status.st_size, status.st_mtime_ns]
    return dict(sorted(found.items()))


def _remove(desired: Desired, observed: dict[str, Any], runner: Runner) -> None:
    manifest = observed["manifest"]
    if manifest["source"] == APT:
        others = [name for name in os.listdir(layout.TOOLKITS) if name != f"{desired.minor}.json"]
        apt.remove(runner, desired.minor, last=not any(name.endswith(".json") for name in others))
    elif manifest["source"] == WHEELS:
        link.forget(manifest["path"])
        if os.path.lexists(manifest["path"]):
            shutil.rmtree(manifest["path"])
    os.unlink(state.manifest_path(desired.minor))


def _record(manifest: dict[str, Any], desired: Desired) -> None:
    os.makedirs(layout.TOOLKITS, exist_ok=True)
    text = json.dumps(manifest, separators=(",", ":"), sort_keys=True) + "\n"
    write_atomic(state.manifest_path(desired.minor), text.encode())


@contextmanager
def _locked() -> Iterator[None]:
    """One change of toolkits at a time on a host."""
    os.makedirs(layout.TOOLKITS, exist_ok=True)
    fd = os.open(os.path.join(layout.TOOLKITS, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def summary(observed: dict[str, Any], desired: Desired) -> dict[str, Any]:
    """What the module returns of the observed state."""
    found = {"installed": observed["installed"], "default_link": observed["default_link"]}
    if desired.source == NONE:
        return found
    driver = kernel_version(Roots())
    judgement = requirement.judge(driver, desired.minor, container())
    found.update(
        home=desired.path,
        version=observed["version"],
        driver={"version": driver, "minimum": requirement.minimum(desired.minor), "judgement": judgement},
    )
    manifest = observed["manifest"]
    if manifest is not None:
        smoke_result = {"capabilities": manifest["capabilities"]}
        found.update(nvcc_version=manifest["nvcc_version"], packages=manifest["packages"], smoke=smoke_result)
    return found
