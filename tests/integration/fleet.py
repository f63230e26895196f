"""A small fleet in the sandbox: stand-in servers behind the real gateway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops"))
STAND_IN = CACHE / "stand-in"
WHEELS = CACHE / "gateway-wheels"
SSH_CONFIG = "/var/lib/inferops-sandbox/ssh/config"
GATEWAY = "gw1"
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
    """``hosts`` serve, ``gw1`` is in front; ``inventory`` is written for each call of :meth:`describe`."""

    hosts: list[str]
    folder: Path
    rollout: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def up(self) -> None:
        fill_caches()
        for host in self.hosts:
            sandbox("up", host, "--mount", f"{STAND_IN}:/srv/stand-in")
        sandbox("up", GATEWAY, "--mount", f"{WHEELS}:/srv/gateway-wheels")

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
        }
        servers = {
            "hosts": {host: self.variables.get(host, {}) for host in self.hosts},
            "vars": {
                "sglang_gateway": GATEWAY,
                "sglang_find_links": ["/srv/stand-in"],
                "sglang_instances": {"tiny": instance},
                "sglang_rollout": {**{"hold": 3, "soak": 3, "bench": False, "min_routable": 1}, **self.rollout},
            },
        }
        front = {
            "hosts": {GATEWAY: {}},
            "vars": {
                "sglang_gateway_host": "0.0.0.0",
                "sglang_gateway_find_links": ["/srv/gateway-wheels"],
                "sglang_gateway_options": {"policy": "round_robin"},
                "sglang_gateway_workers": [f"http://{host}:30000" for host in self.hosts],
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
        text = self.ssh(GATEWAY, "cat /etc/sglang/gateway.workers.json")
        return {url[7:].partition(":")[0]: state for url, state in json.loads(text)["workers"].items()}

    @property
    def url(self) -> str:
        address = next(line.split()[1] for line in sandbox("up", GATEWAY).splitlines() if line.startswith(GATEWAY))
        return f"http://{address}:8080"
