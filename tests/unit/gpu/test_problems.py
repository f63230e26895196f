"""What is judged wrong, and that nothing is where nothing is."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import facts as gathering
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import problems, smi
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.driver import Roots
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"


@pytest.fixture
def healthy() -> dict[str, Any]:
    queried = smi.parse_query((RECORDED / "nvidia-smi-q.xml").read_text())
    return {
        **queried,
        "present": True,
        "pci": ["0000:00:06.0"],
        "container": None,
        "kernel_module_version": "580.159.04",
        "user_library_versions": {"/usr/lib64/libcuda.so.1": "580.159.04"},
        "device_nodes": [
            {"path": "/dev/nvidia0", "major": 195, "minor": 0, "registered": 195, "mode": "0666"},
            {"path": "/dev/nvidia-uvm", "major": 238, "minor": 0, "registered": 238, "mode": "0666"},
        ],
        "nvidia_smi_error": None,
        "unreachable": [],
        "topology": {"interconnect": "single", "links": {}, "numa": {}, "cpus": {}},
        "acs_redirecting": None,
        "services": {},
        "xid": [],
    }


def names(facts: dict[str, Any]) -> list[str]:
    return [problem["name"] for problem in problems.judge(facts)]


def test_a_healthy_host_has_none(healthy: dict[str, Any]) -> None:
    assert problems.judge(healthy) == []


def test_a_host_without_gpus_has_none(healthy: dict[str, Any]) -> None:
    bare = dict(healthy, present=False, pci=[], gpus=[], kernel_module_version=None, user_library_versions={})
    bare.update(device_nodes=[], nvidia_smi_error="nvidia-smi: No such file or directory", driver_version=None)
    assert problems.judge(bare) == []


def test_cards_without_a_driver(healthy: dict[str, Any]) -> None:
    healthy.update(gpus=[], kernel_module_version=None, user_library_versions={}, device_nodes=[], driver_version=None)
    (problem,) = problems.judge(dict(healthy, nvidia_smi_error=None))
    assert problem["name"] == "driver_not_loaded" and "0000:00:06.0" in problem["message"]


def test_f16_user_library_of_another_version(healthy: dict[str, Any]) -> None:
    """An unattended upgrade moved the user's half (F16); in a container it is the hypervisor that moved."""
    healthy["user_library_versions"]["/usr/lib64/libcuda.so.1"] = "580.95.05"
    (problem,) = problems.judge(healthy)
    assert problem["name"] == "driver_library_mismatch" and problem["severity"] == "error"
    assert "580.159.04" in problem["message"] and "580.95.05" in problem["message"] and "reboot" in problem["message"]
    (problem,) = problems.judge(dict(healthy, container="lxc"))
    assert "hypervisor (this is a container: lxc)" in problem["message"]


@pytest.mark.parametrize(
    ("said", "container", "cure"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            None,
            "the module on this host and the libraries",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.",
            "lxc",
            r"load the driver's module on the hypervisor",
        ),
        ("No devices were found", None, "the kernel's log on this host says why"),
        ("Failed to initialize NVML: Insufficient Permissions", None, "access to /dev/nvidia"),
        ("Failed to initialize NVML: Unknown Error", "docker", "daemon-reload"),
        ("Failed to initialize NVML: Unknown Error", None, "reboot"),
        ("nvidia-smi: [Errno 2] No such file or directory", None, "nvidia-utils"),
    ],
)
def test_what_nvidia_smi_says_comes_with_what_to_do(
    healthy: dict[str, Any], said: str, container: str | None, cure: str
) -> None:
    found = problems.judge(dict(healthy, gpus=[], nvidia_smi_error=said, container=container))
    (problem,) = [each for each in found if each["name"] == "nvidia_smi_failed"]
    assert said in problem["message"] and re.search(cure, problem["message"])


def test_stale_device_node(healthy: dict[str, Any]) -> None:
    healthy["device_nodes"][1]["registered"] = 511
    healthy["container"] = "lxc"
    (problem,) = problems.judge(healthy)
    assert problem["name"] == "device_node_stale"
    assert "/dev/nvidia-uvm has major 238" in problem["message"] and "511" in problem["message"]


def test_a_node_of_a_driver_that_the_kernel_does_not_list_is_not_called_stale(healthy: dict[str, Any]) -> None:
    healthy["device_nodes"][1]["registered"] = None
    assert problems.judge(healthy) == []


def test_missing_uvm_node(healthy: dict[str, Any]) -> None:
    del healthy["device_nodes"][1]
    assert names(healthy) == ["device_node_missing"]


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ({}, ["fabric_manager_not_running"]),
        ({"installed": True, "state": "failed"}, ["fabric_manager_not_running"]),
        ({"installed": True, "state": "active", "version": "580.95.05"}, ["fabric_manager_version"]),
        ({"installed": True, "state": "active", "version": "580.159.04"}, []),
        ({"installed": True, "state": "active", "version": None}, []),
    ],
)
def test_f14_fabric_manager_where_there_are_switches(
    healthy: dict[str, Any], manager: dict[str, Any], expected: list[str]
) -> None:
    """Error 802 (F14): the manager is missing, of another version, or not up yet."""
    healthy["device_nodes"].append({"path": "/dev/nvidia-nvswitchctl", "major": 1, "minor": 255, "registered": 1})
    healthy["services"] = {"nvidia-fabricmanager.service": manager}
    assert names(healthy) == expected


