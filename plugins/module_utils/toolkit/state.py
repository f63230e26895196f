# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Observe and plan a CUDA toolkit without running a program: a manifest, a few hundred ``stat`` calls, dpkg's status.

The manifest of each managed toolkit is ``/opt/sglang/toolkits/<minor>.json``, written last::

    {"format": 1, "version": "13.0.2", "source": "wheels", "path": "/usr/local/cuda-13.0",
     "packages": {"nvidia-cuda-nvcc": "13.0.88"}, "components": ["nvcc"], "files": {"bin/nvcc": [size, mtime_ns]},
     "apt_files": {}, "nvcc_version": "13.0.88", "capabilities": ["9.0", "12.0"]}

``components`` are those of source ``wheels``, ``apt_files`` the configuration that source ``apt`` wrote, and
``capabilities`` those that the smoke test has compiled for.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from .. import layout
from ..changes import Plan
from ..files import read_bytes, read_json
from .desired import APT, NONE, SET, WHEELS, Desired

DEFAULT_LINK = "/usr/local/cuda"
DPKG_STATUS = "/var/lib/dpkg/status"
#: Where toolkits are looked for.
SEARCH = ("/usr/local/cuda*", "/opt/cuda*")


def resource(desired: Desired) -> str:
    return f"toolkit/{desired.minor}"


def home(desired: Desired) -> str | None:
    """The folder that a unit's ``CUDA_HOME`` names; ``None`` where no toolkit is wanted."""
    return None if desired.source == NONE else desired.path


def manifest_path(minor: str) -> str:
    return os.path.join(layout.TOOLKITS, f"{minor}.json")


def observe(desired: Desired) -> dict[str, Any]:
    """What is there: ``installed`` toolkits, the ``default_link``, and of the wanted one its ``version``, ``manifest``,
    ``real_path`` (where links lead), files that are ``damaged``, and (source ``apt``) its ``packages`` with version and
    hold."""
    found: dict[str, Any] = {"installed": installed(), "default_link": default_link()}
    if desired.source == NONE:
        return found
    manifest = read_json(manifest_path(desired.minor))
    path = desired.path if manifest is None else manifest["path"]
    found["manifest"] = None if manifest is None else {key: manifest[key] for key in manifest if key != "files"}
    found["real_path"] = os.path.realpath(desired.path)
    found["version"] = version_at(path)
    found["damaged"] = [] if manifest is None else damaged(manifest)
    if manifest is not None and found["version"] is not None and manifest["version"].startswith(found["version"]):
        found["version"] = manifest["version"]  # headers tell 13.0 where the manifest knows 13.0.2
    if desired.source == APT:
        found["packages"] = packages(desired.minor)
        found["apt_files"] = {name: _text(name) for name in apt_files(desired.minor)}
    return found


def plan(observed: dict[str, Any], desired: Desired) -> Plan:
    """The changes that lead to the toolkit. A running server keeps what it has compiled, so none restarts it."""
    changes = Plan()
    if desired.source == NONE:
        return changes
    name = resource(desired)
    manifest = observed["manifest"]
    before = _identity(manifest) if manifest is not None else observed["version"]
    if desired.state == "absent":
        if manifest is not None:
            changes.add(name, "toolkit", before, None)
        return changes
    right = (
        manifest is not None
        and (manifest["source"], manifest["path"]) == (desired.source, desired.path)
        and desired.satisfied_by(observed["version"])
    )
    if not right:
        wanted = {"source": desired.source, "version": desired.version, "path": desired.path}
        changes.add(name, "toolkit", before, wanted)
    else:
        changes.add(name, "files", observed["damaged"], [])
        if desired.source == WHEELS:
            missing = [component for component in desired.components if component not in manifest["components"]]
            changes.add(name, "components", manifest["components"], [*manifest["components"], *missing])
    if desired.source == APT:
        _plan_apt(changes, name, observed, desired, right)
    same = manifest is not None and all(change.what == "hold" for change in changes.changes)
    proved = list(manifest["capabilities"]) if same else []
    unproved = [capability for capability in desired.capabilities if capability not in proved]
    changes.add(name, "capabilities", proved, [*proved, *unproved])
    if desired.default_link == SET and observed["default_link"] != observed["real_path"]:
        changes.add(name, "default_link", observed["default_link"], desired.path)
    return changes


def _plan_apt(changes: Plan, name: str, observed: dict[str, Any], desired: Desired, right: bool) -> None:
    if right:
        _plan_apt_configuration(changes, name, observed, desired)
    loose = sorted(package for package, entry in observed["packages"].items() if not entry["held"])
    changes.add(name, "hold", loose, [])


def _plan_apt_configuration(changes: Plan, name: str, observed: dict[str, Any], desired: Desired) -> None:
    recorded = observed["manifest"]
    there = {package: entry["version"] for package, entry in observed["packages"].items()}
    drifted = {package: there.get(package) for package, version in recorded["packages"].items()}
    changes.add(name, "packages", drifted, dict(recorded["packages"]))
    edited = [path for path, text in recorded["apt_files"].items() if observed["apt_files"][path] != text]
    changes.add(name, "apt configuration", sorted(edited), [])
    changes.add(name, "repository", recorded["repository"], repository_identity(desired))


