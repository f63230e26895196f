"""The test double itself: does it start, serve and die as the recorded servers did?"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from pathlib import Path

import pytest
from stand_in import wheel
from stand_in.running import StandIn

SPEC = ["--speculative-algorithm=EAGLE3", "--enable-metrics"]


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("release", "said", "unsaid"),
    [
        (
            "0.5.9",
            ["Init torch distributed begin.", "Capture cuda graph begin", "server_args=ServerArgs("],
            ["VA upper"],
        ),
        ("0.5.15", ["Init torch distributed begin.", "Capture target verify CUDA graph begin"], ["Capture cuda graph"]),
        ("0.5.23", ["Init parallel begin.", "server_args={'", "Multi-thread loading shards"], ["Init torch"]),
    ],
)
def test_starts_in_the_words_of_its_release_and_generates(
    tmp_path: Path, release: str, said: list[str], unsaid: list[str]
) -> None:
    with StandIn(tmp_path, release, SPEC) as server:
        server.wait_ready()
        answer = server.generate(8)
        log = server.log.read_text()
        assert all(text in log for text in said)
        assert not any(text in log for text in unsaid)
        order = [log.index(text) for text in ("Load weight begin", "Memory pool end", "Uvicorn running", "fired up")]
        assert order == sorted(order)
        drafts_before_pools = log.index("LlamaForCausalLMEagle3") < log.index("Memory pool end")
        assert drafts_before_pools is (release != "0.5.9")
        assert answer["meta_info"]["completion_tokens"] == 8
        assert 1.0 < answer["meta_info"]["spec_accept_length"] <= 1.9
        assert server.ask("GET", "/health")[0] == 200
        assert server.ask("GET", "/server_info")[1]["version"] == release
        assert "sglang:num_running_reqs" in server.ask("GET", "/metrics")[1]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in server.children()]
        assert names == ["sglang::schedul", "sglang::detoken"]


@pytest.mark.parametrize(("release", "status"), [("0.5.9", -9), ("0.5.15", -9), ("0.5.23", 0)])
def test_a_clean_stop_drains_and_ends_as_its_release_does(tmp_path: Path, release: str, status: int) -> None:
    import threading

    with StandIn(tmp_path, release, tok_s=100) as server:
        server.wait_ready()
        answers: list = []
        asking = threading.Thread(target=lambda: answers.append(server.generate(60)))
        asking.start()
        while "#running-req: 0, #queue-req: 0" not in server.log.read_text().partition("fired up")[2]:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0]["meta_info"]["completion_tokens"] == 60
        assert server.process.wait(10) == status


def test_a_dead_scheduler_leaves_a_zombie_behind_a_server_that_answers_in_0_5_9(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.9", health_timeout_s=0.2) as server:
        server.wait_ready()
        scheduler = server.children()[0]
        os.kill(scheduler, signal.SIGKILL)
        while state(scheduler) != "Z":
            time.sleep(0.01)
        assert server.ask("GET", "/v1/models")[0] == 200
        assert server.ask("GET", "/health")[0] == 503
        assert server.process.poll() is None


def test_a_dead_scheduler_ends_a_later_release_by_sigkill(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", crash_wait_s=0) as server:
        server.wait_ready()
        os.kill(server.children()[0], signal.SIGKILL)
        assert server.process.wait(10) == -9
        assert re.search(r"Subprocess scheduler_0 \(pid=\d+\) crashed with exit code -9", server.log.read_text())


@pytest.mark.parametrize(
    ("keys", "status", "text"),
    [
        ({"crash": "capture"}, -9, "Received sigquit from a child process"),
        ({"crash": "launch"}, 1, "ModuleNotFoundError"),
        ({"killed": "weights"}, 1, "Rank 0 scheduler died during initialization (exit code: -9)"),
    ],
)
def test_told_to_fail_it_fails_there(tmp_path: Path, keys: dict, status: int, text: str) -> None:
    with StandIn(tmp_path, "0.5.23", **keys) as server:
        assert server.process.wait(10) == status
        log = server.log.read_text()
        assert text in log
        assert "fired up" not in log


def test_a_taken_port_gives_the_false_ready_line_and_status_3(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.15") as first:
        first.wait_ready()
        with StandIn(tmp_path / "..", "0.5.15", port=first.port) as second:
            assert second.process.wait(15) == 3
            log = second.log.read_text()
            assert "[Errno 98]" in log
            assert "fired up" in log


def test_a_stall_ends_when_it_is_told_so(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", stall="capture") as server:
        while "Memory pool end" not in server.log.read_text():
            time.sleep(0.02)
        time.sleep(0.3)
        assert "Capture target" not in server.log.read_text()
        server.told(stall=None)
        server.wait_ready()


def test_health_only_answers_health_and_never_generates(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23") as server:
        server.wait_ready()
        server.told(health_only=True)
        assert server.ask("GET", "/health")[0] == 200
        with pytest.raises(TimeoutError):
            server.generate(timeout=0.5)


def test_keys_are_demanded_and_shown_as_sglang_does(tmp_path: Path) -> None:
    config = tmp_path / "secrets.yaml"
    config.write_text('api-key: "it\'s \\"s3cret\\""\n')
    with StandIn(tmp_path, "0.5.15", ["--config", str(config)]) as server:
        server.wait_ready()
        assert server.ask("GET", "/v1/models")[0] == 401
        assert server.ask("GET", "/health")[0] == 200
        assert """api_key='it\\'s "s3cret"'""" in server.log.read_text()


def test_an_unknown_option_is_refused_and_names_follow_the_release(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", ["--cuda-graph-max-bs=8"]) as server:
        assert server.process.wait(10) == 2
        assert "ambiguous option" in server.log.read_text()
    with StandIn(tmp_path, "0.5.9", ["--no-such-option=1"]) as server:
        assert server.process.wait(10) == 2


def test_two_nodes_come_up_together_and_fail_together(tmp_path: Path) -> None:
    from stand_in.running import free_port

    common = ["--nnodes=2", "--tp-size=2", f"--dist-init-addr=127.0.0.1:{free_port()}"]
    with (
        StandIn(tmp_path, "0.5.23", [*common, "--node-rank=0"], crash_wait_s=0) as first,
        StandIn(tmp_path, "0.5.23", [*common, "--node-rank=1"], crash_wait_s=0) as second,
    ):
        first.wait_ready()
        assert first.generate(3)["meta_info"]["completion_tokens"] == 3
        assert second.ask("GET", "/health")[0] == 200
        second.kill()
        assert first.process.wait(10) == -9


def test_wheels_are_reproducible_and_say_their_release(tmp_path: Path) -> None:
    digests = {hashlib.sha256(wheel.build("0.5.9", tmp_path / n).read_bytes()).hexdigest() for n in ("a", "b")}
    assert len(digests) == 1
