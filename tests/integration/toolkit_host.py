"""A sandbox host for the tests of CUDA toolkits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROVIDE = "tests/integration/toolkit/provide.yml"


class Host:
    """One host, with the folders in ``mounts`` (here -> there) read-only on it."""

    def __init__(self, name: str, inventory: Path, mounts: dict[Path, str]) -> None:
        self.name = name
        flags = [word for here, there in mounts.items() for word in ("--mount", f"{here}:{there}")]
        self.address = self._sandbox("up", name, *flags).split()[1]
        inventory.write_text(self._sandbox("inventory", name))
        self.inventory = str(inventory)

    def run(self, script: str, *, check: bool = True) -> str:
        """What a shell script prints on the host."""
        argv = [sys.executable, "-m", "tests.sandbox", "ssh", self.name, script]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{script!r} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def default_link(self) -> str:
        return self.run("readlink -f /usr/local/cuda").strip()

    def down(self) -> None:
        self._sandbox("down", self.name)

    @staticmethod
    def _sandbox(*words: str) -> str:
        argv = [sys.executable, "-m", "tests.sandbox", *words]
        return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changes(result: dict[str, Any]) -> dict[str, str]:
    """The parts that a module's result says it changed, with what they come to."""
    return {entry["after_header"].partition(": ")[2]: entry["after"] for entry in result.get("diff", [])}


def as_json(text: str) -> Any:
    return json.loads(text)
