"""Servers as systemd runs them: put in force, stopped, crashed, broken, restored. The server is the stand-in."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import unit_host
from conftest import Play, Run

pytestmark = pytest.mark.sandbox

HOST = unit_host.HOST
BUILD = "stand-in-0.5.15-000000000000"
TRACEBACK = 'Traceback (most recent call last):\n  File "/x/loader.py", line 7, in load\n    read()\n'
READY = "The server is fired up and ready to roll!"


def sh(command: str) -> str:
    return unit_host.ssh(HOST, command)


def told(port: int, **keys: Any) -> None:
    """Tell the stand-in on a port what to do."""
    unit_host.ssh(HOST, f"cat > /etc/stand_in-{port}.json", json.dumps(keys).encode())


def show(name: str, *properties: str) -> list[str]:
    text = sh(f"systemctl show -p {','.join(properties)} sglang-{name}")
    found = dict(line.split("=", 1) for line in text.splitlines())
    return [found[key] for key in properties]


def wait(what: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer of ``what``; the test fails when none comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = what()
        if answer:
            return answer
        time.sleep(0.3)
    raise AssertionError(f"nothing came of {what} in {seconds} s")


def log(name: str) -> str:
    (invocation,) = show(name, "InvocationID")
    return sh(f"cat /var/log/sglang/{name}/{invocation}.log 2>/dev/null || true") if invocation else ""


def ready(name: str) -> None:
    wait(lambda: READY in log(name))


def record(name: str) -> dict[str, Any]:
    (invocation,) = show(name, "InvocationID")
    found: dict[str, Any] = json.loads(sh(f"cat /var/log/sglang/{name}/{invocation}.json"))
    return found


def stop_note(name: str) -> dict[str, Any]:
    note: dict[str, Any] = json.loads(sh(f"cat /run/sglang/{name}/stop.json"))
    return note


def processes() -> str:
    return sh("ps -eo user,ppid,args | grep -E 'sglang::|launch_server' | grep -v grep || true")


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    unit_host.up(HOST)
    return unit_host.put_build(HOST, BUILD, "0.5.15")


@pytest.fixture
def agent() -> Iterator[dict[str, str]]:
    """A clean host with the agent; what instances say of it, so that a checkout that moves on changes no test."""
    unit_host.clean(HOST)
    yield {"version": unit_host.put_agent(HOST)}
    unit_host.clean(HOST)


@pytest.fixture
def server(agent: dict[str, str], build: dict[str, Any], play: Play) -> Callable[..., Run]:
    """Runs the module on instances that are given by their differences from a plain one."""
    inventory = unit_host.inventory(HOST)

    def run(*instances: dict[str, Any], expect: str = "successful", check: bool = False, **options: Any) -> Run:
        described = [
            {"name": "a", "model_path": "/srv/models/tiny-llama", "port": 30010, "drain_timeout": 8,
             "restart_delay": 1, "build": build, "agent": agent, **instance}
            for instance in instances or [{}]
        ]  # fmt: skip
        done = play(
            "tests/integration/unit_server.yml", inventory=inventory, check=check, instances=described, **options
        )
        assert done.status == expect, done.stdout
        return done

    return run


Server = Callable[..., Run]


def result(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.results(HOST, "sglang_server")[-1]
    return found


def one(run: Run) -> dict[str, Any]:
    server: dict[str, Any] = result(run)["servers"][0]
    return server


def test_the_ladder(server: Server) -> None:
    foretold = result(server(check=True))
    assert foretold["changed"]
    assert processes() == ""
    first = one(server())
    ready("a")
    assert first["activation"] == 1
    assert show("a", "ActiveState", "UnitFileState") == ["active", "enabled"]
    argv = sh(f"tr '\\0' '\\n' < /proc/{first['main_pid']}/cmdline").split("\n")[:-1]
    assert [word for word in argv if not word.startswith("--nccl-port=")] == first["argv"]
    again = server()
    assert not result(again)["changed"]
    assert one(again)["main_pid"] == first["main_pid"]
    # by hand: a flag in the unit, a variable; nothing that runs depends on it yet
    sh(
        "sed -i 's/--port=30010/--port=30011/' /etc/systemd/system/sglang-a.service"
        " && echo 'X=\"1\"' >> /etc/sglang/a.env"
    )
    drift = server(check=True)
    assert {part["before_header"].rpartition("/")[2] for part in result(drift)["diff"]} == {
        "sglang-a.service", "a.env"
    }  # fmt: skip
    assert one(drift)["restart_reasons"] == []
    repaired = server()
    assert one(repaired)["main_pid"] == first["main_pid"]
    assert not result(server())["changed"]
    # restarted by hand between the edit and the repair: now the process has it
    sh("sed -i 's/--host=127.0.0.1/--host=127.0.0.2/' /etc/systemd/system/sglang-a.service")
    sh("systemctl daemon-reload && systemctl restart sglang-a")
    drift = server(check=True)
    assert one(drift)["restart_reasons"] == ["option --host: it runs with '127.0.0.2'; wanted with '127.0.0.1'"]
    server()
    ready("a")
    assert not result(server())["changed"]
    gone = server(state="absent")
    assert result(gone)["changed"]
    assert processes() == ""
    assert sh("ls /etc/sglang /etc/systemd/system | grep -E '^(a\\.|sglang-a)' || true") == ""
    assert not result(server(state="absent"))["changed"]


def test_a_requested_stop_is_no_failure_and_a_crash_is_followed_by_a_start(server: Server) -> None:
    server()
    ready("a")
    (pid, restarts) = show("a", "MainPID", "NRestarts")
    sh(f"kill -KILL {pid}")
    wait(lambda: int(show("a", "NRestarts")[0]) > int(restarts))
    wait(lambda: show("a", "MainPID")[0] not in ("0", pid))
    ready("a")
    assert sh("cat /run/sglang/a/stop.json || true") == ""
    server(state="stopped")
    assert show("a", "ActiveState", "Result") == ["inactive", "success"]
    note = stop_note("a")
    assert note["how"] == "drained"
    assert note["left"] == []
    assert processes() == ""
    assert not result(server(state="stopped"))["changed"]


@pytest.mark.parametrize(
    ("keys", "before", "how", "bound"),
    [
        ({"stall": "weights"}, "Init torch distributed ends", "killed: it was not ready yet", 6),
        ({"warmup_s": 60, "stall": "warmup"}, "Uvicorn running", "killed: it was not ready yet", 6),
        ({"ignore_sigterm": True}, READY, "killed: requests were still running after 8 s", 16),
        ({"drain_s": 60}, READY, "killed: requests were still running after 8 s", 16),
    ],
    ids=["loading", "warming-up", "deaf", "long-request"],
)
def test_every_stop_ends_within_its_bound(
    server: Server, keys: dict[str, Any], before: str, how: str, bound: float
) -> None:
    told(30010, **keys)
    server()
    wait(lambda: before in log("a"))
    began = time.monotonic()
    sh("systemctl stop sglang-a")
    assert time.monotonic() - began < bound
    assert show("a", "ActiveState", "Result") == ["inactive", "success"]
    assert stop_note("a")["how"] == how
    assert stop_note("a")["left"] == []
    assert processes() == ""


def test_a_server_with_a_dead_scheduler_is_not_waited_for(server: Server, build: dict[str, Any]) -> None:
    older = unit_host.put_build(HOST, "stand-in-0.5.9-000000000000", "0.5.9")
    server({"build": older})
    ready("a")
    sh("pkill -KILL -f sglang::scheduler")
    wait(lambda: "defunct" in sh("ps -eo args | grep sglang::sched | grep -v grep || true"))
    sh("systemctl stop sglang-a")
    assert stop_note("a")["how"].startswith("killed: its child sglang::")
    assert show("a", "ActiveState") == ["inactive"]
    assert processes() == ""


def test_orphans_of_a_dead_main_process_go_with_it(server: Server) -> None:
    server()
    ready("a")
    sh("systemctl stop sglang-a")
    assert processes() == ""
    assert sh("find /proc -maxdepth 2 -name comm -exec grep -l '^sglang' {} + 2>/dev/null || true") == ""


def test_the_breaker_keeps_a_wrong_configuration_down(server: Server) -> None:
    told(
        30010,
        crash="weights",
        crash_text=TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
    )
    server()
    wait(lambda: show("a", "Result")[0] == "exec-condition")
    assert show("a", "ActiveState") == ["inactive"]
    logs = sh("ls /var/log/sglang/a/*.log").split()
    assert len(logs) == 2
    status = sh("systemctl status --no-pager --lines=20 sglang-a || true")
    assert "not started again" in status
    assert "out of memory" in status
    # not by hand: it would die the same way; cured, a start that is asked for is tried
    sh("systemctl start sglang-a")
    assert show("a", "ActiveState") == ["inactive"]
    told(30010)
    sh(status.partition("'python3 ")[2].partition("'")[0].join(["python3 ", ""]))
    ready("a")


def test_what_may_heal_is_tried_again(server: Server) -> None:
    told(30010, crash="weights", crash_text=TRACEBACK + "OSError: [Errno 5] Input/output error: '/m/17.safetensors'")
    server()
    wait(lambda: len(sh("ls /var/log/sglang/a/*.log").split()) >= 3, 90)
    told(30010)
    wait(lambda: READY in log("a"), 120)


def test_a_bad_activation_is_followed_by_the_last_good_one(server: Server) -> None:
    server({"args": {"max_total_tokens": 1000}})
    ready("a")
    sh('sed -i \'s/"outcome": "pending"/"outcome": "good"/\' /opt/sglang/a/activations/1/activation.json')
    bad = one(server({"args": {"max_total_tokens": 2000}}))
    assert bad["activation"] == 2
    restored = one(server({"args": {"max_total_tokens": 2000}}, state="restored"))
    ready("a")
    assert (restored["activation"], restored["outcome"]) == (3, "restored")
    assert "--max-total-tokens=1000" in sh(f"tr '\\0' ' ' < /proc/{restored['main_pid']}/cmdline")
    assert json.loads(sh("cat /opt/sglang/a/activations/2/activation.json"))["outcome"] == "failed"


def test_two_instances_do_not_disturb_each_other(server: Server) -> None:
    both = [{"name": "a"}, {"name": "b", "port": 30020}]
    server(*both)
    ready("a")
    ready("b")
    (other,) = show("b", "MainPID")
    server({"name": "a", "args": {"max_total_tokens": 5}}, both[1])
    ready("a")
    assert show("b", "MainPID") == [other]
    ports = [word for name in "ab" for word in record(name)["added"]]
    assert len(ports) == len(set(ports)) == 2
    server(both[0], state="stopped")
    assert show("b", "MainPID") == [other]


def test_one_that_fails_leaves_no_other_half_done(server: Server) -> None:
    # a unit that may write where there is nothing does not start
    failing = {"name": "a", "writable_paths": ["/not/there"]}
    failed = server(failing, {"name": "b", "port": 30020}, expect="failed")
    assert "sglang-a.service" in failed.failure(HOST)
    ready("b")
    told = result(failed)
    assert [entry["name"] for entry in told["failures"]] == ["a"]
    assert [entry["name"] for entry in told["servers"]] == ["b"]
    # described wrongly, which is known before anything is touched
    server({"name": "a", "args": {"tp_sise": 1}}, {"name": "b", "port": 30020}, expect="failed")
    refused = server({"name": "a", "run_as": "nobody-there"}, {"name": "b", "port": 30020}, expect="failed")
    assert "run_as is 'nobody-there', and this host has no such user" in refused.failure(HOST)
    # and it is no obstacle to a stop
    server({"name": "a", "args": {"tp_sise": 1}}, {"name": "b", "port": 30020}, state="stopped")
    assert show("b", "ActiveState") == ["inactive"]


def test_agents_that_nothing_names_are_removed(server: Server, agent: dict[str, str]) -> None:
    sh("touch /opt/sglang/agent/0000000000000000.pyz")
    server()
    assert sh("ls /opt/sglang/agent").split() == [f"{agent['version']}.pyz"]


@pytest.fixture
def by_hand(agent: dict[str, str]) -> Iterator[Callable[[str], None]]:
    """Starts a server as a person would, with nohup; it is gone when the test is over, whatever became of it."""

    def start(command: str) -> None:
        folder, dummy, rest = command.partition("; ")
        sh(f"{folder}; setsid nohup {rest} </dev/null >/tmp/nohup.log 2>&1 & echo $! > /tmp/nohup.pid")

    yield start
    sh("kill -KILL -$(cat /tmp/nohup.pid) 2>/dev/null || true")


def test_a_server_started_by_hand_is_shown_refused_and_taken_over(
    server: Server, by_hand: Callable[[str], None]
) -> None:
    python = f"/opt/sglang/builds/{BUILD}.1/bin/python"
    command = f"{python} -m sglang.launch_server --model-path /srv/models/tiny-llama --port 30010 --api-key sk-planted"
    by_hand(f"cd /tmp; {command}")
    wait(lambda: READY in sh("cat /tmp/nohup.log"))
    foretold = server(check=True)
    (stranger,) = one(foretold)["adopted"]
    assert stranger["command"].endswith("--api-key ********")
    refused = server(expect="failed")
    message = refused.failure(HOST)
    assert f"pid {stranger['pid']}" in message
    assert "-e adopt=true" in message
    assert "planted" not in refused.stdout + foretold.stdout
    assert f"{stranger['pid']}" in sh("pgrep -f 'launch_server --model-path'")
    server(adopt=True)
    ready("a")
    assert "--api-key" not in processes()
    assert not result(server())["changed"]


def test_a_second_run_is_refused_while_a_run_holds_the_lease(server: Server) -> None:
    server()
    lease = {"id": "elsewhere/1/1", "controller": "elsewhere", "expires_at": time.time() + 600}
    unit_host.ssh(HOST, "cat > /opt/sglang/a/lease.json", json.dumps(lease).encode())
    refused = server({"args": {"max_total_tokens": 7}}, expect="failed")
    assert "elsewhere/1/1" in refused.failure(HOST)
    assert "/opt/sglang/a/lease.json" in refused.failure(HOST)
    # a run of this very controller that is over is no obstacle
    own = json.loads(sh("cat /opt/sglang/a/lease.json"))
    import socket

    own.update(id=f"{socket.gethostname()}/4194303/1", controller=socket.gethostname())
    unit_host.ssh(HOST, "cat > /opt/sglang/a/lease.json", json.dumps(own).encode())
    server({"args": {"max_total_tokens": 7}})


def test_no_key_is_anywhere_but_in_its_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_DIFF_ALWAYS", "true")
    keys = {"api_key": "sk-Planted1", "admin_api_key": "ak-Planted2", "secret_env": {"HF_TOKEN": "hf-Planted3"}}
    told(30010)
    runs = [
        server(keys, check=True, verbosity=4),
        server(keys, verbosity=4),
        server({**keys, "api_key": "sk-Planted4"}, verbosity=4),
        server({**keys, "args": {"tp_sise": 1}}, verbosity=4, expect="failed"),
    ]
    for run in runs:
        assert "Planted" not in run.stdout
        for path in run.artifacts.rglob("*"):
            assert not path.is_file() or "Planted" not in path.read_text(errors="replace"), path
    ready("a")
    assert "Planted" not in sh("journalctl --no-pager; ps -eo args; systemctl status --no-pager sglang-a; "
                               "cat /etc/systemd/system/sglang-a.service /etc/sglang/a.env /opt/sglang/a/lease.json "
                               "/var/log/sglang/a/*.json /run/sglang/a/*")  # fmt: skip
    open_files = sh(
        "find /etc /run /opt/sglang /var/lib/sglang /tmp -xdev -type f -perm /o+r "
        "-exec grep -l Planted {} + 2>/dev/null || true"
    )
    assert open_files == ""
    assert shlex.split(sh("stat -c '%a' /etc/sglang/a.secrets.yaml /etc/sglang/a.secret.env")) == ["640", "600"]


def test_a_unit_between_two_attempts_is_stopped_for_good(server: Server) -> None:
    """``systemctl stop`` on a unit that waits for its next start must not leave the loop running."""
    told(30010, crash="weights", crash_text=TRACEBACK + "OSError: [Errno 5] Input/output error: '/m/17.safetensors'")
    server({"restart_delay": 30})
    wait(lambda: show("a", "SubState") == ["auto-restart"])
    stopped = server({"restart_delay": 30}, state="stopped")
    assert result(stopped)["changed"]
    assert show("a", "ActiveState") == ["inactive"]
    time.sleep(2)
    assert show("a", "ActiveState") == ["inactive"]


def test_a_server_that_lost_its_scheduler_is_restarted_by_the_look_at_it(server: Server, build: dict[str, Any]) -> None:
    """0.5.9 answers on for ever when its scheduler is dead; nothing but a look from outside ends that."""
    older = unit_host.put_build(HOST, "stand-in-0.5.9-000000000000", "0.5.9")
    looked_at = {"build": older, "liveness_interval": 3}
    server(looked_at)
    ready("a")
    assert sh("systemctl is-active sglang-a-liveness.timer").strip() == "active"
    (pid,) = show("a", "MainPID")
    sh("pkill -KILL -f sglang::scheduler")
    wait(lambda: show("a", "MainPID")[0] not in ("0", pid), 120)
    ready("a")
    assert "is dead and is restarted" in sh("journalctl --no-pager -u sglang-a-liveness.service")
    # the timer comes and goes without touching the server
    (pid,) = show("a", "MainPID")
    server({"build": older})
    assert sh("systemctl is-active sglang-a-liveness.timer || true").strip() == "inactive"
    server(looked_at)
    assert sh("systemctl is-active sglang-a-liveness.timer").strip() == "active"
    assert show("a", "MainPID") == [pid]
    server(looked_at, state="stopped")
    assert sh("systemctl is-active sglang-a-liveness.timer || true").strip() == "inactive"


def test_the_command_line_on_the_host(server: Server, agent: dict[str, str]) -> None:
    server()
    ready("a")
    command = f"/opt/sglang/agent/{agent['version']}.pyz"
    status = sh(f"python3 {command} status")
    assert status.startswith("a: active")
    assert "0.5.15" in status
    assert "http://127.0.0.1:30010" in status
    assert sh(f"python3 {command} diagnose a").startswith("a: ready (none)")


def test_another_build_is_a_reason(server: Server, build: dict[str, Any]) -> None:
    first = one(server())
    ready("a")
    unit_host.put_build(HOST, BUILD, "0.5.15", number=2)
    try:
        reason, *others = one(server(check=True))["restart_reasons"]
        assert all("PATH" in other for other in others)
        assert f"{BUILD}.1; wanted is /opt/sglang/builds/{BUILD}.2" in reason
        second = one(server())
        assert second["main_pid"] != first["main_pid"]
        assert sh("readlink /opt/sglang/a/current").strip().endswith(".2")
        assert not result(server())["changed"]
    finally:
        sh(f"rm -rf /opt/sglang/builds/{BUILD}.2")


IN_PLACE = {
    "mode": "in_place", "python": "/root/ml-env/bin/python", "source": "/root/sglang", "run_as": "root",
    "build": None, "args": {"tp_size": 1},
}  # fmt: skip


@pytest.fixture
def own_environment(agent: dict[str, str]) -> Iterator[None]:
    """A venv and an editable checkout of one's own, with an edit made by sed."""
    sh("rm -rf /root/ml-env /root/sglang; mkdir -p /root/sglang/python; python3 -m venv --without-pip /root/ml-env")
    sh("cd /root/sglang/python && python3 -m zipfile -e /tmp/stand_in.whl . && sed -i '1i # by hand' sglang/version.py"
       " && echo /root/sglang/python > $(ls -d /root/ml-env/lib/python3*/site-packages)/editable.pth")  # fmt: skip
    yield
    sh("rm -rf /root/ml-env /root/sglang")


