"""Real SGLang servers that start, die, hang and are held up, and what ``sglang_ready`` says of each.

One host with servers of three releases (``ready/hosts.yml``), deployed first. A fault is a drop-in of the unit: another
option, another file in the build's place, a limit, a variable. Each server is stopped and its drop-in gone at the end.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import unit_host
from conftest import ROOT, Play

pytestmark = pytest.mark.sandbox

HOST = "ready1"
INVENTORY = "tests/integration/ready/hosts.yml"
RELEASES = {"r9": "0.5.9", "r15": "0.5.15", "r23": "0.5.23"}
ALL = pytest.mark.parametrize("name", list(RELEASES))
SITE = "lib/python3.11/site-packages/sglang/srt"


def sh(command: str) -> str:
    return unit_host.ssh(HOST, command)


# Asks, on the host and through what the agent carries, until it says that the server is dead.
LOOK = """
import sys, time
sys.path.insert(0, "AGENT")
from agent.running import run
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import live
began = time.time()
while (life := live.alive(run, "r9")).state != live.DEAD and time.time() < began + 30:
    time.sleep(0.05)
print(time.time() - began, life.state, life.category)
"""
# Put before a model's own method of that name: the weights never load.
SPIN = """    def load_weights(self, weights):
        while True:
            pass

    def _load_weights_before(self"""


@pytest.fixture(scope="module", autouse=True)
def servers() -> None:
    """The three servers, deployed and stopped."""
    sandbox = [sys.executable, "-m", "tests.sandbox", "up", HOST]
    subprocess.run(sandbox, check=True, cwd=ROOT, capture_output=True)
    deployed = set(sh("ls /etc/systemd/system").split())
    if not {f"sglang-{name}.service" for name in RELEASES} <= deployed:
        argv = [str(ROOT / ".venv/bin/ansible-playbook"), "deploy.yml", "-i", INVENTORY]
        subprocess.run(argv, check=True, cwd=ROOT)
    for name in RELEASES:
        sh(f"systemctl stop sglang-{name}")


class Server:
    """One of them, with what is changed about it for a test."""

    def __init__(self, name: str, play: Play) -> None:
        self.name, self.unit, self._play = name, f"sglang-{name}.service", play
        shown = sh(f"systemctl show -p ExecStart --value {self.unit}")
        self.root = shown.split("path=", 1)[1].split("/bin/python", 1)[0]
        self.told: dict[str, Any] = {}

    def change(self, *lines: str, options: dict[str, str] | None = None) -> None:
        """A drop-in with these lines, and the server's options with other values."""
        text = sh(f"sed -n '/^ExecStart=/,/[^\\\\]$/p' /etc/systemd/system/{self.unit}")
        for option, value in (options or {}).items():
            kept = [line for line in text.rstrip("\n").split("\n") if f"--{option}=" not in line]
            text = "\n".join([*kept[:-1], kept[-1].rstrip(" \\") + f" \\\n    --{option}={value}"]) + "\n"
        parts = ["[Service]", "ExecCondition=", "RestartSec=120", "ExecStart=", text, *lines]
        folder = f"/etc/systemd/system/{self.unit}.d"
        write = f"mkdir -p {folder} && cat > {folder}/test.conf && systemctl daemon-reload"
        unit_host.ssh(HOST, write, "\n".join(parts).encode() + b"\n")

    def replace(self, path: str, edit: Callable[[str], str]) -> str:
        """The drop-in line that puts an edited copy in the place of a file of the build."""
        whole = f"{self.root}/{SITE}/{path}"
        copy = f"/root/{self.name}-edited.py"
        before = sh(f"cat {whole}")
        after = edit(before)
        assert after != before, f"nothing to edit in {path}"
        unit_host.ssh(HOST, f"cat > {copy} && chmod 644 {copy}", after.encode())
        return f"BindReadOnlyPaths={copy}:{whole}"

    def start(self) -> None:
        sh(f"systemctl start --no-block {self.unit}")
        self.until(lambda: self.pid != 0)

    @property
    def pid(self) -> int:
        return int(sh(f"systemctl show -p MainPID --value {self.unit}") or 0)

    @property
    def log(self) -> str:
        invocation = sh(f"systemctl show -p InvocationID --value {self.unit}").strip()
        return sh(f"cat /var/log/sglang/{self.name}/{invocation}.log 2>/dev/null || true")

    @property
    def scheduler(self) -> int:
        """Its pid, 0 while there is none."""
        found = sh(
            f"for c in $(cat /proc/{self.pid}/task/*/children 2>/dev/null); do "
            "grep -q sglang::sched /proc/$c/comm && echo $c; done; true"
        )
        return int(found.split()[0]) if found.split() else 0

    def signal(self, name: str) -> None:
        """To the scheduler, once there is one."""
        sh(f"kill -{name} {self.until(lambda: self.scheduler)}")

    def until(self, what: Callable[[], Any], seconds: float = 400) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = what()
            if answer:
                return answer
            time.sleep(0.3)
        raise AssertionError(f"nothing came in {seconds} s; the log ends {self.log[-600:]}")

    def wait(self, **told: Any) -> dict[str, Any]:
        """What the module says, in a play of its own."""
        done = self._play("tests/integration/ready/wait.yml", inventory=INVENTORY, instance=self.name, **told)
        (result,) = done.results(HOST, "sglang_ready")
        print(json.dumps({key: result.get(key) for key in ("state", "failure", "findings", "waited_s", "cpu_s")}))
        return result

    def wait_while(self, act: Callable[[], None], **told: Any) -> dict[str, Any]:
        """The same, with something that happens meanwhile."""
        actor = threading.Thread(target=act)
        actor.start()
        result = self.wait(**told)
        actor.join()
        return result

    def undo(self) -> None:
        sh(
            f"rm -rf /etc/systemd/system/{self.unit}.d; systemctl kill -s KILL {self.unit} 2>/dev/null; "
            f"systemctl daemon-reload; systemctl stop {self.unit}; systemctl reset-failed {self.unit} 2>/dev/null; true"
        )


@pytest.fixture
def server(request: pytest.FixtureRequest, play: Play) -> Iterator[Callable[[str], Server]]:
    made: list[Server] = []

    def of(name: str) -> Server:
        found = Server(name, play)
        made.append(found)
        return found

    yield of
    for found in made:
        found.undo()


def verdict(result: dict[str, Any]) -> tuple[str, str]:
    return result["state"], (result["failure"] or {}).get("category", "none")


@ALL
def test_ready(server: Callable[[str], Server], name: str) -> None:
    one = server(name)
    one.start()
    result = one.wait()
    assert verdict(result) == ("ready", "none")
    assert result["first_generation"]["text"]
    assert result["cpu_s"] / result["waited_s"] < 0.05
    names = [phase["name"] for phase in result["phases"]]
    assert {"args", "dist_init", "weights", "kv_pool", "warmup", "serving"} <= set(names)


@ALL
def test_the_port_belongs_to_another_server(server: Callable[[str], Server], name: str) -> None:
    """It says "fired up", and /health is 200: the other one's."""
    first = server("r15" if name != "r15" else "r9")
    first.start()
    assert verdict(first.wait()) == ("ready", "none")
    one = server(name)
    one.change(options={"port": {"r9": "30009", "r15": "30015"}[first.name]})
    one.start()
    result = one.wait()
    assert verdict(result) == ("failed", "http_port_in_use")
    assert "Errno 98" in result["failure"]["cause"]["line"]


@ALL
def test_a_scheduler_is_killed_while_loading(server: Callable[[str], Server], name: str) -> None:
    one = server(name)
    one.start()
    result = one.wait_while(lambda: one.signal("KILL"))
    assert verdict(result) == ("failed", "child_sigkill")


def test_a_scheduler_of_059_is_killed_after_ready(server: Callable[[str], Server]) -> None:
    """systemd says active, /v1/models 200; the liveness look finds it at once."""
    one = server("r9")
    one.start()
    assert verdict(one.wait()) == ("ready", "none")
    agent = sh("ls -t /opt/sglang/agent/*.pyz | head -1").strip()
    look = LOOK.replace("AGENT", agent)
    found = sh(f"kill -KILL {one.scheduler}; python3 -c {shlex.quote(look)}").split()
    assert found[1:] == ["dead", "child_sigkill_zombie_service"]
    assert float(found[0]) < 2
    assert sh(f"systemctl is-active {one.unit}").strip() == "active"
    assert sh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30009/v1/models").strip() == "200"
    assert verdict(one.wait()) == ("failed", "child_sigkill_zombie_service")


@ALL
def test_the_model_folder_is_gone(server: Callable[[str], Server], name: str) -> None:
    one = server(name)
    one.change(options={"model-path": "/srv/models/gone"})
    one.start()
    assert verdict(one.wait()) == ("failed", "model_path_missing")


@ALL
def test_a_python_module_is_missing(server: Callable[[str], Server], name: str) -> None:
    one = server(name)
    gone = ("\nimport torch\n", "\nimport torch_gone\n")
    one.change(one.replace("managers/scheduler.py", lambda text: text.replace(*gone, 1)))
    one.start()
    result = one.wait()
    assert verdict(result) == ("failed", "python_module_missing")
    assert "torch_gone" in result["failure"]["cause"]["line"]


@ALL
def test_a_patched_file_with_a_syntax_error(server: Callable[[str], Server], name: str) -> None:
    """The registry of models swallows it: "Ignore import error", which is noise for every other model."""
    one = server(name)
    one.change(one.replace("models/llama.py", lambda text: text + "\ndef broken(:\n"))
    one.start()
    result = one.wait()
    assert verdict(result) == ("failed", "model_module_import_broken")
    assert "models.llama:" in result["failure"]["cause"]["line"]


@ALL
def test_a_scheduler_is_stopped(server: Callable[[str], Server], name: str) -> None:
    one = server(name)
    one.start()
    result = one.wait_while(lambda: one.signal("STOP"), stall=60)
    assert verdict(result) == ("stalled", "process_stopped")
    assert any("stopped (SIGSTOP)" in line for line in result["failure"]["stacks"])


@ALL
def test_a_scheduler_that_spins(server: Callable[[str], Server], name: str) -> None:
    """Its processor time runs; nothing else does."""
    one = server(name)
    edited = one.replace("models/llama.py", lambda text: text.replace("    def load_weights(self", SPIN))
    one.change(edited)
    one.start()
    result = one.wait(stall=30)
    assert result["state"] == "stalled"
    assert result["failure"]["phase"] == "weights"
    assert any("load_weights" in line for line in result["failure"]["stacks"])


def test_a_proxy_in_the_unit(server: Callable[[str], Server]) -> None:
    one = server("r9")
    one.change("Environment=http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9")
    one.start()
    assert verdict(one.wait(stall=240)) == ("failed", "warmup_via_http_proxy")


@pytest.fixture
def little_memory() -> Iterator[Callable[[int], None]]:
    """A limit of the host's memory, set from outside (a unit's own is not enforced in every sandbox)."""

    def limit(size: int) -> None:
        argv = [sys.executable, "-m", "tests.sandbox", "limit", HOST, str(size)]
        subprocess.run(argv, check=True, cwd=ROOT, capture_output=True)

    yield limit
    subprocess.run([sys.executable, "-m", "tests.sandbox", "limit", HOST, "max"], check=True, cwd=ROOT)


def test_out_of_memory(server: Callable[[str], Server], little_memory: Callable[[int], None]) -> None:
    one = server("r15")
    one.change(options={"max-total-tokens": "40000000"})
    little_memory(1_500_000_000)
    one.start()
    result = one.wait()
    assert verdict(result) == ("failed", "child_sigkill_host_oom")
