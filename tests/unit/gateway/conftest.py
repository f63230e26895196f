"""A real gateway on loopback, in front of stand-in servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import probe, settings
from stand_in.running import free_port

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles" / "sglang_gateway"


@pytest.fixture(scope="session")
def gateway_python() -> Path:
    """The interpreter of an environment with the gateway, made once for each set of pins."""
    pins = ROLE / "files" / "requirements.txt"
    version = re.search(r"^smg==(\S+)$", pins.read_text(), re.MULTILINE)
    assert version is not None
    folder = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops")) / f"gateway-{version.group(1)}"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "smg").exists():
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)], check=True)
    return python


class Gateway:
    """The gateway as the role runs it, less systemd."""

    def __init__(self, python: Path, folder: Path, worker_key: str = "") -> None:
        options = {
            **{"health_check_timeout_secs": 30, "health_check_interval_secs": 2, "health_success_threshold": 1},
            **{"host": "127.0.0.1", "port": free_port(), "policy": "round_robin"},
            **{"prometheus_host": "127.0.0.1", "prometheus_port": free_port(), "shutdown_grace_period_secs": 5},
            **{"discovery_provider": "file", "discovery_file": str(folder / "manifest.json")},
        }
        config = {"workers": str(folder / "workers.json"), "secrets": str(folder / "secrets.json"), "options": options}
        (folder / "secrets.json").write_text(json.dumps({"admin_key": "adm1n", "worker_key": worker_key}))
        (folder / "gateway.json").write_text(json.dumps(config))
        self.settings = settings.load(str(folder / "gateway.json"))
        self._argv = [str(python), str(ROLE / "files" / "launch.py"), str(folder / "gateway.json")]
        self._log = folder / "gateway.log"

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(self._argv, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while True:
            try:
                probe.listed(self.settings, "http://none:1")
                return
            except ConnectionError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(self._log.read_text(errors="replace")[-2000:]) from None
                time.sleep(0.1)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def gateway(gateway_python: Path, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    started: list[Gateway] = []

    def make(worker_key: str = "") -> Gateway:
        one = Gateway(gateway_python, tmp_path, worker_key)
        one.start()
        started.append(one)
        return one

    yield make
    for one in started:
        one.kill()