def test_an_environment_in_place(server: Server, own_environment: None) -> None:
    """It runs as root where the paths demand it; an edit of a source is a reason to restart."""
    first = one(server(IN_PLACE))
    ready("a")
    assert first["argv"][0] == "/root/ml-env/bin/python"
    assert sh(f"stat -c %U /proc/{first['main_pid']}").strip() == "root"
    assert not result(server(IN_PLACE))["changed"]
    refused = server({**IN_PLACE, "args": {"tp_sise": 1}}, expect="failed")
    assert "did you mean '--tp-size'?" in refused.failure(HOST)
    sh("sleep 1; echo >> /root/sglang/python/sglang/version.py")
    drift = one(server(IN_PLACE, check=True))
    assert drift["restart_reasons"] == ["/root/sglang/python/sglang/version.py was edited since it was started"]
    assert one(server(IN_PLACE))["main_pid"] != first["main_pid"]
    ready("a")
    assert not result(server(IN_PLACE))["changed"]


def test_a_server_by_hand_from_an_environment_in_place(
    server: Server, own_environment: None, by_hand: Callable[[str], None]
) -> None:
    command = "/root/ml-env/bin/python -m sglang.launch_server --model-path /srv/models/tiny-llama --port=30010"
    by_hand(f"cd /root; {command}")
    wait(lambda: READY in sh("cat /tmp/nohup.log"))
    assert "-e adopt=true" in server(IN_PLACE, expect="failed").failure(HOST)
    assert "--model-path /srv" in processes()
    server(IN_PLACE, adopt=True)
    ready("a")
    assert "--model-path /srv" not in processes()
    assert not result(server(IN_PLACE))["changed"]
