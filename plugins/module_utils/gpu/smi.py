# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What ``nvidia-smi`` prints, as values. Pure functions: text in, dictionaries out.

The XML is that of ``nvidia-smi -q -x``. Its elements come and go between driver releases, so every value may be
``None``: what a driver does not say is unknown, never an error. Memory is in bytes (nvidia-smi prints MiB).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

from ..errors import InferopsError

_MIB = 1 << 20
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: A cell of ``nvidia-smi topo -m`` that says how two devices are connected.
_LINK = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")


def parse_query(text: str) -> dict[str, Any]:
    """``nvidia-smi -q -x`` as ``driver_version``, ``cuda_driver_version`` and ``gpus``, in the order of their index.

    :raises InferopsError: when the text is not that XML.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        first = (text.strip().splitlines() or ["nothing"])[0]
        raise InferopsError(f"nvidia-smi -q -x did not print XML ({error}): {first!r}") from error
    return {
        "driver_version": _text(root, "driver_version"),
        "cuda_driver_version": _text(root, "cuda_version"),
        "gpus": [_gpu(index, element) for index, element in enumerate(root.findall("gpu"))],
    }


def parse_capabilities(text: str) -> dict[str, str]:
    """``--query-gpu=uuid,compute_cap --format=csv,noheader``: the compute capability (``12.0``) by UUID."""
    pairs = (line.split(",") for line in text.splitlines() if line.count(",") == 1)
    return {uuid.strip(): value.strip() for uuid, value in pairs if re.fullmatch(r"\d+\.\d+", value.strip())}


def parse_topology(text: str) -> dict[str, Any]:
    """``nvidia-smi topo -m``: ``links[GPUi][GPUj]`` between GPUs, and ``numa`` and ``cpus`` of each.

    ``interconnect`` is ``nvlink`` where every pair of GPUs has NVLinks, ``mixed`` where some have, ``pcie`` where none
    has, ``single`` for one GPU and ``None`` for none.
    """
    lines = [line for line in _ANSI.sub("", text).splitlines() if line.strip()]
    header = next((line for line in lines if re.match(r"\s*GPU0\b", line) and "CPU Affinity" in line), None)
    if header is None:
        return {"interconnect": None, "links": {}, "numa": {}, "cpus": {}}
    columns = [name.strip() for name in header.strip().split("\t")]
    links: dict[str, dict[str, str]] = {}
    numa: dict[str, int | None] = {}
    cpus: dict[str, str | None] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.split("\t")]
        name, row = cells[0], dict(zip(columns, cells[1:]))
        if line is header or not re.fullmatch(r"GPU\d+", name):
            continue
        links[name] = {to: row[to] for to in row if re.fullmatch(r"GPU\d+", to) and _LINK.match(row[to])}
        links[name].pop(name, None)
        node = row.get("NUMA Affinity") or ""
        numa[name] = int(node) if node.isdigit() else None
        cpus[name] = row.get("CPU Affinity") or None
    return {"interconnect": _interconnect(links), "links": links, "numa": numa, "cpus": cpus}


def _interconnect(links: dict[str, dict[str, str]]) -> str | None:
    kinds = {cell.startswith("NV") for row in links.values() for cell in row.values()}
    if not links:
        return None
    if not kinds:
        return "single"
    return "mixed" if len(kinds) == 2 else ("nvlink" if kinds == {True} else "pcie")


def _gpu(index: int, element: ElementTree.Element) -> dict[str, Any]:
    volatile = element.find("ecc_errors/volatile")
    return {
        "index": index,
        "uuid": _text(element, "uuid"),
        "name": _text(element, "product_name"),
        "architecture": _text(element, "product_architecture"),
        "pci_bus_id": (element.get("id") or "").lower() or None,
        "minor": _number(element, "minor_number"),
        "compute_capability": None,
        "memory_total": _mebibytes(element, "fb_memory_usage/total"),
        "memory_used": _mebibytes(element, "fb_memory_usage/used"),
        "utilization": _number(element, "utilization/gpu_util"),
        "persistence": _switch(element, "persistence_mode"),
        "mig": _switch(element, "mig_mode/current_mig"),
        "virtualization": _text(element, "gpu_virtualization_mode/virtualization_mode"),
        "ecc": {
            "enabled": _switch(element, "ecc_mode/current_ecc"),
            "uncorrectable": _sum(volatile, lambda tag: "uncorrectable" in tag),
            "correctable": _sum(volatile, lambda tag: tag.endswith("_correctable")),
            "repair_pending": _any_yes(element, ("channel_repair_pending", "tpc_repair_pending"), "ecc_errors/"),
            "unrepairable": _any_yes(element, ("unrepairable_memory",), "ecc_errors/"),
            "remap_pending": _any_yes(element, ("remapped_row_pending",), "remapped_rows/"),
            "remap_failed": _any_yes(element, ("remapped_row_failure",), "remapped_rows/"),
            "retirement_pending": _any_yes(element, ("pending_retirement",), "retired_pages/"),
        },
        "recovery_action": _text(element, "gpu_recovery_action"),
        "fabric": {"state": _text(element, "fabric/state"), "status": _text(element, "fabric/status")},
        "pcie": {
            "generation": _number(element, "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
            "generation_max": _number(element, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
            "width": _number(element, "pci/pci_gpu_link_info/link_widths/current_link_width"),
            "width_max": _number(element, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        },
        "clocks": {
            "graphics_mhz": _number(element, "clocks/graphics_clock"),
            "graphics_max_mhz": _number(element, "max_clocks/graphics_clock"),
            "memory_mhz": _number(element, "clocks/mem_clock"),
            "slowed_by": _slowdowns(element),
        },
        "power": {
            "limit_w": _decimal(element, "gpu_power_readings/current_power_limit"),
            "default_limit_w": _decimal(element, "gpu_power_readings/default_power_limit"),
            "draw_w": _decimal(element, "gpu_power_readings/average_power_draw"),
        },
        "temperature_c": _number(element, "temperature/gpu_temp"),
        "processes": [_process(entry) for entry in element.findall("processes/process_info")],
    }


def _process(element: ElementTree.Element) -> dict[str, Any]:
    """A process as the driver reports it. Its pid may belong to another pid namespace than ours."""
    return {
        "pid": _number(element, "pid"),
        "name": _text(element, "process_name"),
        "type": _text(element, "type"),
        "memory_used": _mebibytes(element, "used_memory"),
    }


def _slowdowns(element: ElementTree.Element) -> list[str]:
    """What holds the clocks down right now, other than that nobody uses the card."""
    found: list[str] = []
    for child in element.findall("clocks_event_reasons/*"):
        reason = child.tag.replace("clocks_event_reason_", "")
        if (child.text or "").strip() == "Active" and reason not in ("gpu_idle", "applications_clocks_setting"):
            found.append(reason)
    return found


def _text(element: ElementTree.Element, path: str) -> str | None:
    value = (element.findtext(path) or "").strip()
    return None if value in ("", "N/A", "None", "[N/A]", "Requested functionality has been deprecated") else value


def _decimal(element: ElementTree.Element, path: str) -> float | None:
    match = re.match(r"-?\d+(\.\d+)?", _text(element, path) or "")
    return float(match.group(0)) if match else None


def _number(element: ElementTree.Element, path: str) -> int | None:
    value = _decimal(element, path)
    return None if value is None else int(value)


def _mebibytes(element: ElementTree.Element, path: str) -> int | None:
    value = _number(element, path)
    return None if value is None else value * _MIB


def _switch(element: ElementTree.Element, path: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(_text(element, path) or "")


def _any_yes(element: ElementTree.Element, names: Iterable[str], below: str) -> bool | None:
    values = [_text(element, below + name) for name in names]
    return None if not any(values) else "Yes" in values


def _sum(element: ElementTree.Element | None, counts: Callable[[str], bool]) -> int | None:
    if element is None:
        return None
    texts = [(child.text or "").strip() for child in element if counts(child.tag)]
    numbers = [int(text) for text in texts if text.isdigit()]
    return sum(numbers) if numbers else None