def test_fabric_in_progress(healthy: dict[str, Any]) -> None:
    healthy["gpus"][0]["fabric"]["state"] = "In Progress"
    assert names(healthy) == ["fabric_not_ready"]
    healthy["gpus"][0]["fabric"]["state"] = "Completed"
    assert names(healthy) == []


@pytest.mark.parametrize(
    ("virtualization", "container", "owner"),
    [
        (None, None, "this host"),
        ("Pass-Through", None, r"the hypervisor \(the cards are passed through\)"),
        ("Pass-Through", "lxc", r"the hypervisor \(this is a container: lxc\)"),
    ],
)
def test_f14_the_manager_is_whose_the_switches_are(
    healthy: dict[str, Any], virtualization: str | None, container: str | None, owner: str
) -> None:
    gpu = healthy["gpus"][0]
    gpu["virtualization"], gpu["fabric"]["state"], gpu["persistence"] = virtualization, "In Progress", False
    waiting, persistence = problems.judge(dict(healthy, container=container))
    assert re.search(f"start nvidia-fabricmanager on {owner} and wait", waiting["message"])
    assert ("hypervisor" in persistence["message"]) is (container is not None)


def test_f14_a_fabric_that_ended_otherwise_than_well(healthy: dict[str, Any]) -> None:
    healthy["gpus"][0]["fabric"] = {"state": "Completed", "status": "Insufficient Resources"}
    (problem,) = problems.judge(healthy)
    assert problem["name"] == "fabric_failed" and "GPU 0 (Insufficient Resources)" in problem["message"]
    healthy["gpus"][0]["fabric"]["status"] = "Success"
    assert names(healthy) == []


def test_a_card_that_does_not_answer(healthy: dict[str, Any]) -> None:
    healthy["pci"].append("0000:41:00.0")
    (problem,) = problems.judge(healthy)
    assert (problem["name"], problem["severity"]) == ("gpu_not_listed", "warning")
    assert "0000:41:00.0" in problem["message"]
    assert names(dict(healthy, container="lxc")) == [], "it may be another container's"
    healthy["unreachable"] = [{"pci_bus_id": "0000:41:00.0", "said": "Unknown Error"}]
    (problem,) = problems.judge(healthy)
    assert (problem["name"], problem["severity"]) == ("gpu_unreachable", "error")
    assert "GPU 0000:41:00.0 does not answer the driver: Unknown Error" in problem["message"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("ecc", "uncorrectable"), 2, "ecc_uncorrectable"),
        (("ecc", "remap_failed"), True, "remap_failed"),
        (("ecc", "remap_pending"), True, "remap_pending"),
        (("ecc", "unrepairable"), True, "unrepairable"),
        (("ecc", "repair_pending"), True, "repair_pending"),
        (("ecc", "retirement_pending"), True, "retirement_pending"),
        (("recovery_action",), "GPU Reset", "recovery_action"),
        (("persistence",), False, "persistence_off"),
        (("mig",), True, "mig_enabled"),
        (("pcie", "width"), 8, "pcie_narrow"),
        (("power", "limit_w"), 450.0, "power_limited"),
        (("clocks", "slowed_by"), ["hw_thermal_slowdown"], "slowed_down"),
    ],
)
def test_each_fault_of_a_card_is_found_alone(
    healthy: dict[str, Any], path: tuple[str, ...], value: Any, expected: str
) -> None:
    target = healthy["gpus"][0]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert names(healthy) == [expected]


def test_xid_of_hardware_is_told_from_xid_of_programs(healthy: dict[str, Any]) -> None:
    line = "2026-11-29T10:00:00+00:00 h kernel: NVRM: Xid (PCI:0000:00:06): {}, pid=419, name=python3, told\n"
    healthy["xid"] = gathering.parse_xid(line.format(13) + line.format(31) + line.format(43))
    assert len(healthy["xid"]) == 3 and problems.judge(healthy) == []
    healthy["xid"] = gathering.parse_xid(line.format(79) + "… NVRM: something else\n")
    (problem,) = problems.judge(healthy)
    assert "Xid 79 (GPU has fallen off the bus) for 0000:00:06 at 2026-11-29T10:00:00" in problem["message"]


def test_xid_of_a_slice_of_a_divided_card() -> None:
    line = "2026-11-29T10:00:00+00:00 h kernel: NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User"
    assert gathering.parse_xid(line) == [
        {
            "at": "2026-11-29T10:00:00+00:00",
            "pci_bus_id": "0000:01:00",
            "xid": 94,
            "detail": "pid=7194, Contained: CE User",
        }
    ]


