"""Run a stand-in server for the length of a test."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parent / "src"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class StandIn:
    """A stand-in server as a context manager; ``log`` is its log file, ``pid`` its main process.

    Keyword arguments are control keys (README.md); :meth:`told` changes them while it runs.
    """

    def __init__(
        self, folder: Path, release: str = "0.5.23", options: list[str] | None = None, port: int = 0, **keys: Any
    ) -> None:
        self.release = release
        self.port = port or free_port()
        self.options = options or []
        self.log = folder / f"server-{self.port}.log"
        self.control = folder / f"control-{self.port}.json"
        self.keys: dict[str, Any] = {"start_s": 0.3, "health_s": 0.05, "drain_s": 0.0, **keys}
        self.url = f"http://127.0.0.1:{self.port}"
        self.told()

    def told(self, **keys: Any) -> None:
        """Set control keys; ``None`` removes one."""
        self.keys = {key: value for key, value in {**self.keys, **keys}.items() if value is not None}
        fresh = self.control.with_suffix(".new")
        fresh.write_text(json.dumps(self.keys))
        fresh.rename(self.control)

    def start(self) -> StandIn:
        env = {
            **os.environ,
            "PYTHONPATH": str(SRC),
            "STAND_IN_RELEASE": self.release,
            "STAND_IN_CONTROL": str(self.control),
        }
        argv = [sys.executable, "-m", "sglang.launch_server", "--model-path=/srv/m", f"--port={self.port}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*argv, *self.options], env=env, stdout=log, stderr=log)
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def wait_ready(self, timeout: float = 20.0) -> StandIn:
        end = time.monotonic() + timeout
        while "fired up" not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the stand-in did not come up:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.02)
        return self

    def ask(self, method: str, path: str, body: Any = None, timeout: float = 30.0) -> tuple[int, Any]:
        """(status, parsed body or text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def generate(self, count: int = 4, temperature: float = 0.0, timeout: float = 30.0) -> Any:
        sampling = {"max_new_tokens": count, "temperature": temperature}
        return self.ask("POST", "/generate", {"text": "a b c", "sampling_params": sampling}, timeout)[1]

    def kill(self) -> None:
        if self.process.poll() is None:
            for child in self.children():
                os.kill(child, signal.SIGKILL)
            self.process.kill()
        self.process.wait()

    def __enter__(self) -> StandIn:
        return self.start()

    def __exit__(self, *dummy: object) -> None:
        self.kill()