def repository_identity(desired: Desired) -> dict[str, str]:
    """What says where packages come from, and whom to trust for them."""
    return {"repository": desired.repository, "key_fingerprint": desired.key_fingerprint}


def _identity(manifest: dict[str, Any]) -> dict[str, Any]:
    return {key: manifest[key] for key in ("source", "version", "path")}


def installed() -> list[dict[str, Any]]:
    """Every toolkit on the host: ``path``, ``version``, ``managed`` and whether it is the ``default``."""
    manifests = [read_json(path) for path in sorted(glob.glob(manifest_path("*")))]
    managed = {os.path.realpath(entry["path"]): entry for entry in manifests}
    # links lead to toolkits that lie elsewhere, and to those that are found anyway
    folders = {os.path.realpath(path) for pattern in SEARCH for path in glob.glob(pattern)} | set(managed)
    default = os.path.realpath(DEFAULT_LINK)
    found = []
    for path in sorted(folders):
        version = version_at(path)
        if version is not None:
            entry = managed.get(path)
            known = entry["version"] if entry is not None and entry["version"].startswith(version) else version
            shown = path if entry is None else entry["path"]
            found.append({"path": shown, "version": known, "managed": entry is not None, "default": path == default})
    return found


def default_link() -> str | None:
    """Where /usr/local/cuda leads in the end (through update-alternatives, say); ``None`` where it is not there."""
    return os.path.realpath(DEFAULT_LINK) if os.path.lexists(DEFAULT_LINK) else None


def version_at(path: str) -> str | None:
    """The version of the toolkit in a folder, or ``None`` where there is no compiler.

    ``version.json`` (the vendor's packages and run files have it) knows the update; a header only the minor release.
    """
    if not os.access(os.path.join(path, "bin", "nvcc"), os.X_OK):
        return None
    told = re.search(rb'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', read_bytes(f"{path}/version.json") or b"")
    if told:
        return told.group(1).decode()
    header = read_bytes(f"{path}/include/cuda_runtime_api.h") or b""
    number = re.search(rb"#define\s+CUDART_VERSION\s+(\d+)", header)
    return None if number is None else f"{int(number.group(1)) // 1000}.{int(number.group(1)) % 1000 // 10}"


def described(path: str) -> str:
    """What is at a path where a toolkit is looked for: its version, or what it lacks."""
    version = version_at(path)
    if version is not None:
        return version
    if not os.path.isdir(path):
        return "no toolkit"
    if not os.access(os.path.join(path, "bin", "nvcc"), os.X_OK):
        return "a folder without bin/nvcc, which is no toolkit"
    return "bin/nvcc, but neither version.json nor include/cuda_runtime_api.h, which tell the version"


def damaged(manifest: dict[str, Any]) -> list[str]:
    """The recorded files that are gone or are not what was installed (by size and time of change), sorted."""
    wrong = []
    for name, (size, changed) in manifest["files"].items():
        try:
            status = os.stat(os.path.join(manifest["path"], name))
        except OSError:
            wrong.append(name)
            continue
        if (status.st_size, status.st_mtime_ns) != (size, changed):
            wrong.append(name)
    return sorted(wrong)


def suffix(minor: str) -> str:
    """How the names of the vendor's packages of one minor release end."""
    return "-" + minor.replace(".", "-")


def apt_files(minor: str) -> tuple[str, str, str]:
    """The files that source ``apt`` writes: the repository, its key, the preferences of this minor release."""
    return (
        "/etc/apt/sources.list.d/inferops-cuda.sources",
        "/usr/share/keyrings/inferops-cuda.asc",
        f"/etc/apt/preferences.d/inferops-cuda{suffix(minor)}",
    )


def packages(minor: str) -> dict[str, dict[str, Any]]:
    """The installed packages of one minor release (``cuda-nvcc-13-0``, and what registers it as an alternative) with
    ``version`` and ``held``."""
    text = read_bytes(DPKG_STATUS) or b""
    name = rb"^Package: (\S+" + suffix(minor).encode() + rb"(?:-config-common)?)\n"
    found: dict[str, dict[str, Any]] = {}
    for match in re.finditer(name, text, re.MULTILINE):
        end = text.find(b"\n\n", match.start())
        stanza = text[match.start() : end if end > 0 else len(text)]
        status = re.search(rb"^Status: (\S+) \S+ (\S+)$", stanza, re.MULTILINE)
        version = re.search(rb"^Version: (\S+)$", stanza, re.MULTILINE)
        if status and version and status.group(2) == b"installed":
            entry = {"version": version.group(1).decode(), "held": status.group(1) == b"hold"}
            found[match.group(1).decode()] = entry
    return found


def _text(path: str) -> str | None:
    raw = read_bytes(path)
    return None if raw is None else raw.decode("utf-8", "replace")