def test_an_error_of_nvlink_counts_unless_the_card_recovers_from_it(healthy: dict[str, Any]) -> None:
    line = "2026-11-29T10:00:00+00:00 h kernel: NVRM: Xid (PCI:0000:00:06): 149, NETIR_LINK_EVT  {} XC0 i0 Link 09\n"
    healthy["xid"] = gathering.parse_xid(line.format("Nonfatal"))
    assert names(healthy) == []
    healthy["xid"] = gathering.parse_xid(line.format("Fatal"))
    assert names(healthy) == ["xid"]


def test_acs_only_where_peers_talk_over_pcie(healthy: dict[str, Any]) -> None:
    healthy["acs_redirecting"] = ["0000:00:01.0"]
    assert names(dict(healthy, topology={"interconnect": "pcie"})) == ["acs_redirect"]
    assert names(dict(healthy, topology={"interconnect": "nvlink"})) == []


def test_errors_come_first(healthy: dict[str, Any]) -> None:
    gpu = healthy["gpus"][0]
    gpu["persistence"] = False
    second = copy.deepcopy(gpu)
    second["ecc"]["uncorrectable"] = 1
    healthy["gpus"].append(second)
    assert [problem["severity"] for problem in problems.judge(healthy)] == ["error", "info", "info"]


# --- gathering -----------------------------------------------------------------------------------------------------


class Smi:
    """A runner whose nvidia-smi prints what was recorded."""

    def __init__(self, xml: str, rc: int = 0, said: str = "") -> None:
        self.xml, self.rc, self.said = xml, rc, said
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        self.asked.append(" ".join(argv))
        if argv[0] != "nvidia-smi":
            return Completed(127, "", f"{argv[0]}: not found")
        if "-q" in argv:
            return Completed(self.rc, self.xml, self.said)
        if "topo" in argv:
            return Completed(0, (RECORDED / "topo.txt").read_text(), "")
        return Completed(0, "GPU-11111111-2222-3333-4444-555555555555, 9.0\n", "")


def bare(tmp_path: Path) -> Roots:
    return Roots(proc=str(tmp_path), dev=str(tmp_path), sys=str(tmp_path), libraries=())


def test_facts_of_the_recorded_host(tmp_path: Path) -> None:
    found = gathering.facts(Smi((RECORDED / "nvidia-smi-q-busy.xml").read_text()), bare(tmp_path))
    assert found["present"] and found["driver_version"] == "580.159.04"
    assert found["gpus"][0]["compute_capability"] == "9.0"
    assert gathering.indices(found) == {"GPU-11111111-2222-3333-4444-555555555555": 0}
    # pid 419 of the recording holds no device of ours: it is somebody else's namespace
    assert found["gpus"][0]["processes"] == []
    assert [entry["pid"] for entry in found["gpus"][0]["held_elsewhere"]] == [419]


def test_facts_are_those_that_the_module_told_on_the_real_host(tmp_path: Path) -> None:
    """Recorded together by tests/gpu/check_cuda.py: what nvidia-smi printed there, and what ``gpu_info`` answered."""
    there = RECORDED / "h200-modules"
    told = json.loads((there / "gpu_info.json").read_text())
    found = gathering.facts(Smi((there / "nvidia-smi-q.xml").read_text()), bare(tmp_path))
    told["gpus"][0]["power"]["draw_w"] = found["gpus"][0]["power"]["draw_w"]  # it moves between two questions
    for key in ("gpus", "driver_version", "cuda_driver_version", "topology", "services", "xid", "problems"):
        assert found[key] == told[key], key
    assert problems.judge({**told, "unreachable": found["unreachable"]}) == []  # recorded before there was that fact


def test_facts_without_any_driver(tmp_path: Path) -> None:
    runner = Smi("", rc=127)
    found = gathering.facts(runner, bare(tmp_path))
    assert not found["present"] and found["gpus"] == [] and found["problems"] == []
    assert len(runner.asked) == 1  # one failed call, no more


@pytest.mark.parametrize("rc", [0, 15])
def test_the_other_cards_are_known_though_one_is_lost(tmp_path: Path, rc: int) -> None:
    said = "Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error\n"
    found = gathering.facts(Smi((RECORDED / "nvidia-smi-q.xml").read_text(), rc, said), bare(tmp_path))
    assert len(found["gpus"]) == 1 and found["nvidia_smi_error"] is None
    assert "gpu_unreachable" in [problem["name"] for problem in found["problems"]]


def test_memory_that_no_process_explains_is_held_elsewhere(tmp_path: Path) -> None:
    xml = (RECORDED / "nvidia-smi-q.xml").read_text().replace("<used>0 MiB</used>", "<used>98304 MiB</used>", 1)
    found = gathering.facts(Smi(xml), bare(tmp_path))
    assert found["gpus"][0]["held_elsewhere"] == [
        {"pid": None, "name": None, "type": None, "memory_used": 98304 << 20},
    ]


def test_a_broken_driver_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text((RECORDED / "driver_version.txt").read_text())
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95"
    found = gathering.facts(Smi(said, rc=18), bare(tmp_path))
    failed = next(problem for problem in found["problems"] if problem["name"] == "nvidia_smi_failed")
    assert "Driver/library version mismatch NVML library version: 580.95" in failed["message"]
