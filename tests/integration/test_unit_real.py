"""The unit with the real SGLang on the CPU: what it says of itself, how it stops, crashes and comes back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import unit_host

pytestmark = pytest.mark.sandbox

READY = "The server is fired up and ready to roll!"
#: Which servers are tried, as host/instance; those of the sandbox, once deploy.yml has put them there.
SERVERS = os.environ.get("INFEROPS_TEST_SERVERS", "sgl1/tiny sgl2/tiny").split()


@dataclass(frozen=True)
class Server:
    host: str
    name: str

    def sh(self, command: str) -> str:
        return unit_host.ssh(self.host, command)

    def show(self, name: str) -> str:
        return self.sh(f"systemctl show -P {name} sglang-{self.name}").strip()

    def newest(self, suffix: str) -> str:
        """The log (``log``) or the record (``json``) of the present or the last start."""
        return self.sh(f"cat /var/log/sglang/{self.name}/{self.show('InvocationID')}.{suffix} 2>/dev/null || true")

    def wait_for(self, line: str, seconds: float = 400) -> None:
        wait(lambda: line in self.newest("log"), seconds)

    def start(self, until: str = READY) -> None:
        self.sh(f"systemctl start sglang-{self.name}")
        self.wait_for(until)

    def stop(self) -> float:
        """Stop it; how many seconds that took."""
        began = time.monotonic()
        self.sh(f"systemctl stop sglang-{self.name}")
        return time.monotonic() - began

    def note(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.sh(f"cat /run/sglang/{self.name}/stop.json"))
        return found

    def ended(self) -> None:
        """Nothing of it is left, and it is no failure."""
        assert (self.show("ActiveState"), self.show("Result")) == ("inactive", "success")
        assert self.note()["left"] == []
        unit = f"sglang-{self.name}.service"
        assert self.sh(f"grep -l {unit} /proc/[0-9]*/cgroup 2>/dev/null || true") == ""


def wait(what: Callable[[], Any], seconds: float) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = what()
        if answer:
            return answer
        time.sleep(1)
    raise AssertionError(f"nothing came in {seconds} s")


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    found = Server(*request.param.split("/"))
    hosts = {host["name"] for host in json.loads(unit_host.sandbox("list", "--json"))}
    if found.host not in hosts or found.show("LoadState") != "loaded":
        pytest.skip(f"{found.name} has not been deployed to {found.host}")
    return found


def test_its_command_is_the_one_in_force(server: Server) -> None:
    server.start()
    words = server.sh(f"tr '\\0' '\\n' < /proc/{server.show('MainPID')}/cmdline").split("\n")[:-1]
    folder = f"/opt/sglang/{server.name}/activations"
    newest = json.loads(server.sh(f"cat {folder}/$(ls {folder} | sort -n | tail -1)/activation.json"))
    added = json.loads(server.newest("json"))["added"]
    assert [word for word in words if word not in added] == newest["argv"]
    assert server.sh(f"stat -c %U /proc/{server.show('MainPID')}").strip() == newest["run_as"]


def test_a_running_request_is_answered_before_it_ends(server: Server) -> None:
    server.start()
    asked = {"text": "a b c", "sampling_params": {"max_new_tokens": 16, "temperature": 0, "ignore_eos": True}}
    port = json.loads(server.newest("json"))["port"]
    key = f"$(sed -n 's/^api-key: \"\\(.*\\)\"$/\\1/p' /etc/sglang/{server.name}.secrets.yaml 2>/dev/null)"
    server.sh(
        f"rm -f /tmp/answer; (python3 -c 'import json,sys,urllib.request as u; print(u.urlopen(u.Request(sys.argv[1],"
        ' sys.argv[2].encode(), {"Content-Type": "application/json", "Authorization": "Bearer " + sys.argv[3]}))'
        f".read())' http://127.0.0.1:{port}/generate '{json.dumps(asked)}' \"{key}\""
        " </dev/null >/tmp/answer 2>&1 &); sleep 1"
    )
    server.stop()
    assert "meta_info" in server.sh("cat /tmp/answer")
    assert server.note()["how"] == "drained"
    server.ended()


@pytest.mark.parametrize("until", ["server_args", "Load weight begin", "Uvicorn running"])
def test_a_stop_before_it_is_ready_is_cut_short(server: Server, until: str) -> None:
    server.start(until)
    assert server.stop() < 40
    assert server.note()["how"] in ("killed: it was not ready yet", "drained")
    server.ended()


def test_a_crash_is_followed_by_a_start(server: Server) -> None:
    server.start()
    pid = server.show("MainPID")
    children = server.sh(f"pgrep -P {pid}").split()
    server.sh(f"kill -KILL {pid}")
    wait(lambda: server.show("MainPID") not in ("0", pid), 120)
    assert server.sh(f"ls -d {' '.join(f'/proc/{child}' for child in children)} 2>/dev/null || true") == ""
    server.wait_for(READY)


def test_a_dead_scheduler_does_not_hold_up_a_stop(server: Server) -> None:
    server.start()
    server.sh(f"pkill -KILL -P {server.show('MainPID')} -f '^sglang::scheduler'; sleep 1")
    assert server.stop() < 40
    assert server.show("ActiveState") == "inactive"


def test_it_serves_at_the_end(server: Server) -> None:
    server.start()
