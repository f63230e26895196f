"""Servers that someone started by hand."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.server import adopt

HAND = "import signal,time; signal.signal(15, signal.{how}); print('up', flush=True); time.sleep(60)"
PORT = 27183


@pytest.fixture
def by_hand(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", HAND.format(how=request.param), "sglang.launch_server", "--port", str(PORT),
            "--api-key", "sk-planted", "--admin-api-key=ak-planted"]  # fmt: skip
    child = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()


@pytest.mark.parametrize(
    ("argv", "server", "port"),
    [
        (["/x/bin/python", "-m", "sglang.launch_server", "--port", "30001"], True, 30001),
        (["python3", "-m", "sglang.launch_server", "--port=1"], True, 1),
        (["python3", "/root/sglang/python/sglang/launch_server.py"], True, 30000),
        (["/x/bin/python", "/x/bin/sglang", "serve", "--port=7"], True, 7),
        (["sglang", "serve"], True, 30000),
        (["vi", "sglang.launch_server.log"], False, 30000),
        (["python3", "-m", "sglang.bench_serving", "--port", "30001"], False, 30001),
        ([], False, 30000),
    ],
)
def test_a_server_is_known_by_its_command(argv: list[str], server: bool, port: int) -> None:
    assert adopt.is_server(argv) is server
    assert adopt.port_of(argv) == port


@pytest.mark.parametrize("by_hand", ["SIG_DFL"], indirect=True)
def test_it_is_found_and_shown_without_its_keys(by_hand: subprocess.Popen[bytes]) -> None:
    assert adopt.strangers(PORT + 1, "sglang-x.service") == []
    (stranger,) = adopt.strangers(PORT, "sglang-x.service")
    assert stranger.pid == by_hand.pid
    assert 0 <= stranger.age < 60
    message = adopt.refuse("kimi", [stranger]).message
    assert f"pid {by_hand.pid}" in message
    assert "-e adopt=true" in message
    assert "planted" not in message
    assert stranger.command.endswith("--api-key ******** --admin-api-key=********")


@pytest.mark.parametrize(("by_hand", "word"), [("SIG_DFL", "SIGTERM"), ("SIG_IGN", "SIGKILL")], indirect=["by_hand"])
def test_it_is_asked_first_and_ended_within_the_bound(by_hand: subprocess.Popen[bytes], word: str) -> None:
    (stranger,) = adopt.strangers(PORT, "sglang-x.service")
    began = time.monotonic()
    assert adopt.end(stranger, drain=1) == word
    assert time.monotonic() - began < 20
    by_hand.wait(timeout=10)
    assert adopt.strangers(PORT, "sglang-x.service") == []
