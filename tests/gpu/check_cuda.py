#!/usr/bin/env python3
"""On a host with an NVIDIA GPU: facts, drain, toolkit and proof on the real card, by the modules themselves.

    PYTHONPATH=ansible_core-2.19.1-py3-none-any.whl OUT=/tmp/out python3 tests/gpu/check_cuda.py

Needs root, the driver and ansible-core (its wheel on PYTHONPATH will do); neither network nor pytest. nvcc and torch
are used where they are there. What nvidia-smi and the modules print is kept in $OUT for recorded fixtures, without
serial numbers and UUIDs. Under three minutes; ends with status 1 if a check fails.
"""

from __future__ import annotations

import csv
import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests"), str(ROOT)]

from ansible_collections.inferops.sglang.plugins.module_utils import interpreter
from ansible_collections.inferops.sglang.plugins.module_utils.build import abi, fatbin, fit, proof_worker, python_env
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import requirement, smi
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import smoke, state
from support import run

OUT = Path(os.environ.get("OUT") or tempfile.mkdtemp(prefix="gpu-"))
LIMIT_S = 175
GIB = 1 << 30
QUERY = ["nvidia-smi", "-q", "-x"]

# Holds the card through the driver alone, so that no framework is needed: 2 GiB in a context of its own.
HOLD = """
import ctypes, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "stubborn" else signal.SIG_DFL)
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
for name, *words in (
    ("cuInit", 0),
    ("cuDeviceGet", ctypes.byref(device), 0),
    ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
    ("cuCtxSetCurrent", context),
    ("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(2 << 30)),
    ("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(2 << 30)),
    ("cuCtxSynchronize",),
):
    status = getattr(cuda, name)(*words)
    if status:
        sys.exit(f"{name} answered {status}")
print("ready", flush=True)
time.sleep(600)
"""
MODULE = """
import importlib, json, sys
from ansible.module_utils.testing import patch_module_args
sys.path[:0] = [sys.argv[1]]
with patch_module_args(json.loads(sys.argv[3])):
    importlib.import_module("ansible_collections.inferops.sglang.plugins.modules." + sys.argv[2]).main()
"""
#: What the smoke test includes, in its order.
HEADERS = ("cublas_v2.h", "cuda_fp8.h", "curand_kernel.h")
LAUNCH = r"""
int main() {
  float *out; __nv_fp8_e4m3 *in; float host[32] = {0};
  cublasHandle_t handle;
  if (cudaMalloc(&out, sizeof host) || cudaMalloc(&in, 32) || cudaMemset(in, 0x38, 32)) return 1;
  smoke<<<1, 32>>>(out, in, 7);
  if (cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) || cublasCreate(&handle)) return 2;
  for (float value : host) if (value <= 1.0f || value > 2.0f) return 3;  // 0x38 is 1.0, plus a uniform in (0, 1]
  return 0;
}
"""
#: What the parsers make of the XML -> what nvidia-smi answers when asked for the value alone.
SAME = {
    "driver_version": lambda found, gpu: found["driver_version"],
    "uuid": lambda found, gpu: gpu["uuid"],
    "name": lambda found, gpu: gpu["name"],
    "pci.bus_id": lambda found, gpu: gpu["pci_bus_id"].upper(),
    "compute_cap": lambda found, gpu: gpu["compute_capability"],
    "memory.total": lambda found, gpu: f"{gpu['memory_total'] >> 20} MiB",
    "persistence_mode": lambda found, gpu: _switched(gpu["persistence"]),
    "ecc.mode.current": lambda found, gpu: _switched(gpu["ecc"]["enabled"]),
    "mig.mode.current": lambda found, gpu: _switched(gpu["mig"]),
    "pcie.link.width.max": lambda found, gpu: str(gpu["pcie"]["width_max"]),
    "power.limit": lambda found, gpu: f"{gpu['power']['limit_w']:.2f} W",
}


def _switched(value: bool | None) -> str:
    return {True: "Enabled", False: "Disabled", None: "[N/A]"}[value]


