"""The launcher: records, GPUs, ports, logs; and that it really becomes the server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError

from agent import launch

TOLD = launch.Told("kimi", "all", "0.5.9", "abc", True)


def test_indices_are_taken_as_they_are() -> None:
    assert launch.gpu_variables("1,3") == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"}
    assert launch.gpu_variables("all") == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert launch.gpu_variables("none") == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nprintf '0, GPU-aaaa1111\\n1, GPU-bbbb2222\\n'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_uuids_become_indices(smi: None) -> None:
    assert launch.gpu_variables("GPU-bbbb2222,GPU-aaaa1111")["CUDA_VISIBLE_DEVICES"] == "1,0"
    with pytest.raises(InferopsError, match=r"GPU-cccc is not on this host; there are GPU-aaaa1111, GPU-bbbb2222"):
        launch.gpu_variables("GPU-cccc")


def test_a_pinned_port_is_free_and_none_that_outgoing_connections_take() -> None:
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as stream:
        first_ephemeral = int(stream.read().split()[0])
    port = launch.free_port({20000}, 20000)
    assert port is not None
    assert 20000 < port < first_ephemeral
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", port))
        assert launch.free_port({20000}, port) != port


@pytest.mark.parametrize("argv", [["--nccl-port=1"], ["--dist-init-addr=10.0.0.1:5000"]])
def test_a_port_that_was_given_is_left_alone(argv: list[str]) -> None:
    assert launch._nccl_port(argv) == []


def test_the_record(host: Path) -> None:
    argv = ["/b/bin/python", "-m", "sglang.launch_server", "--port=30001", "--tp-size=8",
            "--speculative-algorithm=EAGLE3", "--speculative-num-steps=2", "--model-path=/m"]  # fmt: skip
    entry = launch.record(TOLD, argv, ["--nccl-port=20001"], "f" * 32, "/log", None)
    assert entry["port"] == 30001
    assert entry["tp_size"] == 8
    assert entry["speculative"] == {
        "algorithm": "EAGLE3", "num_steps": 2, "eagle_topk": None, "num_draft_tokens": None
    }  # fmt: skip
    assert entry["activation"] is None
    assert launch.record(TOLD, argv[:4], [], "f" * 32, "/log", None)["speculative"] is None


def test_it_becomes_the_server_with_its_log(host: Path, tmp_path: Path) -> None:
    """The process that was started is the server: same pid, the whole command line, output in the log of this start."""
    logs = Path(layout.Instance("kimi").logs)
    logs.mkdir(parents=True)
    code = "import sys, time; print('out', flush=True); print('err', file=sys.stderr, flush=True); time.sleep(60)"
    become = (
        "import sys; from ansible_collections.inferops.sglang.plugins.module_utils import layout;"
        f"layout.LOGS = {layout.LOGS!r}; layout.ROOT = {layout.ROOT!r};"
        f"from agent.launch import Told, run; run(Told('kimi', 'none', '0.5.9', 's', False), sys.argv[1:])"
    )
    root = Path(__file__).resolve().parents[3]
    env = {**os.environ, "INVOCATION_ID": "e" * 32, "PYTHONPATH": f"{root}:{root}/collections"}
    argv = [sys.executable, "-c", code, "--model-path=/m m", "--x=%$\n"]
    child = subprocess.Popen([sys.executable, "-c", become, *argv], env=env)
    try:
        log = logs / f"{'e' * 32}.log"
        while not (log.exists() and "err" in log.read_text()):
            assert child.poll() is None
            time.sleep(0.05)
        assert log.read_text() == "out\nerr\n"
        assert log.stat().st_mode & 0o777 == 0o640
        assert Path(f"/proc/{child.pid}/cmdline").read_bytes().decode().split("\0")[:-1] == argv
        record = json.loads((logs / f"{'e' * 32}.json").read_text())
        assert record["argv"] == argv
        assert record["cuda_visible_devices"] == ""
        assert "CUDA_VISIBLE_DEVICES=\0" in Path(f"/proc/{child.pid}/environ").read_text()
    finally:
        child.kill()
        child.wait()


def test_compiled_headers_outlive_a_start(tmp_path: Path) -> None:
    cache, first, second = tmp_path / "cache", tmp_path / "1", tmp_path / "2"
    for private in (first, second):
        private.mkdir()
        launch.keep_compiled_headers(str(cache), str(private))
        launch.keep_compiled_headers(str(cache), str(private))
    (name,) = os.listdir(first)
    (first / name / "x.gch").write_text("")
    assert os.listdir(second / name) == ["x.gch"]
    launch.keep_compiled_headers("", str(tmp_path / "cache"))
    assert os.listdir(cache) == ["torchinductor"]


def test_old_logs_go(host: Path) -> None:
    logs = Path(layout.Instance("kimi").logs)
    logs.mkdir(parents=True)
    for number in range(25):
        for kind in ("log", "json"):
            (logs / f"{number:02}.{kind}").write_text("")
            os.utime(logs / f"{number:02}.{kind}", (number, number))
    launch._prune(str(logs))
    assert sorted(path.name for path in logs.glob("*.log"))[0] == "05.log"
    assert len(list(logs.iterdir())) == 2 * launch.KEPT_LOGS
