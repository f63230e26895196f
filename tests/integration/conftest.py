"""Playbooks against sandbox hosts, driven through ansible-runner."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = ROOT / "tests" / "output" / "runs"


@dataclass
class Run:
    """What one run of a playbook came to."""

    status: str
    stats: dict[str, dict[str, int]]
    events: list[dict[str, Any]] = field(repr=False)
    stdout: str = field(repr=False)
    artifacts: Path = field(repr=False)

    def count(self, kind: str, host: str) -> int:
        """``kind``: ``changed``, ``ok``, ``failures``, ``dark``, ``rescued`` …"""
        return self.stats.get(kind, {}).get(host, 0)

    def results(self, host: str, module: str) -> list[dict[str, Any]]:
        """The results of one module's tasks on a host, in order."""
        return [
            event["event_data"]["res"]
            for event in self.events
            if event["event"] in ("runner_on_ok", "runner_on_failed")
            and event["event_data"].get("host") == host
            and event["event_data"].get("task_action", "").rpartition(".")[2] == module
        ]

    def failure(self, host: str) -> str:
        """The message of the last failed task of a host; those of its items, where it is a loop."""
        failed = [
            event["event_data"]["res"]
            for event in self.events
            if event["event"] == "runner_on_failed" and event["event_data"].get("host") == host
        ]
        if not failed:
            return ""
        items = [item for item in failed[-1].get("results", []) if item.get("failed")]
        return "; ".join(str(one.get("msg", "")) for one in items or failed[-1:])

    def unreachable(self, host: str) -> str:
        """Why a host could not be reached; empty where it could."""
        for event in self.events:
            if event["event"] == "runner_on_unreachable" and event["event_data"].get("host") == host:
                return str(event["event_data"]["res"]["msg"])
        return ""


Play = Callable[..., Run]


@pytest.fixture(scope="module")
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a playbook: ``play("playbooks/deploy.yml", inventory="inventories/sandbox", check=True, key=value…)``."""
    count = 0

    def run(
        playbook: str = "deploy.yml",
        inventory: str = "inventories/sandbox",
        limit: str = "",
        check: bool = False,
        verbosity: int = 0,
        **extravars: Any,
    ) -> Run:
        nonlocal count
        count += 1
        folder = OUTPUT / Path(request.node.name).stem / str(count)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        options = f"--limit {limit}" if limit else ""
        if check:
            options += " --check --diff"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": path}
        done = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(ROOT),
            playbook=playbook,
            inventory=str(ROOT / inventory),
            extravars=extravars,
            cmdline=options or None,
            envvars=environment,
            verbosity=verbosity or None,
            quiet=True,
        )
        with done.stdout as stream:
            text = stream.read()
        return Run(done.status, done.stats or {}, list(done.events), text, folder / "artifacts")

    return run
