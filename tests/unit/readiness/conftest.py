"""Makes the helpers of this folder importable; an instance whose server is the stand-in, without systemd."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from ansible_collections.inferops.sglang.plugins.module_utils import layout, procfs
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import watch
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed

from tests.stand_in.running import StandIn
from tests.support import run

INVOCATION = "0123456789abcdef0123456789abcdef"


class Host:
    """One instance, ``demo``, in a scratch folder; ``systemctl show`` is answered from its server's process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ROOT", "ETC", "STATE", "LOGS", "RUN"):
            path = folder / name.lower()
            path.mkdir()
            monkeypatch.setattr(layout, name, str(path))
        self.instance = layout.Instance("demo")
        self.logs = Path(self.instance.logs)
        self.logs.mkdir()
        Path(self.instance.run).mkdir()
        self.server: StandIn | None = None
        self.calls = 0

    def start(
        self,
        release: str = "0.5.23",
        speculative: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        **keys: Any,
    ) -> StandIn:
        """Start the stand-in as this instance's server."""
        options = list(options)
        options += ["--speculative-algorithm=EAGLE3", "--speculative-draft-model-path=/d"] if speculative else []
        server = StandIn(self.logs, release, options, **keys)
        server.log = self.logs / f"{INVOCATION}.log"
        self.record(server, release, speculative)
        self.server = server.start()
        return server

    def record(self, server: StandIn, release: str, speculative: Mapping[str, Any] | None) -> None:
        entry = {
            "invocation_id": INVOCATION,
            "instance": "demo",
            "release": release,
            "host": "127.0.0.1",
            "port": server.port,
            "speculative": speculative,
            "argv": ["python3", "-m", "sglang.launch_server", *server.options],
            "started_at": time.time(),
            "log": str(server.log),
        }
        (self.logs / f"{INVOCATION}.json").write_text(json.dumps(entry))

    def runner(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        data: str | None = None,
    ) -> Completed:
        if argv[0] != "systemctl":
            return run(argv, env=env, cwd=cwd, data=data)
        self.calls += 1
        shown = {"LoadState": "loaded", "InvocationID": INVOCATION, "NRestarts": "0", "ControlGroup": ""}
        status = self.server.process.poll() if self.server else None
        if self.server and status is None:
            shown |= {"ActiveState": "active", "SubState": "running", "MainPID": str(self.server.pid)}
        else:
            shown |= {"ActiveState": "failed" if self.server else "inactive", "SubState": "dead", "MainPID": "0"}
        if status is not None:
            code, number = ("2", -status) if status < 0 else ("1", status)
            shown |= {"ExecMainCode": code, "ExecMainStatus": str(number)}
        return Completed(0, "\n".join(f"{key}={value}" for key, value in shown.items()), "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(watch, "_LOOK_S", 0.3)
    made = Host(tmp_path, monkeypatch)
    yield made
    if made.server is not None:
        made.server.kill()


def kill(pid: int) -> None:
    """Kill a process and see it dead: it lives until the kernel has run it once more."""
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while (found := procfs.read(pid)) is not None and found.state != "Z":
        assert time.monotonic() < until, f"{pid} lives on"
        time.sleep(0.005)
