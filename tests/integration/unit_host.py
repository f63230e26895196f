"""A sandbox host for tests of units: a line to it that runs Python there, and a build of the stand-in server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SSH_CONFIG = "/var/lib/inferops-sandbox/ssh/config"

# Runs on the host: one JSON value a line in, one out; each names a function of the text given at the start.
_LINE = """
import json, sys, traceback
names = {}
exec(json.loads(sys.stdin.readline()), names)
for line in sys.stdin:
    function, arguments = json.loads(line)
    try:
        answer = {"value": names[function](*arguments)}
    except Exception:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
"""


class Line:
    """Calls functions of a piece of Python on a host, over one SSH connection."""

    def __init__(self, host: str, source: str) -> None:
        argv = ["ssh", "-F", SSH_CONFIG, host, f"python3 -u -c '{_LINE}'".replace("\n", "\n")]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._send(source)

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def call(self, function: str, *arguments: Any) -> Any:
        self._send([function, arguments])
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def up(name: str) -> str:
    """Create or repair a host and return its name."""
    subprocess.run([sys.executable, "-m", "tests.sandbox", "up", name], cwd=ROOT, check=True, capture_output=True)
    return name


def ssh(host: str, command: str, data: bytes | None = None) -> str:
    """Run a shell command on a host; fails the test with what it said."""
    done = subprocess.run(["ssh", "-F", SSH_CONFIG, host, command], input=data, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stderr.decode()} {done.stdout.decode()}"
    return done.stdout.decode()


def available() -> bool:
    """Whether this machine can have sandbox hosts at all."""
    return shutil.which("systemd-nspawn") is not None
