"""A real SGLang that a person keeps by hand: ``nohup``, an editable checkout, patches made with ``sed``. Taken over by
``deploy.yml``, and from then on restarted for the right reasons and without losing a request.

The tests build on each other's host state, as a person's runs do, and run in the order in which they stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import unit_host
import yaml
from conftest import Play, Run

pytestmark = pytest.mark.sandbox

HOST = unit_host.HOST
PORT = 30100
KEY = "sk-Planted-by-hand"
ENV = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
ARGS = {"device": "cpu", "grammar_backend": "none", "max_total_tokens": 4096, "max_running_requests": 8}
INSTANCE: dict[str, Any] = {
    "mode": "in_place",
    "python": "/root/ml-env/bin/python",
    "source": "/root/sglang",
    "run_as": "root",
    "model_path": "/root/model",
    "port": PORT,
    "gpus": ["none"],
    "args": ARGS,
    "env": ENV,
    "api_key": KEY,
    "drain_timeout": 60,
}
COMMAND = (
    "/root/ml-env/bin/python -m sglang.launch_server --model-path /root/model --device cpu --grammar-backend none "
    f"--max-total-tokens 4096 --max-running-requests 8 --port {PORT} --api-key {KEY}"
)
# An editable checkout: the package lies in its own folder, and the environment names it.
CHECKOUT = """
set -e
site=$(ls -d /root/ml-env/lib/python3*/site-packages)
rm -rf /root/sglang /root/model && mkdir -p /root/sglang/python && mv $site/sglang /root/sglang/python/
echo /root/sglang/python > $site/editable.pth
sed -i 's/^    10: {$/    12: {8: 64 * MiB},\\n&/' \
  /root/sglang/python/sglang/srt/distributed/device_communicators/all_reduce_utils.py
