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
from xml.sax.saxutils import escape, unescape

from ..errors import InferopsError

_MIB = 1 << 20
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: A cell of ``nvidia-smi topo -m`` that says how two devices are connected.
_LINK = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")
#: What stands in the place of a value that the driver does not have, in brackets or not.
_NO_VALUE = re.compile(
    r"\[?(|N/A|None|Not (Supported|Found)|Unknown Error|Insufficient Permissions|GPU is lost|GPU requires reset|ERR!|"
    r"Requested functionality has been deprecated)\]?\Z"
)
#: Of these, what says that the card itself does not answer.
_FAULT = re.compile(r"\[?(GPU is lost|GPU requires reset)\]?\Z")
#: What is printed beside the cards that do answer, in several forms (``GPU3: 0000:5F:00.0: Unknown Error``).
_COMPLAINT = re.compile(r"Unable to determine the device handle for (?:GPU *)?(.+)")
#: The one text that is not the driver's own: any bytes may be in it, and nvidia-smi writes them as they are.
_PROCESS_NAME = re.compile(r"(?<=<process_name>).*?(?=</process_name>)", re.DOTALL)
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)


def parse_query(text: str) -> dict[str, Any]:
    """``nvidia-smi -q -x`` as ``driver_version``, ``cuda_driver_version`` and ``gpus``, in the order of their index.

    ``unreachable`` are the cards that do not answer, as ``pci_bus_id`` and what is ``said`` of them: nvidia-smi lists
    the others and ends well. What it prints before the XML does no harm.

    :raises InferopsError: when the text is not that XML.
    """
    try:
        root = ElementTree.fromstring(_PROCESS_NAME.sub(_well_formed, text[max(0, text.find("<")) :]))
    except ElementTree.ParseError as error:
        first = (text.strip().splitlines() or ["nothing"])[0]
        raise InferopsError(f"nvidia-smi -q -x did not print XML ({error}): {first!r}") from error
    return {
        "driver_version": _text(root, "driver_version"),
        "cuda_driver_version": _text(root, "cuda_version"),
        "gpus": [_gpu(index, element) for index, element in enumerate(root.findall("gpu"))],
        "unreachable": [*complaints(text), *filter(None, map(_fault, root.findall("gpu")))],
    }


def _well_formed(match: re.Match[str]) -> str:
    return escape(_NOT_IN_XML.sub("?", unescape(match.group())))


def complaints(text: str) -> list[dict[str, Any]]:
    """The cards that nvidia-smi says it cannot reach, as ``pci_bus_id`` (where it is named) and what is ``said``."""
    found = []
    for said in _COMPLAINT.findall(text):
        bus = _BUS_ID.search(said)
        found.append({"pci_bus_id": bus.group(0).lower() if bus else None, "said": said.strip()})
    return found


def parse_capabilities(text: str) -> dict[str, str]:
    """``--query-gpu=uuid,compute_cap --format=csv,noheader``: the compute capability (``12.0``) by UUID."""
    pairs = (line.split(",") for line in text.splitlines() if line.count(",") == 1)
    return {uuid.strip(): value.strip() for uuid, value in pairs if re.fullmatch(r"\d+\.\d+", value.strip())}


def parse_topology(text: str) -> dict[str, Any]:
    """``nvidia-smi topo -m``: ``links[GPUi][GPUj]`` between GPUs, and ``numa`` and ``cpus`` of each.

    ``interconnect`` is ``nvlink`` where every pair of GPUs has NVLinks, ``mixed`` where some have, ``pcie`` where none
    has, ``single`` for one GPU and ``None`` for none, or where it is not said.
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
        affinity = row.get("CPU Affinity") or ""
        cpus[name] = None if _NO_VALUE.match(affinity) else affinity
    return {"interconnect": _interconnect(links), "links": links, "numa": numa, "cpus": cpus}


def bus_address(text: str | None) -> str | None:
    """A PCI address in one form: nvidia-smi writes the domain in eight digits, the kernel in four."""
    return text and text.lower()[-12:]


def _interconnect(links: dict[str, dict[str, str]]) -> str | None:
    kinds = {cell.startswith("NV") for row in links.values() for cell in row.values()}
    if not links:
        return None
    if not kinds:
        # several whose cells say nothing ("N/A" in some virtual machines) are not one
        return "single" if len(links) == 1 else None
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
        "recovery_action": _recovery(element),
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
            # drivers before 535 and before 570 name them differently
            "limit_w": _decimal(element, "gpu_power_readings/current_power_limit", "power_readings/power_limit"),
            "default_limit_w": _decimal(
                element, "gpu_power_readings/default_power_limit", "power_readings/default_power_limit"
            ),
            "draw_w": _decimal(
                element,
                "gpu_power_readings/average_power_draw",
                "gpu_power_readings/power_draw",
                "power_readings/power_draw",
            ),
        },
        "temperature_c": _number(element, "temperature/gpu_temp"),
        "processes": [_process(entry) for entry in element.findall("processes/process_info")],
    }


def _fault(element: ElementTree.Element) -> dict[str, Any] | None:
    """What says that a listed card does not answer; a single field of unknown value says nothing of the kind."""
    texts = [(leaf.text or "").strip() for leaf in element.iter()]
    memory = (element.findtext("fb_memory_usage/total") or "").strip()
    said = next((text for text in texts if _FAULT.match(text)), memory if "Unknown Error" in memory else None)
    if said is None:
        return None
    return {"pci_bus_id": (element.get("id") or "").lower() or None, "said": said.strip("[]")}


def _recovery(element: ElementTree.Element) -> str | None:
    """What the driver asks for; before 570 it says so in two elements of their own."""
    for path, action in (("reset_required", "GPU Reset"), ("drain_and_reset_recommended", "Drain and Reset")):
        if _text(element, f"gpu_reset_status/{path}") == "Yes":
            return action
    return _text(element, "gpu_recovery_action")


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
    # "throttle" is what drivers before 535 say
    for child in (*element.findall("clocks_event_reasons/*"), *element.findall("clocks_throttle_reasons/*")):
        reason = re.sub(r"^clocks_(event|throttle)_reason_", "", child.tag)
        if (child.text or "").strip() == "Active" and reason not in ("gpu_idle", "applications_clocks_setting"):
            found.append(reason)
    return found


def _text(element: ElementTree.Element, *paths: str) -> str | None:
    """The value at the first of the paths that has one."""
    values = ((element.findtext(path) or "").strip() for path in paths)
    return next((value for value in values if not _NO_VALUE.match(value)), None)


def _decimal(element: ElementTree.Element, *paths: str) -> float | None:
    match = re.match(r"-?\d+(\.\d+)?", _text(element, *paths) or "")
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