class Scrubber:
    """Takes out of texts what names this very card: UUIDs (the same one gives the same stand-in), serial numbers."""

    _UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
    _NAMED = re.compile(r"<(serial|chassis_serial_number|board_id|pdi|host_id|gpu_fabric_guid)>([^<]*)<")

    def __init__(self) -> None:
        self.stand_ins: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        text = self._UUID.sub(lambda found: self._stand_in(found.group(0)), text)
        return self._NAMED.sub(
            lambda found: found.group(0) if found.group(2) in ("N/A", "0") else f"<{found.group(1)}>1234567890<", text
        )

    def _stand_in(self, real: str) -> str:
        return self.stand_ins.setdefault(real, f"00000000-0000-0000-0000-{len(self.stand_ins) + 1:012d}")


scrubbed = Scrubber()


def keep(name: str, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1, sort_keys=True) + "\n"
    (OUT / name).write_text(scrubbed(text))


def module(name: str, **arguments: Any) -> dict[str, Any]:
    """What a module of the collection answers, run as a program of its own."""
    given = {"_ansible_check_mode": arguments.pop("check", False), "_ansible_diff": True, **arguments}
    done = run([sys.executable, "-c", MODULE, str(ROOT / "collections"), name, json.dumps(given)])
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise AssertionError(f"{name} answered no JSON: {done.stdout[-500:]}{done.stderr[-2000:]}") from error
    return answer


