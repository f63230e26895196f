# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What is wrong with the GPUs of a host, judged from the observed facts alone.

``error``: CUDA programs fail, or will. ``warning``: they run slower or may fail. ``info``: worth knowing. What to do
about each is in docs/troubleshooting-cuda.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .smi import bus_address

ERROR = "error"
WARNING = "warning"
INFO = "info"

#: Xid events that say that the card, its link or its memory failed, and not the program on it (NVIDIA "Xid Errors").
HARDWARE_XIDS = {
    46: "GPU stopped processing",
    48: "double bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping or page retirement recorded",
    64: "row remapping or page retirement failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP firmware does not answer",
    120: "GSP firmware error",
    140: "unrecovered ECC error",
    143: "GPU initialization failed",
    **dict.fromkeys(range(144, 151), "NVLink error"),
}


def judge(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The problems in the facts, errors first."""
    if not facts["present"] and not facts["kernel_module_version"]:
        return []
    found = [*_driver(facts), *_nodes(facts), *_unreachable(facts), *_fabric(facts), *_xids(facts)]
    for gpu in facts["gpus"]:
        found += [*_health(gpu), *_settings(gpu, _where(facts))]
    found += _bus(facts)
    order = (ERROR, WARNING, INFO)
    return sorted(found, key=lambda problem: order.index(problem["severity"]))


def _problem(name: str, severity: str, message: str, **evidence: Any) -> dict[str, Any]:
    return {"name": name, "severity": severity, "message": message, "evidence": evidence}


def _where(facts: dict[str, Any]) -> str:
    """Whose the kernel's half of the driver is."""
    return f"the hypervisor (this is a container: {facts['container']})" if facts["container"] else "this host"


def _driver(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kernel = facts["kernel_module_version"]
    libraries = facts["user_library_versions"]
    if kernel is None and not facts["gpus"]:
        yield _problem(
            "driver_not_loaded",
            ERROR,
            f"NVIDIA cards are on the bus ({', '.join(facts['pci'])}) and no kernel module is loaded: "
            f"install or load the driver on {_where(facts)}",
            pci=facts["pci"],
        )
        return
    others = {path: version for path, version in libraries.items() if kernel is not None and version != kernel}
    if others:
        named = ", ".join(f"{path} is {version}" for path, version in others.items())
        cure = (
            "install the same user libraries in the container as the hypervisor's driver"
            if facts["container"]
            else "reboot, or unload and load the module; then hold the driver's packages (unattended upgrades do this)"
        )
        yield _problem(
            "driver_library_mismatch",
            ERROR,
            f"the kernel module on {_where(facts)} is {kernel} and {named}: {cure}",
            kernel_module=kernel,
            libraries=libraries,
        )
    if kernel is not None and not libraries and not facts["gpus"]:
        yield _problem(
            "driver_library_missing",
            ERROR,
            f"the kernel module {kernel} is loaded and there is no libcuda.so.1: install the user libraries of "
            f"exactly {kernel}",
            kernel_module=kernel,
        )
    if facts["nvidia_smi_error"]:
        yield _problem(
            "nvidia_smi_failed",
            ERROR,
            f"nvidia-smi does not answer: {facts['nvidia_smi_error']}{_cure(facts)}",
            said=facts["nvidia_smi_error"],
        )


def _cure(facts: dict[str, Any]) -> str:
    """What to do about what nvidia-smi said, where that is known."""
    where = _where(facts)
    cures = (
        (r"version mismatch", f"the module on {where} and the libraries here are of two versions: make them one"),
        (r"couldn't communicate", f"load the driver's module on {where}: 'modprobe nvidia' says why it does not come"),
        (r"No devices were found", f"no card came up: the kernel's log on {where} says why (lines with NVRM)"),
        (r"Insufficient Permissions|Permission denied", "give this user access to /dev/nvidia*"),
        (
            r"NVML: Unknown Error",
            "the container lost its right to the device nodes, as after 'systemctl daemon-reload' outside: restart it"
            if facts["container"]
            else "look into the kernel's log (lines with NVRM), and reboot",
        ),
        (r"No such file|not found", "install it: it comes with the driver's user libraries (nvidia-utils)"),
    )
    said = facts["nvidia_smi_error"]
    return next((f" ({cure})" for pattern, cure in cures if re.search(pattern, said, re.IGNORECASE)), "")


def _nodes(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    nodes = facts["device_nodes"]
    for node in nodes:
        wanted = node["registered"]
        if wanted is not None and node["major"] != wanted:
            cure = (
                "after the hypervisor rebooted, renew the container's device entries and cgroup rules for this major"
                if facts["container"]
                else "remove it and run nvidia-modprobe"
            )
            yield _problem(
                "device_node_stale",
                ERROR,
                f"{node['path']} has major {node['major']} and the kernel has registered {wanted}: {cure}",
                **node,
            )
    names = {node["path"].rpartition("/")[2] for node in nodes}
    if facts["kernel_module_version"] is not None and "nvidia-uvm" not in names:
        yield _problem(
            "device_node_missing",
            ERROR,
            "there is no /dev/nvidia-uvm, without which no CUDA program starts: run 'nvidia-modprobe -u -c 0' on "
            f"{_where(facts)}" + (", then pass the node to the container" if facts["container"] else ""),
            nodes=sorted(names),
        )


def _unreachable(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for card in facts["unreachable"]:
        named = f"GPU {card['pci_bus_id'] or '(its address is not told)'}"
        yield _problem(
            "gpu_unreachable",
            ERROR,
            f"{named} does not answer the driver: {card['said']}; CUDA may fail on the other cards too: reset it or "
            f"reboot {_where(facts)}, look for Xid events in its kernel's log, and replace the card if it comes back",
            **card,
        )
    known = {bus_address(card["pci_bus_id"]) for card in (*facts["gpus"], *facts["unreachable"])}
    silent = [address for address in facts["pci"] if bus_address(address) not in known]
    # a container sees the bus of the whole machine and may have few of its cards
    if silent and facts["gpus"] and facts["container"] is None and None not in known:
        yield _problem(
            "gpu_not_listed",
            WARNING,
            f"on the bus, and not listed by nvidia-smi beside the others: {', '.join(silent)}: either the card did not "
            "start (the kernel's log says why), or this driver no longer supports it",
            pci=silent,
        )


def _fabric(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    switches = any("nvidia-nvswitch" in node["path"] for node in facts["device_nodes"])
    states = {gpu["fabric"]["state"] for gpu in facts["gpus"]} - {None}
    manager = facts["services"].get("nvidia-fabricmanager.service") or {}
    waiting = sorted(states - {"Completed"})
    # a virtual machine that got cards without their switches has nothing that a manager of its own could manage
    passed = any(gpu["virtualization"] is not None for gpu in facts["gpus"]) and not switches
    owner = "the hypervisor (the cards are passed through)" if passed and not facts["container"] else _where(facts)
    if waiting:
        yield _problem(
            "fabric_not_ready",
            ERROR,
            f"the NVLink fabric is {', '.join(waiting)!r}, so CUDA would say 'system not yet initialized' (802): "
            f"start nvidia-fabricmanager on {owner} and wait for 'Completed'",
            states=sorted(states),
            fabric_manager=manager,
        )
    # the status says how it went, once the state says that it is over
    ended = {gpu["index"]: gpu["fabric"]["status"] for gpu in facts["gpus"] if gpu["fabric"]["state"] == "Completed"}
    refused = {index: status for index, status in ended.items() if status not in (None, "Success")}
    if refused:
        named = ", ".join(f"GPU {index} ({status})" for index, status in refused.items())
        yield _problem(
            "fabric_failed",
            ERROR,
            f"the NVLink fabric did not take in {named}: read the log of nvidia-fabricmanager, restart it or the host",
            refused=refused,
            fabric_manager=manager,
        )
    if not switches or facts["container"]:
        return
    if manager.get("state") != "active":
        found = f"is {manager.get('state')}" if manager.get("installed") else "is not installed"
        yield _problem(
            "fabric_manager_not_running",
            ERROR,
            f"this host has NVSwitches and nvidia-fabricmanager {found}: install it in the driver's version "
            f"{facts['driver_version']} and enable it",
            fabric_manager=manager,
        )
    elif manager.get("version") not in (None, facts["driver_version"]):
        yield _problem(
            "fabric_manager_version",
            ERROR,
            f"nvidia-fabricmanager is {manager['version']} and the driver {facts['driver_version']}: they must be the "
            "same; install the manager in the driver's version",
            fabric_manager=manager,
        )


def _xids(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # of the errors of NVLink, the card recovers from those that call themselves so
    listed = [event for event in facts["xid"] if event["xid"] in HARDWARE_XIDS]
    serious = [event for event in listed if "Nonfatal" not in event["detail"]]
    for bus in sorted({event["pci_bus_id"] for event in serious}):
        events = [event for event in serious if event["pci_bus_id"] == bus]
        last = events[-1]
        yield _problem(
            "xid",
            WARNING,
            f"the kernel reported Xid {last['xid']} ({HARDWARE_XIDS[last['xid']]}) for {bus} at {last['at']}, "
            f"{len(events)} such events in this boot: look at the card before it serves",
            events=events[-10:],
        )


def _health(gpu: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = f"GPU {gpu['index']} ({gpu['uuid']})"
    ecc = gpu["ecc"]
    if ecc["uncorrectable"]:
        yield _problem(
            "ecc_uncorrectable",
            ERROR,
            f"{name} counted {ecc['uncorrectable']} uncorrectable memory errors since the driver was loaded: "
            "reset the card or reboot; replace it if they come back",
            ecc=ecc,
        )
    for key, severity, words in (
        ("remap_failed", ERROR, "failed to remap a memory row: the card must be replaced"),
        ("unrepairable", ERROR, "has memory that cannot be repaired: the card must be replaced"),
        ("remap_pending", WARNING, "has a memory row to remap: reset the card or reboot while nothing runs on it"),
        ("repair_pending", WARNING, "has a repair pending: reset the card or reboot while nothing runs on it"),
        ("retirement_pending", WARNING, "has memory pages to retire: reset the card or reboot"),
    ):
        if ecc[key]:
            yield _problem(key, severity, f"{name} {words}", ecc=ecc)
    if gpu["recovery_action"]:
        yield _problem(
            "recovery_action",
            ERROR,
            f"{name} asks for a recovery action: {gpu['recovery_action']}",
            action=gpu["recovery_action"],
        )
    slowed = [reason for reason in gpu["clocks"]["slowed_by"] if "hw_" in reason or "thermal" in reason]
    if slowed:
        yield _problem(
            "slowed_down",
            WARNING,
            f"{name} is slowed down by {', '.join(slowed)}: look at its cooling and power",
            **gpu["clocks"],
            temperature_c=gpu["temperature_c"],
        )


def _settings(gpu: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    name = f"GPU {gpu['index']} ({gpu['uuid']})"
    if gpu["persistence"] is False:
        yield _problem(
            "persistence_off",
            INFO,
            f"{name} has persistence mode off: each first use waits for the driver; enable "
            f"nvidia-persistenced on {where}",
        )
    if gpu["mig"]:
        yield _problem(
            "mig_enabled",
            WARNING,
            f"{name} is divided (MIG): a CUDA program gets one slice of it, and a server's 'gpus' are whole cards; end "
            f"that with 'nvidia-smi -i {gpu['index']} -mig 0' on {where}, or name other cards",
        )
    power = gpu["power"]
    if power["limit_w"] and power["default_limit_w"] and power["limit_w"] < power["default_limit_w"]:
        yield _problem(
            "power_limited",
            INFO,
            f"{name} is limited to {power['limit_w']:.0f} W of {power['default_limit_w']:.0f} W",
            **power,
        )
    pcie = gpu["pcie"]
    if pcie["width"] and pcie["width_max"] and pcie["width"] < pcie["width_max"]:
        yield _problem(
            "pcie_narrow",
            WARNING,
            f"{name} runs on {pcie['width']} of {pcie['width_max']} PCIe lanes: reseat the card or check the slot",
            **pcie,
        )


def _bus(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    redirecting = facts["acs_redirecting"]
    if redirecting and facts["topology"]["interconnect"] != "nvlink":
        yield _problem(
            "acs_redirect",
            INFO,
            f"{len(redirecting)} PCIe bridges redirect peer-to-peer traffic through the root complex (ACS): GPU to GPU "
            "copies are slower; it is the firmware's or hypervisor's setting",
            bridges=redirecting,
        )
