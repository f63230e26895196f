"""What the static preflight of an EAGLE-3 server costs, for Kimi-K2.5's 64 files, side by side with starting Python.

    python tests/bench/preflight_static.py [--release 0.5.9 …] [--rounds 7]

Each round starts a process that checks the configuration of ``inventories/rtx-pro-6000-8x`` on a release from the
package index, and one that does nothing, in turn; the least time of all rounds counts. Prints JSON: milliseconds (those
of the processor hold on a busy machine too), and ratios to the start of Python and to reading the model's headers and
index alone. Exit status 1: over the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / path) for path in ("collections", "tests", "tests/unit/preflight", ".")]

import model_folders
from preflight_samples import kimi, schema
from releases import release_tree

#: Milliseconds of the whole process. What Ansible adds to a module is the same for every module.
BOUND = 1000
_CHECK = """
import json, sys
told = json.load(sys.stdin)
sys.path[:0] = told["path"]
from ansible_collections.inferops.sglang.plugins.module_utils import layout
layout.BUILDS = told["builds"]
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import run
from agent.running import run as runner
try:
    checks = run.preflight([told["instance"]], runner, inside_unit=False, adopting=False)["checks"]
except InferopsError as error:
    checks = error.result["checks"]
print(json.dumps(sorted(check["name"] for check in checks if not check["deferred"])))
"""
_READ = """
import json, sys
told = json.load(sys.stdin)
import os
folder = told["instance"]["model_path"]
json.load(open(os.path.join(folder, "model.safetensors.index.json")))
for name in os.listdir(folder):
    if name.endswith(".safetensors"):
        with open(os.path.join(folder, name), "rb") as stream:
            stream.read(int.from_bytes(stream.read(8), "little"))
"""


def build(release: str, builds: Path) -> None:
    """A sealed build as far as preflight looks: an interpreter, the release's sources, its options."""
    folder = builds / f"{release}-000000000000.1"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    site.rmdir()
    site.symlink_to(release_tree(release))
    (folder / "options.json").write_text(json.dumps(schema(release)))
    (folder / "manifest.json").write_text(json.dumps({"lock": {"release": release, "cuda": "13.0"}}))


def timed(code: str, told: dict[str, Any]) -> tuple[float, float, str]:
    """Milliseconds of a process of its own by the clock and of the processor, and what it printed."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], input=json.dumps(told), capture_output=True, text=True, check=False
    )
    spent, after = (time.perf_counter() - begin) * 1000, os.times()
    if done.returncode:
        raise SystemExit(done.stderr)
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, used * 1000, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", nargs="*", default=["0.5.9", "0.5.23"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="preflight-bench-"))
    try:
        target, draft = model_folders.kimi_k25(folder / "kimi"), model_folders.kimi_draft(folder / "draft")
        path = [str(ROOT / "collections"), str(ROOT)]
        told = {}
        for release in options.release:
            build(release, folder)
            wanted = {"build_id": f"{release}-000000000000", "release": release, "cuda": "13.0"}
            # 0.5.23 has this option under another name; it would be refused before anything else is looked at
            described = {**kimi(target, draft), "build": wanted}
            described["args"].pop("cuda_graph_max_bs")
            told[release] = {"path": path, "builds": str(folder), "instance": described}
        least: dict[str, float] = {}
        used: dict[str, float] = {}
        checks: dict[str, int] = {}
        for dummy in range(options.rounds):
            for name, code, given in [
                ("python_start", "import sys; sys.stdin.read()", told[options.release[0]]),
                ("read_headers", _READ, told[options.release[0]]),
                *[(release, _CHECK, told[release]) for release in options.release],
            ]:
                spent, processor, said = timed(code, given)
                least[name] = min(spent, least.get(name, spent))
                used[name] = min(processor, used.get(name, processor))
                if code is _CHECK:
                    checks[name] = len(json.loads(said))
    finally:
        shutil.rmtree(folder)
    report = {
        "ms": {name: round(value, 1) for name, value in least.items()},
        "processor_ms": {name: round(value) for name, value in used.items()},
        "checks": checks,
        "to_python_start": {name: round(least[name] / least["python_start"], 1) for name in options.release},
        "to_reading_headers": {name: round(least[name] / least["read_headers"], 2) for name in options.release},
        "load_average": os.getloadavg()[0],
        "within_bound": all(least[name] <= BOUND for name in options.release),
    }
    print(json.dumps(report, indent=2))
    return 0 if report["within_bound"] else 1


if __name__ == "__main__":
    sys.exit(main())
