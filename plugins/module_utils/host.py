# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``host``: what every instance needs: service user, folders, compilers and the agent.

It is applied by the role's ``prepare`` with Ansible's own modules; here is what it must come to.
"""

from __future__ import annotations

import glob
import grp
import os
import pwd
import shutil
import stat
from typing import Any

from . import layout
from .changes import RESTART, Plan
from .files import sha256_file

RESOURCE = "host"
#: Every folder that instances share, with its mode; all belong to root.
FOLDERS = {
    layout.ROOT: 0o755,
    layout.BUILDS: 0o755,
    layout.CACHE: 0o755,
    layout.TOOLS: 0o755,
    layout.AGENT: 0o755,
    layout.ETC: 0o755,
    layout.STATE: 0o755,
    layout.LOGS: 0o755,
}
#: Device nodes of GPUs belong to these groups where a distribution restricts them.
GPU_GROUPS = ("video", "render")
#: Where a unit finds programs; a module's own PATH may be longer.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def observe(agent_version: str) -> dict[str, Any]:
    """What of the resource is there; ``agent`` is the version whose archive is there whole, or ``None``."""
    return {
        "user": _user(),
        "gpu_groups": [name for name in GPU_GROUPS if _group_exists(name)],
        "folders": {path: _mode(path) for path in FOLDERS},
        "compilers": {
            **{name: shutil.which(name, path=_PATH) is not None for name in ("gcc", "g++")},
            "Python.h": bool(glob.glob("/usr/include/python3*/Python.h")),
        },
        "agent": _agent(agent_version),
    }


def plan(observed: dict[str, Any], agent_version: str) -> Plan:
    """The changes that ``prepare`` makes. A new agent alone restarts nothing: units name the agent that they use."""
    changes = Plan()
    groups = observed["gpu_groups"]
    wanted_user = {"name": layout.SERVICE_USER, "system": True, "groups": sorted(groups)}
    user = observed["user"]
    if user is not None:
        wanted_user["groups"] = sorted(set(groups) | set(user["groups"]))
    changes.add(RESOURCE, "user", user, wanted_user, RESTART if user is not None else "none")
    for path, mode in FOLDERS.items():
        changes.add(RESOURCE, path, observed["folders"][path], f"root:{mode:04o}")
    wanted_compilers = dict.fromkeys(observed["compilers"], True)
    changes.add(RESOURCE, "compilers", observed["compilers"], wanted_compilers)
    changes.add("agent", "archive", observed["agent"], agent_version)
    return changes


def _user() -> dict[str, Any] | None:
    try:
        entry = pwd.getpwnam(layout.SERVICE_USER)
    except KeyError:
        return None
    groups = sorted(group.gr_name for group in grp.getgrall() if layout.SERVICE_USER in group.gr_mem)
    # login.defs' SYS_UID_MAX is 999 everywhere that we know; logind's RemoveIPC spares users below it
    return {"name": layout.SERVICE_USER, "system": entry.pw_uid < 1000, "groups": groups}


def _mode(path: str) -> str | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    owner = "root" if status.st_uid == 0 else str(status.st_uid)
    return f"{owner}:{stat.S_IMODE(status.st_mode):04o}"


def _agent(version: str) -> str | None:
    """The version if its archive is there and is what its name says: a version is a digest of the content.

    The service user reads it, and nobody else may write what its units start: other permissions are told beside it.
    """
    path = os.path.join(layout.AGENT, f"{version}.pyz")
    if not os.path.exists(path) or not sha256_file(path).startswith(version):
        return None
    permitted = _mode(path)
    return version if permitted == "root:0644" else f"{version}, {permitted}"


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
