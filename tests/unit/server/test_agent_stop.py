"""The stop helper on real processes, without a unit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout

from agent import stop

READY, OTHER_NODE = stop.SERVES
INVOCATION = "d" * 32
# what a server does on SIGTERM: ends by SIGKILL to itself, as SGLang does; never; or it has a dead child
POLITE = (
    "import signal,os,time; signal.signal(15, lambda *a: os.kill(os.getpid(), 9)); print('up', flush=True);"
    "time.sleep(60)"
)
DEAF = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
BEREFT = (
    "import os,subprocess,time;"
    "child = subprocess.Popen(['sh', '-c', 'printf sglang::schedul > /proc/self/comm; exit']);"
    "os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT); print('up', flush=True); time.sleep(60)"
)


@pytest.fixture
def log(host: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INVOCATION_ID", INVOCATION)
    logs = Path(layout.Instance("kimi").logs)
    logs.mkdir(parents=True)
    return logs / f"{INVOCATION}.log"


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    monkeypatch.setenv("MAINPID", str(child.pid))
    yield child
    child.kill()
    child.wait()


def note() -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(layout.Instance("kimi").run) / "stop.json").read_text())
    return found


def gone(child: subprocess.Popen[bytes]) -> bool:
    return stop.procfs.read(child.pid) is None or stop.procfs.read(child.pid).state == "Z"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("main", "text", "drain", "how"),
    [
        (POLITE, READY, 30, "drained"),
        (POLITE, "Load weight begin", 30, "killed: it was not ready yet"),
        (DEAF, READY, 1, "killed: requests were still running after 1 s"),
        (DEAF, "Uvicorn running on http://127.0.0.1", 60, "killed: it was not ready yet"),
        # a node that is not the first has no API and never says that it is fired up; it waits for the first one's word
        (POLITE, f"[2026-11-20 10:00:43] {OTHER_NODE} at 0.0.0.0:30000", 30, "drained"),
        (
            DEAF,
            f"[2026-11-20 10:00:43] {OTHER_NODE} at 0.0.0.0:30000",
            1,
            "killed: requests were still running after 1 s",
        ),
    ],
    ids=["clean", "loading", "deaf", "warming-up", "other-node", "other-node-waits"],
    indirect=["main"],
)
def test_how_a_server_ends_and_what_is_noted(
    log: Path, main: subprocess.Popen[bytes], text: str, drain: float, how: str
) -> None:
    log.write_text(text)
    assert stop.run("kimi", drain) == 0
    assert gone(main)
    assert note()["how"] == how
    assert note()["invocation_id"] == INVOCATION
    assert note()["main_pid"] == main.pid


@pytest.mark.parametrize("main", [BEREFT], indirect=True)
def test_a_dead_worker_is_reason_to_hurry(log: Path, main: subprocess.Popen[bytes]) -> None:
    log.write_text(READY)
    stop.run("kimi", 60)
    assert gone(main)
    assert str(note()["how"]).startswith("killed: its child")


@pytest.mark.parametrize("main", [POLITE], indirect=True)
def test_a_pid_of_another_process_is_left_alone(main: subprocess.Popen[bytes]) -> None:
    """A pid that has been taken over since is not the process that was meant."""
    now = stop.procfs.read(main.pid)
    assert now is not None
    earlier = stop.procfs.Process(now.pid, now.name, now.state, now.ppid, now.started - 1, now.cpu_ticks)
    stop._signal(earlier, 9)
    time.sleep(0.1)
    assert main.poll() is None


def test_a_server_that_ended_by_itself_was_not_asked_to(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd runs ExecStop after a crash, too; noted as a stop, the crash would be taken for one that was wanted."""
    monkeypatch.delenv("MAINPID", raising=False)
    assert stop.run("kimi", 1) == 0
    assert not (Path(layout.Instance("kimi").run) / "stop.json").exists()


@pytest.mark.parametrize("words", stop.SERVES)
@pytest.mark.parametrize("cut", [1, 10, (1 << 20) - 10, (1 << 20) + 1, 3 << 20])
def test_the_ready_line_is_found_wherever_blocks_end(tmp_path: Path, cut: int, words: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * cut + words.encode() + b"y" * 100)
    assert stop.has_served(str(log))
    log.write_bytes(b"x" * cut + words[:-1].encode())
    assert not stop.has_served(str(log))


def test_a_start_without_a_log_was_not_ready(tmp_path: Path) -> None:
    assert not stop.has_served(str(tmp_path / "none"))
    assert os.listdir(tmp_path) == []
