# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Everything that is known of a host's GPUs. That there are none is a fact, not an error."""

from __future__ import annotations

import re
from typing import Any

from .. import systemd
from ..errors import InferopsError
from ..running import Runner
from . import driver as driver_files
from . import holders, problems, smi
from .driver import Roots

FABRIC_UNIT = "nvidia-fabricmanager.service"
PERSISTENCE_UNIT = "nvidia-persistenced.service"
_ENGLISH = {"LC_ALL": "C"}
#: Memory in use without a process of ours that explains it: below this it is the driver's own.
UNEXPLAINED = 512 << 20


def facts(runner: Runner, roots: Roots | None = None) -> dict[str, Any]:
    """The GPUs, the driver's two halves, the topology and ``problems`` (name, severity, message, evidence).

    ``unreachable`` are the cards of which nvidia-smi says that they do not answer.

    Never raises for what is missing: a host without GPUs has ``gpus: []`` and no problems.
    """
    roots = roots or Roots()
    found: dict[str, Any] = {
        "present": bool(driver_files.pci_gpus(roots)),
        "pci": driver_files.pci_gpus(roots),
        "container": driver_files.container(),
        "kernel_module_version": driver_files.kernel_version(roots),
        "user_library_versions": driver_files.library_versions(roots),
        "device_nodes": driver_files.device_nodes(roots),
        "driver_version": None,
        "cuda_driver_version": None,
        "gpus": [],
        "unreachable": [],
        "nvidia_smi_error": None,
    }
    queried = _query(runner)
    found.update(queried)
    found["present"] = found["present"] or bool(found["gpus"])
    found["driver_version"] = found["driver_version"] or found["kernel_module_version"]
    found["topology"] = _topology(runner, found["gpus"])
    found["acs_redirecting"] = driver_files.acs_redirecting(roots) if len(found["gpus"]) > 1 else None
    found["services"] = _services(runner) if found["present"] else {}
    found["xid"] = _xid(runner) if found["kernel_module_version"] else []
    attach_processes(found["gpus"], roots.dev)
    found["problems"] = problems.judge(found)
    return found


def indices(observed: dict[str, Any]) -> dict[str, int]:
    """The index of each GPU by UUID, as ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` counts them."""
    return {gpu["uuid"]: gpu["index"] for gpu in observed["gpus"]}


def query(runner: Runner) -> dict[str, Any]:
    """Only ``driver_version``, ``cuda_driver_version`` and ``gpus`` (with the processes that the driver reports)."""
    return _query(runner)


def attach_processes(gpus: list[dict[str, Any]], dev: str) -> None:
    """Replace the driver's process list of each GPU by ours, and set ``held_elsewhere``.

    ``processes`` are those that have the GPU's node open here, with unit and owner, and ``memory_used`` where the
    driver reports the same pid. ``held_elsewhere`` are the driver's processes that are none of these: another pid
    namespace (the hypervisor's or another container's) holds the card.
    """
    here = holders.gpu_holders(dev) if gpus else []
    for gpu in gpus:
        reported = {entry["pid"]: entry for entry in gpu["processes"]}
        local = [holder for holder in here if gpu["minor"] in holders.minors(holder)]
        gpu["held_elsewhere"] = outside(gpu["processes"], local)
        gpu["processes"] = [
            {**holder.to_dict(), "memory_used": (reported.get(holder.pid) or {}).get("memory_used")} for holder in local
        ]
        if not local and not reported and (gpu["memory_used"] or 0) > UNEXPLAINED:
            gpu["held_elsewhere"] = [{"pid": None, "name": None, "type": None, "memory_used": gpu["memory_used"]}]


def outside(reported: list[dict[str, Any]], local: list[holders.Holder]) -> list[dict[str, Any]]:
    """The driver's processes of one GPU that are none of the local holders.

    A pid settles it where both know it. Inside a container the driver may know our own processes by the hypervisor's
    pids; so each local holder that it does not list stands for one entry that we do not know, of its name if possible.
    """
    pids = {holder.pid for holder in local}
    listed = {entry["pid"] for entry in reported}
    unknown = [entry for entry in reported if entry["pid"] not in pids]
    for holder in local:
        if holder.pid not in listed and unknown:
            same = [entry for entry in unknown if entry["name"] and holder.name in entry["name"]]
            unknown.remove((same or unknown)[0])
    return unknown


def _query(runner: Runner) -> dict[str, Any]:
    done = runner(["nvidia-smi", "-q", "-x"], env=_ENGLISH)
    nothing: dict[str, Any] = {"gpus": [], "driver_version": None, "cuda_driver_version": None}
    try:
        found = smi.parse_query(done.stdout)
    except InferopsError as error:
        said = (done.stdout.strip() or done.stderr.strip()).replace("\n", " ") if done.rc != 0 else error.message
        lost = smi.complaints(f"{done.stdout}\n{done.stderr}")
        return {**nothing, "unreachable": lost, "nvidia_smi_error": said}
    if done.rc != 0 and not found["gpus"]:
        return {**nothing, "unreachable": [], "nvidia_smi_error": done.stderr.strip() or f"status {done.rc}"}
    found["unreachable"] += smi.complaints(done.stderr)
    asked = runner(["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"], env=_ENGLISH)
    capabilities = smi.parse_capabilities(asked.stdout)
    for gpu in found["gpus"]:
        gpu["compute_capability"] = capabilities.get(gpu["uuid"])
    return {**found, "nvidia_smi_error": None}


def _topology(runner: Runner, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    return smi.parse_topology(runner(["nvidia-smi", "topo", "-m"], env=_ENGLISH).stdout if gpus else "")


def _services(runner: Runner) -> dict[str, dict[str, Any]]:
    """The driver's own services by unit: ``installed``, ``state``, and the fabric manager's ``version``."""
    try:
        shown = systemd.show(runner, [FABRIC_UNIT, PERSISTENCE_UNIT], ("LoadState", "ActiveState"))
    except InferopsError:
        return {}
    found: dict[str, dict[str, Any]] = {
        unit: {"installed": values.get("LoadState") == "loaded", "state": values.get("ActiveState")}
        for unit, values in shown.items()
    }
    if found[FABRIC_UNIT]["installed"]:
        said = runner(["nv-fabricmanager", "--version"], env=_ENGLISH).stdout
        match = re.search(r"(\d{3}\.\d+(?:\.\d+)?)", said)
        found[FABRIC_UNIT]["version"] = match.group(1) if match else None
    return found


def _xid(runner: Runner) -> list[dict[str, Any]]:
    """The Xid events of this boot in the kernel's log; empty where the log cannot be read (most containers)."""
    argv = ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-iso", "-n", "200", "--grep", "NVRM: Xid"]
    return parse_xid(runner(argv, env=_ENGLISH).stdout)


def parse_xid(text: str) -> list[dict[str, Any]]:
    """Lines like ``… NVRM: Xid (PCI:0000:65:00): 79, pid=…, GPU has fallen off the bus.``

    For a slice of a divided card, its number follows the address.
    """
    found = []
    for line in text.splitlines():
        match = re.search(r"^(\S+).*NVRM: Xid \(PCI:([0-9a-fA-F:.]+)(?: [^)]*)?\): (\d+), ?(.*)$", line)
        if match:
            at, bus, code, detail = match.groups()
            found.append({"at": at, "pci_bus_id": bus.lower(), "xid": int(code), "detail": detail})
    return found
