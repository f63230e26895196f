"""The wait, against a server that lives and dies for real."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import live, ready, watch
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.watch import Options
from conftest import INVOCATION, Host, kill

SPECULATIVE = {"algorithm": "EAGLE3", "num_steps": 2, "eagle_topk": 4, "num_draft_tokens": 16}


def wait(host: Host, **options: Any) -> dict[str, Any]:
    """The result of the wait, failed or not."""
    try:
        return ready.wait(host.runner, "demo", Options(**{"timeout": 30, "stall_timeout": 20, **options}))
    except InferopsError as error:
        assert error.message
        return error.result


def worker(host: Host, name: str = "sglang::schedul") -> int:
    """The pid of a worker, once it is there."""
    assert host.server is not None
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for pid in host.server.children():
            if Path(f"/proc/{pid}/comm").read_text().strip().startswith(name):
                return pid
        time.sleep(0.01)
    raise AssertionError(f"no {name}")


def silence(host: Host) -> None:
    """From now on the server answers health and nothing else; an idle scheduler notices within half a second."""
    assert host.server is not None
    host.server.wait_ready().told(health_only=True)
    time.sleep(0.6)


def later(seconds: float, what: Any) -> None:
    threading.Timer(seconds, what).start()


def test_ready(host: Host) -> None:
    host.start(start_s=0.5)
    told = wait(host)
    assert told["state"] == "ready" and told["failure"] is None
    assert told["first_generation"]["text"] and 0 < told["ready_after_s"] < 20
    names = [phase["name"] for phase in told["phases"]]
    loading = ["import", "args", "dist_init", "weights", "kv_pool", "graph_capture"]
    assert names == [*loading, "http_bind", "warmup", "serving"]


def test_ready_with_speculation_asks_for_a_sample_and_soaks(host: Host) -> None:
    host.start(speculative=SPECULATIVE, start_s=0.3, accept_length=1.9)
    told = wait(host, soak=6)
    assert told["state"] == "ready"
    assert told["sampled_generation"]["seconds"] > 0
    assert told["soak"]["requests"] == 6
    assert told["speculative"]["most"] == 3
    assert 1.0 < told["speculative"]["accept_length"] <= 3
    assert "warning" not in told["speculative"]


def test_a_draft_that_is_never_right_is_a_warning(host: Host) -> None:
    host.start(speculative=SPECULATIVE, start_s=0.3, accept_length=1.0)
    told = wait(host)
    assert told["state"] == "ready"
    assert "hardly ever right" in told["speculative"]["warning"]


def test_a_server_that_was_ready_before(host: Host) -> None:
    host.start(start_s=0.3).wait_ready()
    assert wait(host)["state"] == "ready"


@pytest.mark.parametrize("phase", ["launch", "init", "weights", "kv", "capture", "http", "warmup"])
def test_a_crash_in_any_phase(host: Host, phase: str) -> None:
    host.start(start_s=0.5, crash=phase)
    told = wait(host)
    assert told["state"] == "failed"
    assert told["failure"]["cause"]["line"] in (
        "RuntimeError: stand-in fault: told to crash",
        "ModuleNotFoundError: No module named 'stand_in_fault'",
    )


def test_a_scheduler_is_killed_while_loading(host: Host) -> None:
    host.start(start_s=1.0, killed="weights")
    told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("failed", "child_sigkill")
    assert told["failure"]["phase"] == "weights"


@pytest.mark.parametrize("phase", ["weights", "capture"])
def test_what_a_scheduler_starts_may_end(host: Host, phase: str) -> None:
    # seen: SGLang 0.5.23 was said to have crashed when a program ended that its scheduler had started in the warm-up
    host.start(start_s=0.5, helper=phase)
    told = wait(host)
    assert (told["state"], told["failure"]) == ("ready", None)


def test_a_scheduler_of_059_is_killed_and_the_main_process_lives(host: Host) -> None:
    host.start("0.5.9", start_s=0.3)
    silence(host)
    later(0.5, lambda: os.kill(worker(host), signal.SIGKILL))
    told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("failed", "child_sigkill_zombie_service")
    assert told["waited_s"] < 10


def test_the_main_process_is_killed(host: Host) -> None:
    server = host.start(start_s=8.0)
    later(0.7, lambda: os.kill(server.pid, signal.SIGKILL))
    told = wait(host)
    assert told["state"] == "failed"
    assert told["failure"]["category"] == "child_sigkill"


def test_a_stop_that_was_asked_for(host: Host) -> None:
    server = host.start(start_s=8.0)
    later(0.7, lambda: os.kill(server.pid, signal.SIGTERM))
    told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("stopped", "stopped_by_request")


def test_the_port_belongs_to_another_program(host: Host) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        host.start(start_s=0.3, port=other.getsockname()[1])
        told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("failed", "http_port_in_use")


def test_the_port_belongs_to_another_server(host: Host, tmp_path: Path) -> None:
    """That one says "fired up" too, and answers for this one."""
    from tests.stand_in.running import StandIn

    with StandIn(tmp_path) as other:
        other.wait_ready()
        host.start(start_s=0.3, port=other.port)
        told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("failed", "http_port_in_use")


@pytest.mark.parametrize(("phase", "how"), [("init", "silent"), ("weights", "spin"), ("capture", "silent")])
def test_a_hang_in_a_phase(host: Host, phase: str, how: str) -> None:
    host.start(start_s=0.6, stall=phase, stall_how=how)
    told = wait(host, stall_timeout=4)
    assert told["state"] == "stalled"
    assert any("sglang::schedul" in line for line in told["failure"]["stacks"])


def test_health_that_is_all_talk(host: Host) -> None:
    host.start(start_s=0.3, health_only=True, warmup_s=0)
    told = wait(host, stall_timeout=1)
    assert told["state"] == "stalled"


def test_a_worker_that_is_stopped(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_STOPPED_S", 1.0)
    host.start(start_s=6.0)
    pid = worker(host)
    os.kill(pid, signal.SIGSTOP)
    try:
        told = wait(host)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (told["state"], told["failure"]["category"]) == ("stalled", "process_stopped")


def test_the_time_is_over(host: Host) -> None:
    host.start(start_s=60)
    told = wait(host, timeout=1, extend_while_progressing=False)
    assert told["state"] == "timeout"
    assert told["failure"]["phase"] in ("import", "args", "dist_init")


def test_the_time_is_extended_while_there_is_progress(host: Host) -> None:
    host.start(start_s=3)
    assert wait(host, timeout=1)["state"] == "ready"


def test_the_extension_has_an_end(host: Host) -> None:
    host.start(start_s=60)
    assert wait(host, timeout=1, max_timeout=2)["state"] == "timeout"


def test_nobody_waits_any_more(host: Host, tmp_path: Path) -> None:
    """The connection is gone: the wait ends, and what was made for it goes too."""
    host.start(start_s=30)
    folder = tmp_path / "ansible-tmp-1795984162.09-22576-175288581614190"
    folder.mkdir()
    reading, writing = os.pipe()
    later(0.7, lambda: os.close(reading))
    with pytest.raises(watch.Abandoned):
        ready.wait(host.runner, "demo", Options(hangup=writing), str(folder / "progress"))
    os.close(writing)
    assert not folder.exists()


def test_the_terminal_is_gone(host: Host, tmp_path: Path) -> None:
    host.start(start_s=30)
    folder = tmp_path / "ansible-tmp-1795984162.09-22576-175288581614190"
    folder.mkdir()
    later(0.7, lambda: os.kill(os.getpid(), signal.SIGHUP))
    with pytest.raises(watch.Abandoned, match="SIGHUP"):
        ready.wait(host.runner, "demo", Options(), str(folder / "progress"))
    assert not folder.exists()


def test_the_wait_costs_next_to_nothing(host: Host) -> None:
    """It asks systemd once, and sleeps."""
    host.start(start_s=3)
    told = wait(host)
    assert host.calls == 1
    assert told["cpu_s"] < told["waited_s"] / 2


def test_a_line_on_each_change_of_phase(host: Host, tmp_path: Path) -> None:
    host.start(start_s=1.0)
    ready.wait(host.runner, "demo", Options(timeout=30), str(tmp_path / "progress"))
    lines = (tmp_path / "progress").read_text().splitlines()
    assert all(line.startswith("demo ▸ ") for line in lines)
    assert any("weights" in line for line in lines)


def test_no_unit(host: Host) -> None:
    told = wait(host)
    assert (told["state"], told["failure"]["category"]) == ("failed", "not_running")


def test_alive(host: Host) -> None:
    host.start(start_s=0.3).wait_ready()
    assert live.alive(host.runner, "demo").state == live.ALIVE
    assert live.alive(host.runner, "demo", quiet_s=0).generation is not None


def test_a_dead_worker_is_found_at_once(host: Host) -> None:
    host.start("0.5.9", start_s=0.3).wait_ready()
    kill(worker(host))
    until = time.monotonic() + 2
    while live.alive(host.runner, "demo").state != live.DEAD:
        assert time.monotonic() < until
    assert "signal=KILL" in live.alive(host.runner, "demo").why


def test_a_server_that_does_not_generate_is_silent(host: Host) -> None:
    host.start(start_s=0.3)
    silence(host)
    found = live.alive(host.runner, "demo", quiet_s=0, patience_s=1)
    assert (found.state, found.category) == (live.SILENT, "no_generation")


def test_a_start_is_left_alone(host: Host) -> None:
    host.start(start_s=30)
    assert live.alive(host.runner, "demo").state == live.STARTING


def test_status_and_diagnosis(host: Host) -> None:
    host.start(start_s=0.3).wait_ready()
    told = live.status(host.runner, "demo")
    assert (told["verdict"], told["release"]) == ("ready", "0.5.23")
    found = live.diagnose(host.runner, "demo")
    assert found["verdict"] == "ready"
    assert any("sglang::schedul" in line for line in found["processes"])


def activated(host: Host, outcome: str) -> Path:
    """Activation 3 of the instance, from which its server was started; the file that holds its outcome."""
    folder = Path(host.instance.root) / "activations" / "3"
    folder.mkdir(parents=True)
    path = folder / "activation.json"
    path.write_text(json.dumps({"n": 3, "outcome": outcome}))
    record = host.logs / f"{INVOCATION}.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "activation": 3}))
    return path


@pytest.mark.parametrize("outcome", ["pending", "good", "failed"])
def test_check_mode_foretells_what_the_wait_notes(host: Host, outcome: str) -> None:
    """A server that systemd started runs an activation that is good, and nobody has seen this start of it."""
    host.start(start_s=1.0)
    path = activated(host, outcome)
    assert ready.look(host.runner, "demo")["changed"] is True
    assert ready.look(host.runner, "demo", mark=False)["changed"] is False
    assert wait(host)["changed"] is True
    assert json.loads(path.read_text())["outcome"] == "good"
    assert ready.look(host.runner, "demo")["changed"] is False
    assert wait(host)["changed"] is False


@pytest.mark.parametrize("outcome", ["pending", "good"])
def test_check_mode_foretells_a_failure(host: Host, outcome: str) -> None:
    host.start("0.5.9", start_s=0.3).wait_ready()
    path = activated(host, outcome)
    kill(worker(host))
    time.sleep(0.2)
    assert ready.look(host.runner, "demo")["changed"] is (outcome == "pending")
    assert wait(host)["changed"] is (outcome == "pending")
    assert json.loads(path.read_text())["outcome"] == ("failed" if outcome == "pending" else "good")
    assert ready.look(host.runner, "demo")["changed"] is False
