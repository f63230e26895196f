"""The parsers of nvidia-smi, on the output of a real H200 and on texts of its form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import smi

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"
MIB = 1 << 20


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_idle_h200() -> None:
    found = smi.parse_query(recorded("nvidia-smi-q.xml"))
    assert (found["driver_version"], found["cuda_driver_version"]) == ("580.159.04", "13.0")
    (gpu,) = found["gpus"]
    assert gpu["index"] == 0 and gpu["minor"] == 0
    assert gpu["uuid"] == "GPU-11111111-2222-3333-4444-555555555555"
    assert gpu["name"] == "NVIDIA H200" and gpu["architecture"] == "Hopper"
    assert gpu["memory_total"] == 143771 * MIB and gpu["memory_used"] == 0
    assert gpu["persistence"] is True and gpu["mig"] is False
    assert gpu["ecc"] == {
        "enabled": True,
        "uncorrectable": 0,
        "correctable": 0,
        "repair_pending": False,
        "unrepairable": False,
        "remap_pending": False,
        "remap_failed": False,
        "retirement_pending": None,  # "N/A" on this card
    }
    assert gpu["recovery_action"] is None  # the driver prints the word None
    assert gpu["fabric"] == {"state": None, "status": None}
    assert gpu["pcie"] == {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16}
    assert gpu["clocks"]["slowed_by"] == [] and gpu["clocks"]["graphics_max_mhz"] == 1980
    assert gpu["power"]["limit_w"] == gpu["power"]["default_limit_w"] == 700.0
    assert gpu["processes"] == []


def test_busy_h200_names_the_process() -> None:
    (gpu,) = smi.parse_query(recorded("nvidia-smi-q-busy.xml"))["gpus"]
    assert gpu["processes"] == [{"pid": 419, "name": "python3", "type": "C", "memory_used": 1542 * MIB}]
    assert gpu["memory_used"] == 1551 * MIB


def test_every_value_may_be_missing() -> None:
    """Another driver release leaves elements out: that is unknown, not an error."""
    (gpu,) = smi.parse_query("<nvidia_smi_log><gpu id='00000000:01:00.0'></gpu></nvidia_smi_log>")["gpus"]
    assert gpu["pci_bus_id"] == "00000000:01:00.0"
    assert gpu["uuid"] is None and gpu["memory_total"] is None and gpu["ecc"]["uncorrectable"] is None
    assert gpu["processes"] == [] and gpu["clocks"]["slowed_by"] == []


@pytest.mark.parametrize("text", ["", "NVIDIA-SMI has failed", "<nvidia_smi_log><gpu>"])
def test_no_xml_is_named(text: str) -> None:
    with pytest.raises(InferopsError, match="did not print XML"):
        smi.parse_query(text)


def test_every_element_that_is_read_exists_in_the_recorded_output() -> None:
    """A typing error in a path would read as "unknown" for ever."""
    source = Path(smi.__file__).read_text()
    paths = set(re.findall(r'(?:_text|_number|_decimal|_mebibytes|_switch)\(\s*\w+,\s*"([\w/]+)"', source))
    busy = smi.ElementTree.fromstring(recorded("nvidia-smi-q-busy.xml"))
    places = [busy, busy.find("gpu"), busy.find("gpu/processes/process_info")]
    assert len(paths) > 25
    assert [path for path in sorted(paths) if all(place.find(path) is None for place in places)] == []


def one_gpu(content: str) -> dict[str, Any]:
    text = f"<nvidia_smi_log><gpu id='00000000:41:00.0'>{content}</gpu></nvidia_smi_log>"
    return smi.parse_query(text)["gpus"][0]


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "GPU is lost", "None"])
def test_words_in_the_place_of_a_value_are_no_value(word: str) -> None:
    gpu = one_gpu(
        f"<uuid>{word}</uuid><gpu_recovery_action>{word}</gpu_recovery_action><fabric><state>{word}</state></fabric>"
        f"<processes><process_info><pid>4</pid><process_name>{word}</process_name></process_info></processes>"
    )
    assert gpu["uuid"] is None and gpu["recovery_action"] is None and gpu["fabric"]["state"] is None
    assert gpu["processes"] == [{"pid": 4, "name": None, "type": None, "memory_used": None}]


@pytest.mark.parametrize(
    "power",
    [
        "<power_readings><power_draw>28.4 W</power_draw><power_limit>300.00 W</power_limit>"
        "<default_power_limit>450.00 W</default_power_limit></power_readings>",
        "<gpu_power_readings><power_draw>28.4 W</power_draw><current_power_limit>300.00 W</current_power_limit>"
        "<default_power_limit>450.00 W</default_power_limit></gpu_power_readings>",
    ],
    ids=["before 535", "before 570"],
)
def test_power_is_read_under_its_older_names(power: str) -> None:
    assert one_gpu(power)["power"] == {"limit_w": 300.0, "default_limit_w": 450.0, "draw_w": 28.4}


def test_slowdowns_and_resets_are_read_under_their_older_names() -> None:
    tag = "clocks_throttle_reason_hw_thermal_slowdown"
    gpu = one_gpu(f"<clocks_throttle_reasons><{tag}>Active</{tag}></clocks_throttle_reasons>")
    assert gpu["clocks"]["slowed_by"] == ["hw_thermal_slowdown"]
    reset = "<gpu_reset_status><reset_required>{}</reset_required></gpu_reset_status>"
    assert one_gpu(reset.format("Yes"))["recovery_action"] == "GPU Reset"
    assert one_gpu(reset.format("No"))["recovery_action"] is None
    both = reset.format("Requested functionality has been deprecated")
    assert one_gpu(both + "<gpu_recovery_action>Node Reboot</gpu_recovery_action>")["recovery_action"] == "Node Reboot"


@pytest.mark.parametrize(
    ("said", "bus"),
    [
        ("for GPU3: 0000:5F:00.0: Unknown Error", "0000:5f:00.0"),
        ("for GPU0000:25:00.0: Unknown Error", "0000:25:00.0"),
        ("for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU", "0000:01:00.0"),
        ("for GPU2: Unknown Error", None),
    ],
)
def test_a_card_that_cannot_be_reached_is_found_beside_the_others(said: str, bus: str | None) -> None:
    found = smi.parse_query(f"Unable to determine the device handle {said}\n" + recorded("nvidia-smi-q.xml"))
    assert len(found["gpus"]) == 1
    assert [card["pci_bus_id"] for card in found["unreachable"]] == [bus]
    assert smi.parse_query(recorded("nvidia-smi-q.xml"))["unreachable"] == []


def test_a_listed_card_that_does_not_answer_is_told_from_one_field_without_value() -> None:
    def unreachable(content: str) -> list[Any]:
        text = f"<nvidia_smi_log><gpu id='00000000:41:00.0'>{content}</gpu></nvidia_smi_log>"
        return smi.parse_query(text)["unreachable"]

    lost = {"pci_bus_id": "00000000:41:00.0", "said": "GPU requires reset"}
    assert unreachable("<utilization><gpu_util>[GPU requires reset]</gpu_util></utilization>") == [lost]
    assert unreachable("<fb_memory_usage><total>Unknown Error</total></fb_memory_usage>")[0]["said"] == "Unknown Error"
    assert unreachable("<fan_speed>[Unknown Error]</fan_speed>") == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a && b", "a && b"),
        ("a &amp;&amp; b", "a && b"),
        ("--x=<unset>", "--x=<unset>"),
        ("\udcff\x01py", "??py"),
        ("\nnames\n", "names"),
    ],
)
def test_a_process_may_have_any_name(written: str, read: str) -> None:
    """It is the one text that others choose, and nvidia-smi writes it as it is."""
    entry = f"<processes><process_info><pid>4</pid><process_name>{written}</process_name></process_info></processes>"
    assert one_gpu(entry)["processes"][0]["name"] == read


def test_compute_capabilities() -> None:
    text = "GPU-a, 12.0\nGPU-b, [N/A]\nGPU-c, 9.0\n"
    assert smi.parse_capabilities(text) == {"GPU-a": "12.0", "GPU-c": "9.0"}
    assert smi.parse_capabilities('Field "compute_cap" is not a valid field to query.\n') == {}


def test_topology_of_the_recorded_single_gpu() -> None:
    found = smi.parse_topology(recorded("topo.txt"))
    assert found == {"interconnect": "single", "links": {"GPU0": {}}, "numa": {"GPU0": 0}, "cpus": {"GPU0": "0-15"}}


def topology(links: list[list[str]], with_nic: bool = False) -> str:
    """The table of ``topo -m`` in the recorded form, for these cells."""
    names = [f"GPU{i}" for i in range(len(links))]
    nic = ["NIC0"] if with_nic else []
    head = "\t".join(
        ["", "\x1b[4m" + names[0], *names[1:], *nic, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"]
    )
    rows = []
    for i, row in enumerate(links):
        tail = ["SYS"] * len(nic) + [f"{i * 8}-{i * 8 + 7}", str(i // 2), "", "N/A"]
        rows.append("\t".join([names[i], *(f" {cell} " for cell in row), *tail]))
    if with_nic:
        rows.append("\t".join(["NIC0", *["SYS"] * len(links), " X ", "", "", ""]))
    return "\n".join([head, *rows, "", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing NVLinks"])


@pytest.mark.parametrize(
    ("links", "interconnect"),
    [
        ([["X", "NV18"], ["NV18", "X"]], "nvlink"),
        ([["X", "PIX"], ["PIX", "X"]], "pcie"),
        ([["X", "NV4", "SYS"], ["NV4", "X", "NODE"], ["SYS", "NODE", "X"]], "mixed"),
    ],
)
def test_topology_of_several_gpus(links: list[list[str]], interconnect: str) -> None:
    for with_nic in (False, True):
        found = smi.parse_topology(topology(links, with_nic))
        assert found["interconnect"] == interconnect
        assert found["links"]["GPU0"]["GPU1"] == links[0][1] and "GPU0" not in found["links"]["GPU0"]
        assert found["numa"]["GPU1"] == 0 and found["cpus"]["GPU1"] == "8-15"
        assert set(found["links"]) == {f"GPU{i}" for i in range(len(links))}


def test_unknown_affinity_is_unknown() -> None:
    found = smi.parse_topology(
        topology([["X", "NV18"], ["NV18", "X"]]).replace("8-15", "N/A").replace("\t0\t", "\t0-1\t")
    )
    assert found["cpus"] == {"GPU0": "0-7", "GPU1": None} and found["numa"] == {"GPU0": None, "GPU1": None}


def test_a_topology_that_says_nothing_of_its_pairs_is_not_that_of_a_single_gpu() -> None:
    assert smi.parse_topology(topology([["X", "N/A"], ["N/A", "X"]]))["interconnect"] is None


def test_no_topology() -> None:
    assert smi.parse_topology("")["interconnect"] is None
    assert smi.parse_topology("Failed to initialize NVML")["links"] == {}
