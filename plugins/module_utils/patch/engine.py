# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The patch engine as other parts of the collection call it."""

from __future__ import annotations

from typing import Any

from ..errors import InferopsError
from ..interpreter import call
from ..running import Runner
from . import worker


def apply_in_build(
    runner: Runner, python: str, site_packages: str, release: str | None, definitions: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Patch a build that is not sealed yet; returns name, state (``present`` or ``not_needed``), digest, files, notes.

    Every file is replaced, never written through, so a hard link to uv's cache stays what it was.

    :raises InferopsError: when a patch conflicts with the release or with another one; nothing was written then.
    """
    request = {"root": site_packages, "release": release, "definitions": definitions, "state": "present"}
    answer = call(runner, python, "patch.worker:apply", request)
    return _patches(answer, site_packages)


def plan_in_build(
    runner: Runner, python: str, site_packages: str, release: str | None, definitions: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What ``apply_in_build`` would return; nothing is written.

    :raises InferopsError: as ``apply_in_build`` does.
    """
    request = {"root": site_packages, "release": release, "definitions": definitions, "state": "present"}
    return _patches(worker.unchanged(request) or call(runner, python, "patch.worker:plan", request), site_packages)


def _patches(answer: dict[str, Any], place: str) -> list[dict[str, Any]]:
    if answer["error"]:
        raise InferopsError(f"the patches cannot be applied in {place}: {answer['error']}", patches=answer["patches"])
    return list(answer["patches"])
