"""Runs the shipped playbooks on a fleet that is a file: everything of Ansible and of the plan's file is real, and the
modules that touch hosts are stand-ins (``stand_in_modules``). No host is changed, and no root is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
STAND_INS = (
    "sglang_plan", "sglang_server", "sglang_ready", "sglang_preflight", "sglang_bench",
    "gateway_worker", "gateway_plan",
)  # fmt: skip
OLD, NEW = "0.5.9", "0.5.23"
WISHES = {"hold": 0, "soak": 0, "bench": False, "min_routable": 1, "drain_timeout": 5}


def collection(folder: Path) -> Path:
    """A collection of links to this one, but for the stand-ins; what to give as ANSIBLE_COLLECTIONS_PATH."""
    root = folder / "ansible_collections" / "inferops" / "sglang"
    (root / "plugins" / "action").mkdir(parents=True)
    for name in ("roles", "meta", "playbooks"):
        (root / name).symlink_to(ROOT / name)
    for path in (ROOT / "plugins").iterdir():
        if path.name != "action":
            (root / "plugins" / path.name).symlink_to(path)
    for path in (ROOT / "plugins" / "action").glob("*.py"):
        real = path if path.stem not in STAND_INS else Path(__file__).with_name("stand_in_modules.py")
        (root / "plugins" / "action" / path.name).symlink_to(real)
    for name in STAND_INS:
        link = root / "plugins" / "action" / f"{name}.py"
        if not link.is_symlink():
            link.symlink_to(Path(__file__).with_name("stand_in_modules.py"))
    return folder


@dataclass
class Run:
    status: int
    text: str


@dataclass
class Play:
    """``hosts`` serve behind ``gateways`` (of each host; by default all are behind the one ``gw``)."""

    folder: Path
    hosts: list[str]
    gateways: dict[str, Any] = field(default_factory=dict)
    wishes: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = self.folder / "rollout.json"
        self._world = self.folder / "world.json"
        fronts: dict[str, list[str]] = {}
        for host in self.hosts:
            found = self.gateways.get(host, "gw")
            for gateway in [found] if isinstance(found, str) else found:
                fronts.setdefault(gateway, []).append(host)
        for name in [*self.hosts, *fronts]:
            (self.folder / f"{name}.connection").write_text("local")
        urls = {host: [f"http://{host}:30000"] for host in self.hosts}
        self.fronts = list(fronts)
        self.write(
            {
                "described": NEW, "before": OLD, "faults": [], "calls": [], "cut": [], "urls": urls,
                "hosts": {host: {"release": OLD, "activation": 1, "pid": 100, "ready": True} for host in self.hosts},
                "gateways": {
                    gateway: {url: "present" for host in behind for url in urls[host]}
                    for gateway, behind in fronts.items()
                },
            }
        )  # fmt: skip

    def write(self, world: dict[str, Any]) -> None:
        self._world.write_text(json.dumps(world))

    @property
    def world(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._world.read_text())
        return found

    def fault(self, result: dict[str, Any], times: int = 1, after: int = 0, **when: Any) -> None:
        """Let a call go wrong, ``times`` times, from the one behind ``after`` others on."""
        world = self.world
        world["faults"].append({"when": when, "result": result, "times": times, "after": after})
        self.write(world)

    def fails(self, message: str, **when: Any) -> None:
        self.fault({"failed": True, "msg": message}, **when)

    def silent(self, **when: Any) -> None:
        """The host that a call goes to cannot be reached; the call does nothing there."""
        self.fault({"unreachable": True, "msg": "No route to host"}, **when)

    def gone(self, name: str) -> None:
        """A host that cannot be reached by anything."""
        (self.folder / f"{name}.connection").write_text("ssh")

    def back(self, name: str) -> None:
        (self.folder / f"{name}.connection").write_text("local")

    def run(self, playbook: str, **words: Any) -> Run:
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps(self._inventory()))
        config = self.folder / "ansible.cfg"
        config.write_text("[defaults]\nforks = 8\nstdout_callback = ansible.builtin.default\n")
        words = {"rollout_file": str(self.file), "reports": str(self.folder / "reports"), **words}
        path = self.folder / "collections"
        if not path.exists():
            collection(path)
        argv = [sys.executable, "-m", "ansible", "playbook", f"inferops.sglang.{playbook}", "-i", str(inventory)]
        done = subprocess.run(
            [*argv, "-e", json.dumps(words)],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
                "ANSIBLE_CONFIG": str(config), "ANSIBLE_COLLECTIONS_PATH": str(path), "PLAY_WORLD": str(self._world),
            },
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        return Run(done.returncode, done.stdout + done.stderr)

    def roll(self, **words: Any) -> Run:
        return self.run("rollout", **words)

    def _inventory(self) -> dict[str, Any]:
        common = {
            "ansible_python_interpreter": sys.executable,
            "ansible_become": False,
            # where nobody listens
            "ansible_host": "127.0.0.1",
            "ansible_port": 9,
        }
        servers = {
            "sglang_instances": {"tiny": {"model_path": "/m", "host": "0.0.0.0", "lock": "none"}},
            "sglang_rollout": {**WISHES, **self.wishes},
            "sglang_ready_timeout": 60,
        }
        # by its own name: of a task that is delegated to it, inventory_hostname is another one
        way = {
            name: {"ansible_connection": f"{{{{ lookup('ansible.builtin.file', '{self.folder}/{name}.connection') }}}}"}
            for name in [*self.hosts, *self.fronts]
        }
        listed = {
            host: {"sglang_gateway": self.gateways.get(host, "gw"), **way[host], **self.variables.get(host, {})}
            for host in self.hosts
        }
        return {
            "all": {
                "vars": common,
                "children": {
                    "sglang": {"hosts": listed, "vars": servers},
                    "fronts": {"hosts": {name: way[name] for name in self.fronts}},
                },
            }
        }

    @property
    def kept(self) -> dict[str, Any]:
        """The plan as it is kept."""
        return dict(json.loads(self.file.read_text())["sglang_rollout_plan"])

    @property
    def states(self) -> dict[str, str]:
        return {unit["name"]: unit["state"] for unit in self.kept["units"]}

    def note(self, name: str) -> str:
        return str(next(unit["note"] for unit in self.kept["units"] if unit["name"] == name))

    @property
    def releases(self) -> dict[str, str]:
        return {name: host["release"] for name, host in self.world["hosts"].items()}

    @property
    def routed(self) -> dict[str, list[str]]:
        """The hosts that each gateway sends requests to."""
        return {
            gateway: [url[7:].partition(":")[0] for url, state in listed.items() if state == "present"]
            for gateway, listed in self.world["gateways"].items()
        }

    def calls(self, module: str, **wanted: Any) -> list[dict[str, Any]]:
        found = [call for call in self.world["calls"] if call["module"] == module]
        return [call for call in found if all({**call["args"], **call}[key] == value for key, value in wanted.items())]
