# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``gpus`` of a plan: observed only. Nothing here plans the end of a stranger's process or a new driver.

A host without a driver costs two looks at a folder. No program is run: what is known comes from ``/proc`` and ``/dev``.
"""

from __future__ import annotations

import glob
import os

from .. import layout
from ..changes import Plan

TYPE_CHECKING = False  # see files.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .driver import Roots

RESOURCE = "gpus"


def observe(proc: str = "/proc", dev: str = "/dev", roots: Roots | None = None) -> dict[str, Any] | None:
    """The kernel's ``driver`` version, the user's ``libraries`` by path and who holds GPUs; ``None`` without any."""
    driven = os.path.exists(os.path.join(proc, "driver/nvidia/version"))
    nodes = glob.glob(os.path.join(dev, "nvidia[0-9]*"))
    if not driven and not nodes:
        return None
    from . import driver, holders

    roots = roots or driver.Roots(proc=proc, dev=dev)
    return {
        "driver": driver.kernel_version(roots),
        "libraries": driver.library_versions(roots),
        "holders": [{**holder.to_dict(), "gpus": sorted(holders.minors(holder))} for holder in holders.gpu_holders(dev)]
        if nodes
        else [],
    }


def plan(observed: dict[str, Any] | None, served_with: Iterable[str | None]) -> Plan:
    """What differs. ``served_with`` are the driver versions with which the servers here were last seen serving."""
    found = Plan()
    if observed is None:
        return found
    driver = observed["driver"]
    if driver is not None:
        # an upgrade of the packages leaves the loaded module as it is: whatever starts from now on fails
        apart = {path: version for path, version in observed["libraries"].items() if version != driver}
        found.notice(RESOURCE, "driver libraries", apart, dict.fromkeys(apart, driver))
        for version in sorted({version for version in served_with if version is not None}):
            found.notice(RESOURCE, "driver", driver, version)
    for holder in observed["holders"]:
        if not _ours(holder["unit"]):
            found.notice(RESOURCE, f"stray process {holder['pid']}", holder, None)
    return found


def _ours(unit: str | None) -> bool:
    """Whether it is the unit of an instance that this collection has put in force here."""
    if unit is None or not unit.startswith("sglang-"):
        return False
    return os.path.isdir(layout.Instance(unit[len("sglang-") : -len(".service")]).activations)