grep -q '^    12: {8' /root/sglang/python/sglang/srt/distributed/device_communicators/all_reduce_utils.py
cp -rL /srv/models/tiny-llama-echo /root/model
"""
# Asks for COUNT answers of TOKENS tokens at once; prints how long each was that came back.
LOAD = """
import json, sys, threading, urllib.request
answers = []
def ask(number):
    body = {"text": "a b c", "sampling_params": {"max_new_tokens": TOKENS, "temperature": 0, "ignore_eos": True}}
    request = urllib.request.Request("http://127.0.0.1:PORT/generate", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer KEY"})
    answers.append(json.load(urllib.request.urlopen(request, timeout=200))["meta_info"]["completion_tokens"])
threads = [threading.Thread(target=ask, args=(number,)) for number in range(COUNT)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(answers))
"""


def sh(command: str, data: bytes | None = None) -> str:
    return unit_host.ssh(HOST, command, data)


def show(name: str) -> str:
    return sh(f"systemctl show -P {name} sglang-own").strip()


def generate() -> int:
    """Tokens of one answer."""
    body = json.dumps({"text": "a b", "sampling_params": {"max_new_tokens": 8, "temperature": 0, "ignore_eos": True}})
    answer = sh(
        f"curl -sS -m 120 -H 'Content-Type: application/json' -H 'Authorization: Bearer {KEY}' -d @- "
        f"127.0.0.1:{PORT}/generate",
        body.encode(),
    )
    return int(json.loads(answer)["meta_info"]["completion_tokens"])


def load(count: int, tokens: int) -> None:
    """Ask for answers in the background; they end up in a file on the host."""
    script = LOAD
    for name, value in (("PORT", PORT), ("KEY", KEY), ("COUNT", count), ("TOKENS", tokens)):
        script = script.replace(name, str(value))
    sh("cat > /tmp/load.py && rm -f /tmp/answers && (python3 /tmp/load.py >/tmp/answers 2>&1 </dev/null &); sleep 2",
       script.encode())  # fmt: skip


def servers() -> list[str]:
    """The pids of the main processes of servers on the port, by hand or not (the bracket keeps pgrep's shell out)."""
    return sh(f"pgrep -f '[l]aunch_server.*--port[= ]{PORT}' || true").split()


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("inventory")
    shared = yaml.safe_load((unit_host.ROOT / "inventories/sandbox/group_vars/sglang.yml").read_text())
    hosts = {"all": {"children": {"sglang": {"hosts": {HOST: None}, "vars": shared}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return str(folder / "hosts.yml")


@pytest.fixture(scope="module")
def deploy(play: Play, inventory: str) -> Any:
    def run(check: bool = False, adopt: bool = False, changes: dict[str, Any] | None = None) -> Run:
        instances = {"own": {**INSTANCE, **(changes or {})}}
        return play(inventory=inventory, check=check, sglang_instances=instances, adopt=adopt)

    return run


@pytest.fixture(scope="module")
def server(play: Play, inventory: str) -> Any:
    """``sglang_server`` in check mode on the instance with changes: what it would do and why."""

    def run(check: bool = True, state: str = "started", **changes: Any) -> dict[str, Any]:
        instances = [{"name": "own", **INSTANCE, **changes}]
        done = play(
            "tests/integration/unit_server.yml", inventory=inventory, check=check, instances=instances, state=state
        )
        assert done.status == "successful", done.stdout[-3000:]
        found: dict[str, Any] = done.results(HOST, "sglang_server")[-1]
        return found

    return run


@pytest.fixture(scope="module", autouse=True)
def by_hand() -> Iterator[str]:
    """The server as a person started it; its pid. Whatever becomes of it, nothing is left in the end."""
    unit_host.sandbox("up", "--serving", HOST)
    unit_host.clean(HOST)
    unit_host.own_environment(HOST, "0.5.9", "/root/ml-env")
    sh(CHECKOUT)
    variables = " ".join(f"{name}={value}" for name, value in ENV.items())
    sh(f"cd /root; {variables} setsid nohup {COMMAND} </dev/null >/root/server.log 2>&1 & echo $! > /root/server.pid")
    sh("timeout 400 sh -c 'until grep -q \"ready to roll\" /root/server.log; do sleep 1; done'")
    yield sh("cat /root/server.pid").strip()
    sh("kill -KILL -$(cat /root/server.pid) 2>/dev/null || true")
    unit_host.clean(HOST)
    sh("rm -rf /root/sglang /root/ml-env /root/ml-env2 /root/model /tmp/load.py /tmp/answers")


def test_it_is_shown_and_not_touched(deploy: Any, by_hand: str) -> None:
    foretold = deploy(check=True)
    plan = foretold.results(HOST, "sglang_plan")[-1]["plan"]
    (adopted,) = [change["before"] for change in plan if change["what"] == "adopt"]
    assert adopted["pid"] == int(by_hand) and adopted["command"].endswith("--api-key ********")
    refused = deploy()
    assert refused.status == "failed"
    assert f"pid {by_hand}" in refused.failure(HOST), refused.failure(HOST)
    assert "Planted" not in foretold.stdout + refused.stdout
    assert generate() == 8 and by_hand in servers()


def test_without_the_flag_the_module_itself_refuses(play: Play, inventory: str, by_hand: str) -> None:
    refused = play(
        "tests/integration/unit_server.yml", inventory=inventory, instances=[{"name": "own", **INSTANCE}]
    )  # fmt: skip
    assert refused.status == "failed"
    assert f"pid {by_hand}" in refused.failure(HOST) and "-e adopt=true" in refused.failure(HOST)
    assert generate() == 8


def test_it_is_taken_over_with_the_flag(deploy: Any, by_hand: str) -> None:
    done = deploy(adopt=True)
    assert done.status == "successful", done.stdout[-3000:]
    assert by_hand not in servers() and show("ActiveState") == "active"
    assert generate() == 8
    words = sh(f"tr '\\0' '\\n' < /proc/{show('MainPID')}/cmdline").split("\n")[:-1]
    # the first is the start; the last one only gives the lease back
    argv = done.results(HOST, "sglang_server")[0]["servers"][0]["argv"]
    assert [word for word in words if not word.startswith("--nccl-port=")] == argv
    checks = {entry["name"]: entry for entry in done.results(HOST, "sglang_preflight")[-1]["checks"]}
    assert "gives way" in checks["port"]["message"]
    # this release prints its keys: said, and kept out of everything that the run shows
    assert "redact_api_keys" in checks["api_keys_shown"]["message"] and not checks["api_keys_shown"]["ok"]
    assert "Planted" in sh(f"cat /var/log/sglang/own/{show('InvocationID')}.log")
    assert "Planted" not in done.stdout + sh("ps -eo args; journalctl --no-pager")
    for path in Path(done.artifacts).rglob("*"):
        assert not path.is_file() or "Planted" not in path.read_text(errors="replace"), path
    again = deploy()
    assert again.status == "successful" and again.count("changed", HOST) == 0


def test_the_reasons_to_restart_are_the_right_ones(server: Any, deploy: Any) -> None:
    def reasons(**changes: Any) -> list[str]:
        found: list[str] = server(**changes)["servers"][0]["restart_reasons"]
        return found

    pid = show("MainPID")
    assert reasons() == []
    # the model's configuration, edited by hand
    sh("cp -a /root/model/config.json /root/config.json && echo >> /root/model/config.json")
    assert reasons() == ["/root/model/config.json changed since it was started"]
    sh("mv /root/config.json /root/model/config.json")
    # the file with the keys, edited by hand: what is in force is put back, what runs is not the matter
    sh("echo 'extra: \"1\"' >> /etc/sglang/own.secrets.yaml")
    found = server()
    assert found["changed"] and found["servers"][0]["restart_reasons"] == []
    assert server(check=False)["servers"][0]["main_pid"] == int(pid)
    assert reasons(api_key="sk-Planted-another") == ["the API keys changed since it was started"]
    # another environment
    sh("cp -al /root/ml-env /root/ml-env2")
    switched = reasons(python="/root/ml-env2/bin/python")
    assert "it runs from /root/ml-env; wanted is /root/ml-env2" in switched[0]
    assert all("PATH" in other for other in switched[1:])
    # a patch
    path = "/root/sglang/python/sglang/srt/models/llama.py"
    sh(f"sleep 1; sed -i '$a # by hand' {path}")
    assert reasons() == [f"{path} was edited since it was started"]
    assert show("MainPID") == pid and generate() == 8


def test_a_restart_under_load_answers_every_request_and_leaves_no_orphan(server: Any) -> None:
    old = show("MainPID")
    family = sh(f"pgrep -P {old}").split()
    load(6, 150)
    assert server(check=False)["servers"][0]["main_pid"] != int(old)
    assert json.loads(sh("cat /tmp/answers")) == [150] * 6
    note = json.loads(sh("cat /run/sglang/own/stop.json"))
    assert note["how"] == "drained" and note["left"] == [] and note["main_pid"] == int(old)
    assert note["ended_at"] - note["requested_at"] < INSTANCE["drain_timeout"]
    gone = sh(f"ls -d {' '.join(f'/proc/{pid}' for pid in [old, *family])} 2>/dev/null || true")
    assert gone == ""


def test_a_request_longer_than_the_bound_does_not_hold_up_a_stop(deploy: Any, server: Any) -> None:
    assert deploy().status == "successful"
    assert deploy(changes={"drain_timeout": 3}).status == "successful"
    load(1, 1900)
    server(check=False, state="stopped", drain_timeout=3)
    note = json.loads(sh("cat /run/sglang/own/stop.json"))
    assert note["how"] == "killed: requests were still running after 3 s" and note["left"] == []
    assert (show("ActiveState"), show("Result")) == ("inactive", "success") and servers() == []
