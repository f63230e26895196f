# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file of a rollout on the controller: hosts of a batch note their states in it at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.files import read_json, write_atomic
from ansible_collections.inferops.sglang.plugins.plugin_utils import this_run

#: The play reads the file with ``vars_files``: everything in it is under this one name.
NAME = "sglang_rollout_plan"


def read(path: str) -> dict[str, Any]:
    """The plan that is kept.

    :raises InferopsError: when there is none.
    """
    kept = read_json(path)
    if not isinstance(kept, dict) or NAME not in kept:
        raise InferopsError(f"there is no rollout to go on with: {path} does not exist; start one without resume=true")
    return dict(kept[NAME])


def write(path: str, plan: dict[str, Any]) -> None:
    """Keep the plan in place of the one that is there.

    :raises InferopsError: where that cannot be done; what was there is still there.
    """
    with _told(path):
        write_atomic(path, (json.dumps({NAME: plan}, indent=1) + "\n").encode())


def begin(path: str, plan: dict[str, Any], run_id: str) -> None:
    """Keep a new plan, which this run is going to work off.

    :raises InferopsError: when another run still works off the plan that is kept there.
    """
    with _told(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        other = (read_json(path) or {}).get(NAME, {}).get("run", "")
        if other != run_id and this_run.lives(other):
            raise InferopsError(
                f"another run (process {other.split('/')[1]}) works off the rollout in {path}: wait for it, or end it "
                "and go on with resume=true"
            )
        write(path, {**plan, "run": run_id})


def update(path: str, change: Callable[[dict[str, Any]], dict[str, Any]], run_id: str) -> dict[str, Any]:
    """Change the plan that this run works off, one process at a time; the plan afterwards.

    :raises InferopsError: when another run has gone on with it since.
    """
    with _locked(path):
        plan = read(path)
        if plan.get("run") != run_id:
            raise InferopsError(
                f"another run ({plan.get('run')}) has gone on with the rollout in {path}; this one does nothing more"
            )
        plan = change(plan)
        write(path, plan)
        return plan


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with _told(path):
        stream = open(path + ".lock", "a", encoding="ascii")  # noqa: SIM115 - closed below
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """A full disk, or a folder that is not ours, in words."""
    try:
        yield
    except OSError as error:
        raise InferopsError(
            f"the rollout's plan cannot be kept in {path}: {error.strerror or error}; make room there, or name another "
            "file with rollout_file, and go on with rollout_resume=true"
        ) from error
