#!/usr/bin/env python3
"""On a host with an NVIDIA GPU: the facts, the smoke test and the drain, on the real card.

    OUT=/tmp/out python3 tests/gpu/check_cuda.py

Needs root, nvcc and torch; no network, no pytest. What nvidia-smi prints is kept in $OUT, for the recorded fixtures.
Ends with status 1 if a check fails.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import facts, leftovers, requirement
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.drain import Wish, drain
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import manage, smoke, state
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import parse
from support import run

OUT = Path(os.environ.get("OUT", tempfile.mkdtemp(prefix="gpu-")))
GIB = 1 << 30
HOLD = """
import signal, sys, time, torch
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "stubborn" else signal.SIG_DFL)
held = torch.ones(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
time.sleep(600)
"""
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


def record() -> None:
    for name, argv in (
        ("nvidia-smi-q.xml", ["nvidia-smi", "-q", "-x"]),
        ("topo.txt", ["nvidia-smi", "topo", "-m"]),
        ("capabilities.csv", ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]),
        ("devices.txt", ["sh", "-c", "ls -l /dev/nvidia*; cat /proc/devices /proc/driver/nvidia/version"]),
    ):
        (OUT / name).write_text(run(argv).stdout)


def information() -> None:
    found = facts.facts(run)
    (OUT / "facts.json").write_text(json.dumps(found, indent=1))
    assert found["present"] and found["gpus"] and found["nvidia_smi_error"] is None, found["nvidia_smi_error"]
    assert found["kernel_module_version"] == found["driver_version"], found["kernel_module_version"]
    assert set(found["user_library_versions"].values()) <= {found["driver_version"]}, found["user_library_versions"]
    for gpu in found["gpus"]:
        assert gpu["compute_capability"] and gpu["memory_total"] > GIB and gpu["uuid"].startswith("GPU-"), gpu
    assert facts.indices(found) == {gpu["uuid"]: gpu["index"] for gpu in found["gpus"]}
    assert requirement.judge(found["driver_version"], "13.0") is None
    print("   problems:", [(problem["name"], problem["message"]) for problem in found["problems"]])
    print("   libraries:", found["user_library_versions"], "topology:", found["topology"])


def toolkit() -> None:
    there = state.installed()
    print("   toolkits:", there)
    found = shutil.which("nvcc")
    folders = [entry["path"] for entry in there] or [str(Path(found or "").resolve().parent.parent)]
    path, version = max(((folder, state.version_at(folder) or "") for folder in folders), key=lambda pair: pair[1])
    (capability,) = {gpu["compute_capability"] for gpu in facts.query(run)["gpus"]}
    smoke.compile_for(run, path, sorted({capability, "9.0", "12.0"}))
    with tempfile.TemporaryDirectory() as scratch:
        layout.TOOLKITS = scratch
        desired = parse({"source": "present", "version": version, "path": path})
        plan, observed = manage.manage(desired, run, check_mode=False)
        assert plan.changed and manage.summary(observed, desired)["smoke"]["capabilities"] == ["9.0", "12.0"]
        assert not manage.manage(desired, run, check_mode=False)[0].changed
        source, program = Path(scratch) / "launch.cu", Path(scratch) / "launch"
        source.write_text(smoke.SOURCE + LAUNCH)
        arch = "sm_" + capability.replace(".", "")
        done = run([f"{path}/bin/nvcc", f"-arch={arch}", "-o", str(program), str(source), "-lcublas"])
        assert done.rc == 0, done.stderr
        libraries = f"{path}/lib64:{path}/lib"
        done = run([str(program)], env={"LD_LIBRARY_PATH": libraries})
        assert done.rc == 0, f"the kernel ended with {done.rc}: {done.stderr}"


def draining() -> None:
    wish = Wish(users=(getpass.getuser(),), homes=(), term_timeout=3.0, memory_timeout=60.0)
    for manner, expected in (("polite", "TERM"), ("stubborn", "KILL")):
        holder = subprocess.Popen([sys.executable, "-c", HOLD, manner], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        seen = facts.facts(run)["gpus"][0]
        assert [entry["pid"] for entry in seen["processes"]] == [holder.pid], seen["processes"]
        assert seen["held_elsewhere"] == [], seen["held_elsewhere"]
        print("   memory of the holder as the driver says:", seen["processes"][0]["memory_used"])
        assert [entry["pid"] for entry in drain(wish, run, True, shm="/nowhere").ended] == [holder.pid]
        before = time.monotonic()
        done = drain(wish, run, False, shm="/nowhere")
        holder.wait()
        assert [(entry["pid"], entry["signal"]) for entry in done.ended] == [(holder.pid, expected)], done.ended
        assert done.freed_bytes >= 2 * GIB, done.freed_bytes
        print(f"   {manner}: {done.freed_bytes >> 20} MiB back after {time.monotonic() - before:.1f} s")
    assert not drain(wish, run, False, shm="/nowhere").plan.changed
    print("   left in /dev/shm:", [entry.path for entry in leftovers.find([], [os.getuid()])])


def main() -> int:
    failed: list[str] = []
    steps: list[Callable[[], Any]] = [record, information, toolkit, draining]
    for step in steps:
        print(f"== {step.__name__}", flush=True)
        try:
            step()
        except Exception:
            # every step reports by itself: a lent machine is not asked twice
            traceback.print_exc()
            failed.append(step.__name__)
    print("FAILED: " + ", ".join(failed) if failed else "ALL PASSED", f"(records in {OUT})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
