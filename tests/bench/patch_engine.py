"""What a plan of the whole patch catalogue and a full integrity check cost, side by side with the usual tools.

    python tests/bench/patch_engine.py [--release 0.5.23] [--rounds 15] [--python /usr/bin/python3]

All run in turn in every round, on one copy of a release from the package index that is already patched; the least time
of all rounds counts. Prints JSON: milliseconds, and the ratios that the targets are about. Exit status 1: out of
bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.inferops.sglang.plugins.module_utils import interpreter
from ansible_collections.inferops.sglang.plugins.module_utils.patch import worker
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue
from releases import release_tree
from support import run

#: The plan against starting Python; full integrity against sha256sum of the same files.
PLAN_BOUND, INTEGRITY_BOUND = 2.0, 1.5


def timed(action: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def program(*argv: str, cwd: Path | None = None) -> Callable[[], None]:
    def start() -> None:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{argv[0]} failed: {done.stdout}{done.stderr}")

    return start


def tree(release: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A patched copy of a release, with the flashinfer that it pins (the part of it that a patch concerns)."""
    pristine = release_tree(release)
    root = folder / "site-packages"
    shutil.copytree(pristine, root)
    (metadata,) = pristine.glob("sglang-*.dist-info/METADATA")
    pinned = re.search(r"^Requires-Dist: flashinfer_python(?:\[\w+\])?==(\S+)$", metadata.read_text(), re.MULTILINE)
    assert pinned
    flashinfer = release_tree(pinned[1], "flashinfer-python")
    shutil.copytree(flashinfer / "flashinfer" / "jit", root / "flashinfer" / "jit")
    for info in flashinfer.glob("*.dist-info"):
        shutil.copytree(info, root / info.name)
    definitions = catalogue.load(catalogue.shipped(ROOT), ROOT)
    request = {"root": str(root), "release": release, "definitions": definitions, "packages": {"sglang": "sglang"}}
    answer = worker.apply(request)
    if answer["error"]:
        raise SystemExit(answer["error"])
    return root, request


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", default="0.5.23")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="patch-bench-"))
    try:
        root, request = tree(options.release, folder)
        pristine = release_tree(options.release)
        diff = folder / "catalogue.diff"
        names = sorted({name for one in worker.plan(request)["patches"] for name in one["files"] if "sglang/" in name})
        for name in names:
            argv = [
                "diff",
                "-u",
                "--label",
                f"a/{name}",
                "--label",
                f"b/{name}",
                str(pristine / name),
                str(root / name),
            ]
            with open(diff, "a") as stream:
                subprocess.run(argv, stdout=stream, check=False)
        sums = folder / "SHA256SUMS"
        files = sorted(path for path in root.joinpath("sglang").rglob("*") if path.is_file())
        files = [path for path in files if path.suffix != ".pyc"]
        with open(sums, "w") as stream:
            argv = [str(path.relative_to(root)) for path in files]
            subprocess.run(["sha256sum", "--", *argv], cwd=root, stdout=stream, check=True)
        cases: dict[str, Callable[[], Any]] = {
            "python_start": program(options.python, "-I", "-B", "-c", "pass"),
            "plan": lambda: worker.unchanged(request),
            "plan_in_a_process_of_its_own": lambda: interpreter.call(run, options.python, "patch.worker:plan", request),
            "git_apply_check": program("git", "apply", "--check", "-R", str(diff), cwd=root),
            "integrity": lambda: worker.integrity(request),
            "sha256sum_check": program("sha256sum", "--check", "--quiet", str(sums), cwd=root),
        }
        if shutil.which("patch"):
            cases["patch_dry_run"] = program("patch", "--dry-run", "-R", "-p1", "-i", str(diff), cwd=root)
        if not worker.unchanged(request) or worker.integrity(request):
            raise SystemExit("the tree is not what was put there")
        times = dict.fromkeys(cases, float("inf"))
        for dummy in range(options.rounds):
            for name, case in cases.items():
                times[name] = min(times[name], timed(case))
    finally:
        shutil.rmtree(folder)
    plan = times["plan"] / times["python_start"]
    integrity = times["integrity"] / times["sha256sum_check"]
    report = {
        "release": options.release,
        "files": len(files),
        "patched_files": len(names),
        "ms": {name: round(value, 2) for name, value in times.items()},
        "plan_to_python_start": round(plan, 2),
        "plan_process_to_python_start": round(times["plan_in_a_process_of_its_own"] / times["python_start"], 2),
        "integrity_to_sha256sum": round(integrity, 2),
        "load_average": os.getloadavg()[0],
        "within_bounds": plan <= PLAN_BOUND and integrity <= INTEGRITY_BOUND,
    }
    print(json.dumps(report, indent=2))
    return 0 if report["within_bounds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
