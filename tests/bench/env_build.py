"""What a second environment of one lock costs in time and disk, against pip and against the first; side by side.

    python tests/bench/env_build.py [--lock sglang-0.5.9-cpu] [--wheels FOLDER] [--rounds 2]

Needs the lock's wheels in one folder (the sandbox's wheelhouse) and its Python. Prints JSON; ends with status 1 when a
bound of the product is missed: disk under 5 % more, time at most a tenth of pip's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.inferops.sglang.plugins.module_utils.build import make
from ansible_collections.inferops.sglang.plugins.module_utils.build.installed import pins as pinned
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds
from support import run

#: More disk for a second environment, and the time to fill it with a warm cache over pip's.
DISK_BOUND, TIME_BOUND = 0.05, 0.10


def disk(*paths: Path) -> int:
    """The bytes on disk below the folders together: a file with several links counts once."""
    seen: dict[tuple[int, int], int] = {}
    for base in paths:
        for folder, names, files in os.walk(base):
            for name in [*names, *files, "."]:
                status = os.lstat(os.path.join(folder, name))
                seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def with_pip(spec: dict[str, Any], target: Path) -> float:
    """Seconds for ``venv`` and ``pip install`` of the lock, as pip does it by default."""
    began = time.monotonic()
    subprocess.run([spec["python"], "-m", "venv", str(target)], check=True)
    pins = target / "requirements.txt"
    # without hashes: pip refuses a set in which some have them and some have none
    pins.write_text("".join(f"{name}=={version}\n" for name, [version] in pinned(spec["lock"]["requirements"]).items()))
    argv = [str(target / "bin/python"), "-m", "pip", "--isolated", "install", "--quiet", "--no-deps", "--no-index"]
    for folder in spec["find_links"]:
        argv += ["--find-links", folder]
    subprocess.run([*argv, "--requirement", str(pins)], check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    return time.monotonic() - began


def with_product(spec: dict[str, Any], number: int, base: Path) -> tuple[Path, dict[str, float]]:
    """A build, and the seconds until its files were there and verified, until it was proved, until it was sealed."""
    marks: dict[str, float] = {}
    began = time.monotonic()

    def say(text: str) -> None:
        marks.setdefault(text.partition(":")[0].partition(" ")[0], time.monotonic() - began)

    places = {"root": str(base / "builds"), "cache": str(base / "cache"), "tools": str(base / "tools")}
    build = make.apply({**spec, "build_id": f"bench{number}-000000000000"}, run, say=say, **places)
    seconds = {"filled": marks["proving"], "proved": marks["sealing"], "sealed": time.monotonic() - began}
    return Path(build.path), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", default="sglang-0.5.9-cpu")
    parser.add_argument("--wheels", default="/var/cache/inferops/sandbox/wheelhouse")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    spec = builds.resolve(
        args.lock, [], python=args.python, find_links=[args.wheels], collection_root=builds.COLLECTION
    )
    with tempfile.TemporaryDirectory(prefix="inferops-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as scratch:
        base = Path(scratch)
        first, cold = with_product(spec, 0, base)
        one = disk(first, base / "cache")
        pip, warm = [], []
        for number in range(1, args.rounds + 1):
            pip.append(with_pip(spec, base / f"pip{number}"))
            second, seconds = with_product(spec, number, base)
            warm.append(seconds)
            if number == 1:
                two = disk(first, second, base / "cache")
        filled = statistics.median(seconds["filled"] for seconds in warm)
        report = {
            "lock": args.lock,
            "pip_s": [round(value, 1) for value in pip],
            "cold_s": {key: round(value, 1) for key, value in cold.items()},
            "warm_s": [{key: round(value, 1) for key, value in seconds.items()} for seconds in warm],
            "time_ratio": round(filled / statistics.median(pip), 3),
            "disk_mb": {"one": one >> 20, "two": two >> 20},
            "disk_more": round(two / one - 1, 4),
        }
    report["ok"] = report["time_ratio"] <= TIME_BOUND and report["disk_more"] < DISK_BOUND
    print(json.dumps(report, indent=2))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