@contextmanager
def holder(manner: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds 2 GiB of the first card; a stubborn one does not end when it is asked to."""
    held = subprocess.Popen([sys.executable, "-c", HOLD, manner], stdout=subprocess.PIPE, text=True)
    try:
        assert held.stdout is not None
        said = held.stdout.readline()
        assert said == "ready\n", f"the holder ended with {held.wait()}"
        yield held
    finally:
        held.kill()
        held.wait()


def information() -> None:
    keep("nvidia-smi-q.xml", run(QUERY).stdout)
    keep("topo.txt", run(["nvidia-smi", "topo", "-m"]).stdout)
    looks = "ls -l /dev/nvidia*; cat /proc/devices /proc/driver/nvidia/version; uname -a; cat /proc/1/cgroup"
    keep("driver.txt", run(["sh", "-c", looks]).stdout)
    found = module("gpu_info")
    keep("gpu_info.json", found)
    assert not found.get("failed") and not found["changed"], found.get("msg")
    assert found["present"] and found["gpus"] and found["nvidia_smi_error"] is None, found["nvidia_smi_error"]
    assert found["kernel_module_version"] == found["driver_version"], found["kernel_module_version"]
    assert found["user_library_versions"], "no libcuda.so.1 found in the folders that are looked in"
    assert set(found["user_library_versions"].values()) == {found["driver_version"]}, found["user_library_versions"]
    asked = run(["nvidia-smi", f"--query-gpu={','.join(SAME)}", "--format=csv,noheader"]).stdout
    rows = list(csv.reader(asked.splitlines(), skipinitialspace=True))
    assert len(rows) == len(found["gpus"]), asked
    for gpu, row in zip(found["gpus"], rows):
        for (name, parsed), told in zip(SAME.items(), row):
            assert parsed(found, gpu) == told, f"{name}: parsed {parsed(found, gpu)!r}, nvidia-smi says {told!r}"
        assert gpu["processes"] == [] and gpu["held_elsewhere"] == [], gpu
    nodes = {node["path"]: node for node in found["device_nodes"]}
    for gpu in found["gpus"]:
        assert nodes[f"/dev/nvidia{gpu['minor']}"]["major"] == nodes[f"/dev/nvidia{gpu['minor']}"]["registered"]
    assert nodes["/dev/nvidia-uvm"]["major"] == nodes["/dev/nvidia-uvm"]["registered"], nodes["/dev/nvidia-uvm"]
    errors = [problem for problem in found["problems"] if problem["severity"] == "error"]
    assert errors == [], errors
    assert any(gpu["persistence"] is False for gpu in found["gpus"]) == (
        "persistence_off" in [problem["name"] for problem in found["problems"]]
    )
    assert requirement.judge(found["driver_version"], "13.0") is None
    assert "needs driver" in str(requirement.judge("570.86.15", "13.0"))
    print("   problems:", [(problem["name"], problem["message"]) for problem in found["problems"]])
    print("   libraries:", found["user_library_versions"], "container:", found["container"])
    print("   topology:", found["topology"], "services:", found["services"])


def scrubbing() -> None:
    """The records hold nothing of this card, and the parsers still read them."""
    real = smi.parse_query(run(QUERY).stdout)["gpus"]
    text = "".join(path.read_text() for path in OUT.iterdir())
    for gpu in real:
        assert gpu["uuid"].removeprefix("GPU-") not in text, "a UUID is left in the records"
    serials = re.findall(r"<serial>([^<]+)<", run(QUERY).stdout)
    assert not [serial for serial in serials if serial.isdigit() and len(serial) > 4 and serial in text]
    recorded = smi.parse_query((OUT / "nvidia-smi-q.xml").read_text())["gpus"]
    assert [gpu["memory_total"] for gpu in recorded] == [gpu["memory_total"] for gpu in real]


def toolkit() -> None:
    there = state.installed()
    found = shutil.which("nvcc")
    folders = [entry["path"] for entry in there] or ([str(Path(found).resolve().parent.parent)] if found else [])
    print("   toolkits:", there or folders or "none")
    if not folders:
        print("   no nvcc here: nothing to compile with")
        return
    path, version = max(((folder, state.version_at(folder) or "") for folder in folders), key=lambda pair: pair[1])
    minor = ".".join(version.split(".")[:2])
    manifest = Path(state.manifest_path(minor))
    assert not manifest.exists(), "this host has a managed toolkit: the check would forget it"
    wanted = {"source": "present", "version": minor, "path": path, "capabilities": ["9.0", "12.0"]}
    try:
        lacking = [name for name in HEADERS if not Path(path, "include", name).exists()]
        if lacking:
            said = module("cuda_toolkit", **wanted)["msg"]
            assert "the toolkit's headers are incomplete" in said and lacking[0] in said, said
            print(f"   {path} {version} lacks {lacking}, and the module says so: {said}")
            return
        foretold = module("cuda_toolkit", check=True, **wanted)
        assert foretold["changed"] and not manifest.exists(), foretold
        adopted = module("cuda_toolkit", **wanted)
        assert adopted["changed"] and adopted["smoke"]["capabilities"] == ["9.0", "12.0"], adopted
        assert adopted["driver"]["judgement"] is None, adopted["driver"]
        assert not module("cuda_toolkit", **wanted)["changed"]
        keep("cuda_toolkit.json", adopted)
        assert module("cuda_toolkit", **wanted, state="absent")["changed"]
    finally:
        manifest.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        # what the smoke test compiles also runs on this card
        source, program = Path(scratch) / "launch.cu", Path(scratch) / "launch"
        source.write_text(smoke.SOURCE + LAUNCH)
        (capability,) = python_env.present_capabilities(run)
        arch = "sm_" + capability.replace(".", "")
        done = run(
            [f"{path}/bin/nvcc", f"-arch={arch}", "-cudart", "shared", "-o", str(program), str(source), "-lcublas"]
        )
        assert done.rc == 0, done.stderr
        assert arch in fatbin.architectures(str(program)), fatbin.architectures(str(program))
        done = run([str(program)], env={"LD_LIBRARY_PATH": f"{path}/lib64:{path}/lib"})
        assert done.rc == 0, f"the kernel ended with {done.rc}: {done.stderr}"
    print(f"   {path}: nvcc {adopted['nvcc_version']} compiled for {adopted['smoke']}, and {arch} ran")


def proving() -> None:
    """The checks of a proof against the torch that is there: what they read without a card, torch says with one."""
    entry = proof_worker.__name__.rpartition(".module_utils.")[2] + ":imports"
    torch = interpreter.call(run, sys.executable, entry, {"modules": ["torch"]})["torch"]
    if torch is None:
        print("   no torch here: nothing to prove")
        return
    code = "import json, torch; print(json.dumps([torch.cuda.get_arch_list(), torch.__file__]))"
    listed, place = json.loads(run([sys.executable, "-c", code]).stdout)
    assert torch["arch_list"] == listed, (torch["arch_list"], listed)
    (capability,) = python_env.present_capabilities(run)
    [served] = fit.torch_architectures(torch, [capability])
    assert served["ok"], served
    [volta] = fit.torch_architectures(torch, ["7.0"])
    assert volta["ok"] == any("70" in name for name in listed), volta
    [right] = fit.torch_cuda({"cuda": torch["cuda"]}, torch)
    [wrong] = fit.torch_cuda({"cuda": "12.8"}, torch)
    assert right["ok"] and not wrong["ok"], (right, wrong)
    packages = str(Path(place).parent.parent)
    environment = abi.Environment(sys.executable, packages)
    users = [
        path
        for path in abi.extensions(packages, ["torchvision", "torchaudio"])
        if abi.for_torch(path, torch["version"])
    ]
    findings = [finding for finding in map(environment.judge, users) if finding.symbols]
    assert findings == [], findings
    print(f"   torch {torch['version']} for {capability}: {listed}; {len(users)} libraries fit it")


def draining() -> None:
    mine = {"users": [getpass.getuser()]}
    records = {}
    for manner, expected in (("polite", "TERM"), ("stubborn", "KILL")):
        with holder(manner) as held:
            seen = module("gpu_info")["gpus"][0]
            [process] = seen["processes"]
            assert (process["pid"], seen["held_elsewhere"]) == (held.pid, []), seen
            print("   memory of the holder as the driver says:", process["memory_used"], "unit:", process["unit"])
            # a unit of the machine's own around everything is no reason not to try it here
            wish = {"owned_by": mine, "force": process["unit"] is not None, "clean": False, "term_timeout": 3}
            if manner == "polite":
                keep("nvidia-smi-q-busy.xml", run(QUERY).stdout)
                refused = module("gpu_drain", clean=False)
                assert refused["failed"] and [entry["pid"] for entry in refused["held_by"]] == [held.pid], refused
                records["refused"] = refused
            foretold = module("gpu_drain", check=True, **wish)
            assert foretold["changed"] and [entry["pid"] for entry in foretold["ended"]] == [held.pid], foretold
            assert held.poll() is None, "check mode has ended the holder"
            before = time.monotonic()
            done = module("gpu_drain", **wish)
            assert not done.get("failed"), done
            assert [(entry["pid"], entry["signal"]) for entry in done["ended"]] == [(held.pid, expected)], done
            assert held.wait() == -getattr(signal, f"SIG{expected}")
            assert done["freed_bytes"] >= 2 * GIB, done
            print(f"   {manner}: {done['freed_bytes'] >> 20} MiB back after {time.monotonic() - before:.1f} s")
            records[manner] = {"foretold": foretold, "done": done}
    again = module("gpu_drain", clean=False)
    assert not again["changed"] and not again.get("failed"), again
    keep("gpu_drain.json", records)


def main() -> int:
    ends = time.monotonic() + LIMIT_S
    failed: list[str] = []
    steps: list[Callable[[], None]] = [information, draining, toolkit, proving, scrubbing]
    signal.signal(signal.SIGALRM, _late)
    for step in steps:
        print(f"== {step.__name__}", flush=True)
        began = time.monotonic()
        signal.alarm(max(1, int(ends - began)))
        try:
            step()
        except Exception:
            # every step reports by itself: a lent machine is not asked twice
            traceback.print_exc()
            failed.append(step.__name__)
        print(f"   {time.monotonic() - began:.1f} s", flush=True)
    signal.alarm(0)
    print("FAILED: " + ", ".join(failed) if failed else "ALL PASSED", f"(records in {OUT})")
    return 1 if failed else 0


def _late(number: int, frame: object) -> None:
    raise TimeoutError(f"not done within {LIMIT_S} s")


if __name__ == "__main__":
    sys.exit(main())
