"""A small fleet in the sandbox: stand-in servers behind the real gateway."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops"))
STAND_IN = CACHE / "stand-in"
WHEELS = CACHE / "gateway-wheels"
SSH_CONFIG = "/var/lib/inferops-sandbox/ssh/config"
GATEWAY = "gw1"
Play = Callable[..., Any]
#: Slow enough that the machine's noise does not show in tokens per second.
CALM = {"tok_s": 40, "health_s": 0.2, "start_s": 0.5, "crash_wait_s": 0.5}


def sandbox(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox", *words], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


def fill_caches() -> None:
    """Wheels for hosts that have no way out: the stand-in's, uv's and the gateway's."""
    from stand_in import wheel

    for release in wheel.RELEASES:
        wheel.build(release, STAND_IN)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    if not list(STAND_IN.glob("uv-*.whl")):
        subprocess.run([*pip, "--no-deps", "--dest", str(STAND_IN), "uv"], check=True)
    if not list(WHEELS.glob("smg-*.whl")):
        pins = ROOT / "roles" / "sglang_gateway" / "files" / "requirements.txt"
        subprocess.run([*pip, "--dest", str(WHEELS), "--requirement", str(pins)], check=True)


@dataclass
class Fleet:
    """``hosts`` serve, ``gateway`` is in front. ``instance`` is merged into the server's description."""

    hosts: list[str]
    folder: Path
    gateway: str = GATEWAY
    rollout: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    instance: dict[str, Any] = field(default_factory=dict)

    def up(self) -> None:
        fill_caches()
        sandbox("up", *self.hosts, "--mount", f"{STAND_IN}:/srv/stand-in")
        sandbox("up", self.gateway, "--mount", f"{WHEELS}:/srv/gateway-wheels")

    @contextlib.contextmanager
    def standing(self, play: Play) -> Iterator[Fleet]:
        """The hosts are there, and the gateway runs; they go with the block."""
        self.up()
        run = play("tests/integration/gateway.yml", inventory=self.inventory, fleet_release="none")
        assert run.status == "successful", run.stdout[-2000:]
        yield self
        sandbox("down", *self.hosts, self.gateway)

    def anew(self, play: Play, release: str, variables: dict[str, dict[str, Any]] | None = None) -> Fleet:
        """All servers on a release, calm and routable; what an earlier test wished for is forgotten."""
        self.rollout, self.variables, self.instance = {}, variables or {}, {}
        self.up()
        self.told()
        self.reach(play, release)
        return self

    @property
    def inventory(self) -> str:
        """The inventory's file, for the release that ``fleet_release`` names."""
        path = self.folder / "inventory.json"
        path.write_text(json.dumps(self._described(), indent=1))
        return str(path)

    def _described(self) -> dict[str, Any]:
        lock = ROOT / "tests" / "stand_in" / "locks"
        instance = {
            "model_path": "/srv/models/tiny-llama",
            "host": "0.0.0.0",
            "gpus": "none",
            "lock": f"{lock}/stand-in-{{{{ fleet_release }}}}",
            "args": {"enable_metrics": True},
            "acknowledge": ["unit_limits"],
            "drain_timeout": 60,
            **self.instance,
        }
        servers = {
            "hosts": {host: self.variables.get(host, {}) for host in self.hosts},
            "vars": {
                "sglang_gateway": self.gateway,
                "sglang_find_links": ["/srv/stand-in"],
                "sglang_instances": {"tiny": instance},
                "sglang_rollout": {**{"hold": 3, "soak": 3, "bench": False, "min_routable": 1}, **self.rollout},
            },
        }
        front = {
            "hosts": {self.gateway: {}},
            "vars": {
                "sglang_gateway_host": "0.0.0.0",
                "sglang_gateway_find_links": ["/srv/gateway-wheels"],
                "sglang_gateway_options": {"policy": "round_robin"},
                "sglang_gateway_workers": [],
            },
        }
        common = {"ansible_ssh_common_args": f"-F {SSH_CONFIG}", "ansible_python_interpreter": "/usr/bin/python3"}
        return {"all": {"vars": common, "children": {"sglang": servers, "gateway": front}}}

    def ssh(self, host: str, *words: str, data: str | None = None, check: bool = True) -> str:
        argv = ["ssh", "-F", SSH_CONFIG, host, *words]
        return subprocess.run(argv, input=data, check=check, capture_output=True, text=True).stdout

    def told(self, **keys: Any) -> None:
        """Tell all servers; ``new={…}`` holds for release 0.5.23 alone."""
        new = keys.pop("new", {})
        text = json.dumps({**CALM, **keys, "releases": {"0.5.23": new}})
        for host in self.hosts:
            self.ssh(host, "cat > /etc/stand_in.json.new && mv /etc/stand_in.json.new /etc/stand_in.json", data=text)

    def release(self, host: str) -> str:
        """What answers on the host, by its own word; empty where nothing answers."""
        read = 'import json,sys; print(json.load(sys.stdin)["version"])'
        ask = f"curl -s -m 5 http://127.0.0.1:30000/server_info | python3 -c '{read}'"
        return self.ssh(host, ask, check=False).strip()

    def routable(self) -> dict[str, str]:
        """The state of each worker in the gateway's list."""
        text = self.ssh(self.gateway, "cat /etc/sglang/gateway.workers.json")
        return {url[7:].partition(":")[0]: state for url, state in json.loads(text)["workers"].items()}

    @property
    def url(self) -> str:
        return f"http://{sandbox('up', self.gateway).split()[1]}:8080"

    def reach(self, play: Play, release: str) -> None:
        """Bring everything to a release and behind the gateway, whatever an earlier test left."""
        run = play("playbooks/deploy.yml", inventory=self.inventory, fleet_release=release)
        assert run.status == "successful", run.stdout[-3000:]
        run = play("tests/integration/fleet_workers.yml", inventory=self.inventory, fleet_release=release)
        assert run.status == "successful", run.stdout[-3000:]

    def roll(self, play: Play, file: Path, release: str, **variables: Any) -> Any:
        """One rollout to its end; its plan is kept in ``file``."""
        words = {"inventory": self.inventory, "fleet_release": release, "rollout_file": str(file), **variables}
        return play("playbooks/rollout.yml", **words)

    @contextlib.contextmanager
    def rolling(self, file: Path, release: str, **variables: Any) -> Iterator[subprocess.Popen[str]]:
        """A rollout that runs meanwhile; it is ended with the block."""
        words = {"fleet_release": release, "rollout_file": str(file), **variables}
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/rollout.yml", "-i", self.inventory]
        argv += ["-e", json.dumps(words)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as controller:
            try:
                yield controller
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(controller.pid, signal.SIGKILL)


def until(controller: subprocess.Popen[str], task: str, times: int = 1) -> None:
    """Read what a rollout says until a task whose name matches begins, for the so many-th time."""
    assert controller.stdout is not None
    for line in controller.stdout:
        if line.startswith("TASK") and re.search(task, line):
            times -= 1
            if times == 0:
                return
    raise AssertionError(f"the rollout ended before the task {task!r}")


def end_of(controller: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a rollout: its status and the rest of what it said."""
    text = controller.communicate(timeout=600)[0]
    return controller.returncode, text


def kept(file: Path) -> dict[str, Any]:
    """The plan of a rollout, as it is kept."""
    return dict(json.loads(file.read_text())["sglang_rollout_plan"])


def states(file: Path) -> dict[str, str]:
    return {unit["name"]: unit["state"] for unit in kept(file)["units"]}


def note(file: Path, unit: str) -> str:
    return str(next(entry["note"] for entry in kept(file)["units"] if entry["name"] == unit))
