"""Draining GPUs: real processes that hold a file which stands for a GPU, a driver whose words the test gives."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import hiding, procfs
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import drain as draining
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import ending, facts, holders, leftovers, smi
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.drain import Wish, drain
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.holders import Holder
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed

IDLE = (Path(__file__).resolve().parents[2] / "fixtures" / "nvidia" / "nvidia-smi-q.xml").read_text()
UUID = "GPU-11111111-2222-3333-4444-555555555555"
ME = pwd.getpwuid(os.getuid()).pw_name

HOLD = """
import signal, sys, time
held = open(sys.argv[1])
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
# a server: the main process does not hold the GPU; its rank does, and takes no signal of its own for an order
SERVE = """
import signal, subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-c", sys.argv[3], sys.argv[1], "stubborn", "sglang::scheduler"],
                        stdout=subprocess.PIPE, text=True)
rank.stdout.readline()
def drained(*_):
    open(sys.argv[2], "w").write("drained")
    rank.kill()
    rank.wait()
    sys.exit(0)
signal.signal(signal.SIGTERM, drained)
print("ready", flush=True)
while True:
    time.sleep(1)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (folder / name).touch()
    return folder


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program and waits until it is ready; ends what the test left."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class Driver:
    """nvidia-smi and systemctl as a runner: each query prints the next of the given uses of memory (MiB)."""

    def __init__(self, *used: int, processes: Sequence[tuple[int, str]] = (), active: Sequence[str] = ()) -> None:
        self.used = list(used)
        self.processes, self.active = list(processes), list(active)

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        if argv[0] == "systemctl":
            states = ("active" if unit in self.active else "inactive" for unit in argv[4:])
            return Completed(0, "\n\n".join(f"ActiveState={state}" for state in states), "")
        if "-q" not in argv:
            return Completed(0, "", "")
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        listed = "".join(
            f"<process_info><pid>{pid}</pid><process_name>{name}</process_name><used_memory>900 MiB</used_memory>"
            "</process_info>"
            for pid, name in self.processes
        )
        text = IDLE.replace("<used>0 MiB</used>", f"<used>{used} MiB</used>", 1)
        head, mark, tail = text.partition("<processes>")
        return Completed(0, head + mark + listed + tail, "")


def wish(**more: Any) -> Wish:
    return Wish(**{"users": (ME,), "term_timeout": 5.0, "memory_timeout": 0.0, "homes": (), **more})


def run(wanted: Wish, driver: Driver, dev: Path, check_mode: bool = False) -> draining.Drained:
    return drain(wanted, driver, check_mode, dev=str(dev), shm=str(dev / "no-shm"), sleep=lambda dummy: None)


def test_a_holder_is_ended_politely(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "")
    foretold = run(wish(), Driver(900), dev, check_mode=True)
    assert [entry["pid"] for entry in foretold.ended] == [process.pid] and process.poll() is None
    done = run(wish(), Driver(900, 0), dev)
    assert process.wait(5) == -signal.SIGTERM
    (ended,) = done.ended
    assert ended["pid"] == process.pid and ended["signal"] == "TERM" and ended["user"] == ME
    assert done.freed_bytes == 900 << 20
    assert done.plan.changed and done.plan.to_list()[0]["before"] == ended["cmd"]
    again = run(wish(), Driver(0), dev)
    assert not again.plan.changed and again.ended == [] and again.freed_bytes == 0


def test_the_control_node_alone_is_no_use_of_a_gpu(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidiactl"), "")
    assert run(wish(), Driver(0), dev).ended == [] and process.poll() is None


def test_a_stubborn_holder_is_killed_after_the_bound(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "stubborn")
    done = run(wish(term_timeout=0.2), Driver(0), dev)
    assert process.wait(5) == -signal.SIGKILL
    assert [entry["signal"] for entry in done.ended] == ["KILL"]


def test_a_stopped_holder_is_killed(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "")
    process.send_signal(signal.SIGSTOP)
    done = run(wish(term_timeout=0.2), Driver(0), dev)
    assert process.wait(5) == -signal.SIGKILL and done.ended[0]["signal"] == "KILL"


def test_a_server_is_asked_through_its_main_process(dev: Path, start: Start, tmp_path: Path) -> None:
    """A signal to a rank is taken for a crash and cuts running requests; one to the main process drains."""
    proof = tmp_path / "proof"
    server = start(SERVE, str(dev / "nvidia0"), str(proof), HOLD, "sglang.launch_server")
    done = run(wish(), Driver(0), dev)
    assert server.wait(5) == 0 and proof.read_text() == "drained"
    assert {entry["signal"] for entry in done.ended} == {"TERM"}
    assert server.pid in [entry["pid"] for entry in done.ended] and len(done.ended) == 2


def test_a_server_that_does_not_drain_goes_with_all_its_ranks(dev: Path, start: Start, tmp_path: Path) -> None:
    server = start(SERVE, str(dev / "nvidia0"), str(tmp_path / "proof"), HOLD, "sglang.launch_server")
    ranks = [child.pid for child in procfs.descendants(server.pid)]
    server.send_signal(signal.SIGSTOP)
    done = run(wish(term_timeout=0.2), Driver(0), dev)
    assert server.wait(5) == -signal.SIGKILL
    assert {entry["pid"] for entry in done.ended} == {server.pid, *ranks}
    assert all((process := procfs.read(pid)) is None or process.state == "Z" for pid in ranks)


def test_what_may_not_be_ended_is_named_and_nothing_is_ended(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "--api-key", "planted-secret")
    with pytest.raises(InferopsError) as raised:
        run(wish(users=("somebody",)), Driver(900), dev)
    assert process.poll() is None
    assert f"pid {process.pid}" in raised.value.message and f"belongs to user {ME}" in raised.value.message
    assert raised.value.result["held_by"][0]["pid"] == process.pid and raised.value.result["ended"] == []
    assert "planted-secret" not in raised.value.message + repr(raised.value.result)
    with pytest.raises(InferopsError):
        run(wish(users=("somebody",)), Driver(900), dev, check_mode=True)  # check mode foretells the refusal
    run(wish(users=(), force=True), Driver(0), dev)
    assert process.wait(5) == -signal.SIGTERM


def test_only_the_named_gpus(dev: Path, start: Start) -> None:
    """GPU 0 has minor number 0: a process on nvidia1 is left alone."""
    ours, other = start(HOLD, str(dev / "nvidia0"), ""), start(HOLD, str(dev / "nvidia1"), "")
    for named in ("0", UUID):
        done = run(wish(gpus=(named,)), Driver(0), dev)
        assert other.poll() is None
    assert ours.wait(5) == -signal.SIGTERM and done.ended == []
    with pytest.raises(InferopsError, match=r"there is no GPU '7' here; this host has 0 \(GPU-1111"):
        run(wish(gpus=("7",)), Driver(0), dev)


def test_memory_is_waited_for(dev: Path, start: Start) -> None:
    start(HOLD, str(dev / "nvidia0"), "")
    driver = Driver(90_000, 90_000, 40_000, 3)
    done = run(wish(memory_timeout=60.0), driver, dev)
    assert driver.used == [3] and done.freed_bytes == (90_000 - 3) << 20


def test_memory_that_does_not_come_back_is_held_outside(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "")
    with pytest.raises(InferopsError, match="GPU 0 90000 MiB still in use.*held outside this container") as raised:
        run(wish(), Driver(90_000), dev)
    assert process.wait(5) == -signal.SIGTERM
    assert raised.value.result["held_elsewhere"][0]["gpu"] == 0 and len(raised.value.result["ended"]) == 1


def test_a_stranger_outside_is_named_at_once(dev: Path) -> None:
    driver = Driver(90_000, processes=[(4_194_000, "python3")])
    assert run(wish(), driver, dev, check_mode=True).held_elsewhere == [
        {"gpu": 0, "pid": 4_194_000, "name": "python3", "memory_used": 900 << 20}
    ]
    with pytest.raises(InferopsError, match="by pids 4194000 there"):
        run(wish(memory_timeout=3600.0), driver, dev)  # there is nothing to wait for


def test_our_own_process_under_the_hypervisors_pid_is_no_stranger(dev: Path, start: Start) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "")
    driver = Driver(900, processes=[(4_194_000, "python3")])
    assert run(wish(), driver, dev, check_mode=True).held_elsewhere == []
    gpu = facts.query(driver)["gpus"]
    facts.attach_processes(gpu, str(dev))
    assert [entry["pid"] for entry in gpu[0]["processes"]] == [process.pid] and gpu[0]["held_elsewhere"] == []


def test_a_holder_that_is_started_again_is_said(dev: Path, start: Start) -> None:
    start(HOLD, str(dev / "nvidia0"), "")

    class Restarting(Driver):
        def __call__(self, argv: Sequence[str], **more: Any) -> Completed:
            if "-q" in argv and len(self.used) == 1:
                self.used.append(0)
                start(HOLD, str(dev / "nvidia0"), "")
            return super().__call__(argv, **more)

    with pytest.raises(InferopsError, match="held again by pid .*something starts it anew"):
        run(wish(), Restarting(0, 0), dev)


# --- whom it may end ------------------------------------------------------------------------------------------------


def holder(**more: Any) -> Holder:
    base: dict[str, Any] = {"pid": 42, "started": 1, "ppid": 1, "name": "python3", "state": "S", "uid": 1000}
    return Holder(**{**base, "user": "alice", "unit": None, "cmd": "python3", "paths": (), **more})


@pytest.mark.parametrize(
    ("who", "wanted", "running", "reason"),
    [
        (holder(), wish(users=("alice",)), (), None),
        (holder(), wish(users=("bob",)), (), "belongs to user alice"),
        (holder(unit="docker.service"), wish(users=("alice",)), (), "belongs to docker.service"),
        (holder(unit="docker.service"), wish(users=(), force=True), (), None),
        (holder(unit="sglang-kimi.service"), wish(units=("sglang-*.service",)), (), None),
        (holder(unit="sglang-kimi.service"), wish(units=("sglang-kimi",)), (), None),
        (holder(unit="sglang-kimi.service"), wish(users=("alice",)), (), "belongs to sglang-kimi.service"),
        (
            holder(unit="sglang-kimi.service"),
            wish(units=("sglang-*.service",)),
            ("sglang-kimi.service",),
            "belongs to sglang-kimi.service, which is running: stop that unit first",
        ),
        (holder(unit="ssh.service"), wish(users=("alice",)), ("ssh.service",), None),
        (holder(unit="user@1000.service"), wish(users=("alice",)), (), None),
    ],
)
def test_whom_it_may_end(who: Holder, wanted: Wish, running: Sequence[str], reason: str | None) -> None:
    assert draining.why_not(who, wanted, running, ancestors=()) == reason


def test_never_its_own_ancestors() -> None:
    assert os.getppid() in draining._ancestors()
    assert "ancestor" in (draining.why_not(holder(), wish(force=True), (), ancestors={42}) or "")


def test_servants_of_the_driver_are_no_holders() -> None:
    assert holders.is_servant(holder(name="nvidia-persiste")) and holders.is_servant(holder(name="nv-hostengine"))
    assert not holders.is_servant(holder(name="nvtop"))


def test_a_pid_that_is_another_process_now_gets_no_signal(start: Start, dev: Path) -> None:
    process = start(HOLD, str(dev / "nvidia0"), "")
    found = holders.describe(process.pid)
    assert found is not None
    assert ending.grip([Holder(**{**found.__dict__, "started": found.started - 1})]) == {}
    gripped = ending.grip([found])
    assert list(gripped.values()) == [found]
    os.close(next(iter(gripped)))
    process.kill()
    process.wait()
    assert ending.grip([found]) == {}


def test_ending_waits_no_longer_than_it_must(start: Start, dev: Path) -> None:
    found = [holders.describe(start(HOLD, str(dev / "nvidia0"), "").pid) for dummy in range(3)]
    before = time.monotonic()
    ended, immortal = ending.end([entry for entry in found if entry], term_timeout=600.0, kill_timeout=1.0)
    assert len(ended) == 3 and immortal == [] and time.monotonic() - before < 300


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["s", "--api-key", "x", "--port", "1"], ["s", "--api-key", "********", "--port", "1"]),
        (["s", "--admin-api-key=x"], ["s", "--admin-api-key=********"]),
        (["HF_TOKEN=x", "--ssl-keyfile-password", "x"], ["HF_TOKEN=********", "--ssl-keyfile-password", "********"]),
        (
            ["--tokenizer-path", "/m", "--max-total-tokens", "9", "--ssl-keyfile", "/k"],
            ["--tokenizer-path", "/m", "--max-total-tokens", "9", "--ssl-keyfile", "/k"],
        ),
    ],
)
def test_secrets_in_command_lines_are_hidden(words: list[str], shown: list[str]) -> None:
    assert hiding.redacted(words) == shown


# --- what dead servers leave ----------------------------------------------------------------------------------------

MAPPED = """
import mmap, sys
f = open(sys.argv[1], "r+b")
m = mmap.mmap(f.fileno(), 0)
f.close()
print("ready", flush=True)
import time; time.sleep(600)
"""


@pytest.fixture
def remains(tmp_path: Path) -> dict[str, Path]:
    shm, state = tmp_path / "shm", tmp_path / "state"
    paths = {
        "nccl": shm / "nccl-abc123",
        "segment": shm / "psm_deadbeef",
        "semaphore": shm / "sem.mp-x1",
        "foreign": shm / "postgres.1",
        "flashinfer": state / "kimi/.cache/flashinfer/0.6.12/120f/cached_ops/tmp/norm.lock",
        "baton": state / "kimi/.cache/torch_extensions/py312_cu130/ext/lock",
        "source": state / "kimi/.cache/flashinfer/0.6.12/120f/generated/norm.cu",
        "model": state / "kimi/models/shard.lock",
    }
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 4096)
    return paths


def left_over(remains: dict[str, Path], uids: Sequence[int]) -> set[str]:
    shm, state = str(remains["nccl"].parent), str(remains["model"].parents[2])
    names = {str(path): name for name, path in remains.items()}
    return {names[entry.path] for entry in leftovers.find([state], uids, shm)}


ALL = {"nccl", "segment", "semaphore", "flashinfer", "baton"}


def test_what_nobody_has_open_is_left_over(remains: dict[str, Path]) -> None:
    assert left_over(remains, [os.getuid()]) == ALL
    assert left_over(remains, [os.getuid() + 1]) == set()  # somebody else's


def test_what_is_open_or_mapped_is_not(remains: dict[str, Path], start: Start) -> None:
    lock = start(HOLD, str(remains["flashinfer"]), "")
    mapped = start(MAPPED, str(remains["segment"]))
    assert left_over(remains, [os.getuid()]) == ALL - {"flashinfer", "segment"}
    for process in (lock, mapped):
        process.kill()
        process.wait()
    assert left_over(remains, [os.getuid()]) == ALL


def test_a_drain_clears_them_and_says_so(remains: dict[str, Path], dev: Path) -> None:
    wanted = wish(homes=(str(remains["model"].parents[2]),))
    shm = str(remains["nccl"].parent)
    foretold = drain(wanted, Driver(0), True, dev=str(dev), shm=shm)
    assert all(path.exists() for path in remains.values())
    done = drain(wanted, Driver(0), False, dev=str(dev), shm=shm)
    assert done.cleaned == foretold.cleaned and len(done.cleaned) == len(ALL) and done.plan.changed
    assert {name for name, path in remains.items() if not path.exists()} == ALL
    assert not drain(wanted, Driver(0), False, dev=str(dev), shm=shm).plan.changed
    assert drain(wish(clean=False), Driver(0), True, dev=str(dev), shm=shm).cleaned == []


def test_fixture_is_what_the_parser_reads() -> None:
    (gpu,) = smi.parse_query(Driver(5, processes=[(7, "x")])(["nvidia-smi", "-q", "-x"]).stdout)["gpus"]
    assert gpu["memory_used"] == 5 << 20 and gpu["processes"][0]["pid"] == 7
