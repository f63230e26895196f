"""The main job on the two sandbox hosts: real SGLang, real systemd, real sshd.

The tests build on each other's host state, as a person's runs do, and run in the order in which they stand.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Play, Run
from unit_host import SSH_CONFIG

pytestmark = pytest.mark.sandbox
HOSTS = ("sgl1", "sgl2")
UNIT = "/etc/systemd/system/sglang-tiny.service"
SHIPPED = ("kimi_k25_eagle3_delegation", "sm120_symm_mem", "sm120_multimem")


def on(host: str, command: str) -> str:
    """The standard output of a command line on a host."""
    done = subprocess.run(["ssh", "-F", SSH_CONFIG, host, command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{host}: {command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def main_pid(host: str) -> str:
    return on(host, "systemctl show -P MainPID sglang-tiny")


def generate(host: str) -> dict[str, Any]:
    body = json.dumps({"text": "ha ha", "sampling_params": {"max_new_tokens": 8, "temperature": 0}})
    command = f"curl -sS -m 120 -H 'Content-Type: application/json' -d {shlex.quote(body)} 127.0.0.1:30000/generate"
    answer: dict[str, Any] = json.loads(on(host, command))
    return answer


def observed(run: Run, host: str) -> dict[str, Any]:
    """What the last comparison of a run saw of the host's instance."""
    plan = run.results(host, "sglang_plan")[-1]
    assert plan["in_sync"], plan["plan"]
    assert plan["asked"] == "agent"
    instance: dict[str, Any] = plan["observed"]["instances"]["tiny"]
    return instance


@pytest.fixture(scope="module")
def deployed(play: Play) -> Iterator[dict[str, str]]:
    """Both servers as the inventory describes them; stopped in the end, since an idle scheduler spins a whole core."""
    run = play()
    assert run.status == "successful", run.stdout[-3000:]
    yield {host: main_pid(host) for host in HOSTS}
    assert play("playbooks/stop.yml").status == "successful"
    assert [on(host, "systemctl show -P ActiveState sglang-tiny") for host in HOSTS] == ["inactive", "inactive"]


def test_both_servers_are_as_described_and_generate(play: Play, deployed: dict[str, str]) -> None:
    run = play()
    assert run.status == "successful"
    older, newer = (observed(run, host) for host in HOSTS)
    assert (older["release"], newer["release"]) == ("0.5.9", "0.5.23")
    assert {patch["name"]: patch["state"] for patch in older["patches"]} == dict.fromkeys(SHIPPED, "present")
    assert {patch["name"]: patch["state"] for patch in newer["patches"]} == dict.fromkeys(SHIPPED, "not_needed")
    assert newer["start"]["speculative"]["accept_length"] > 1.5
    assert all(instance["state"] == "ready" and instance["start"]["ready_after_s"] > 0 for instance in (older, newer))
    for host in HOSTS:
        assert generate(host)["meta_info"]["completion_tokens"] == 8
    assert generate("sgl2")["meta_info"]["spec_accept_length"] > 1.5


def test_the_patched_release_has_the_methods_when_it_is_imported(deployed: dict[str, str]) -> None:
    python = on("sgl1", "readlink -f /opt/sglang/tiny/current") + "/bin/python"
    code = (
        "from sglang.srt.models.kimi_k25 import KimiK25ForConditionalGeneration as K; "
        "print(all(hasattr(K, n) for n in "
        "('set_eagle3_layers_to_capture', 'get_embed_and_head', 'set_embed_and_head')))"
    )
    command = f"SGLANG_USE_CPU_ENGINE=1 {python} -c {shlex.quote(code)} 2>/dev/null | tail -1"
    assert on("sgl1", command) == "True"


def test_a_second_run_changes_nothing(play: Play, deployed: dict[str, str]) -> None:
    run = play()
    assert [run.count("changed", host) for host in HOSTS] == [0, 0]
    assert {host: main_pid(host) for host in HOSTS} == deployed


def test_a_start_by_systemd_itself_is_waited_for(play: Play, deployed: dict[str, str]) -> None:
    """As after a reboot or a crash: nobody has seen this start serving yet."""
    on("sgl1", "systemctl restart sglang-tiny")
    run = play(limit="sgl1,localhost")
    assert run.status == "successful", run.stdout[-3000:]
    assert [change["what"] for change in run.results("sgl1", "sglang_plan")[0]["plan"]] == ["serves"]
    assert len(run.results("sgl1", "sglang_ready")) == 1
    assert observed(run, "sgl1")["state"] == "ready"
    deployed["sgl1"] = main_pid("sgl1")
    assert generate("sgl1")["meta_info"]["completion_tokens"] == 8


def test_drift_by_hand_is_named_in_check_mode_repaired_and_gone(play: Play, deployed: dict[str, str]) -> None:
    build = on("sgl1", "readlink -f /opt/sglang/tiny/current")
    packages = f"{build}/lib/python3.11/site-packages"
    patched = f"{packages}/sglang/srt/models/kimi_k25.py"
    on("sgl1", f"sed -i 's/set_eagle3_layers_to_capture/set_eagle3_layers_to_keep/' {patched}")
    on("sgl1", f"sed -i 's/--max-running-requests=8/--max-running-requests=4/' {UNIT}")
    info = on("sgl1", f"cd {packages} && ls -d tqdm-*.dist-info")
    on("sgl1", f"cd {packages} && mv {info} tqdm-4.66.0.dist-info")
    touched = on("sgl1", f"sha256sum {patched} {UNIT}")

    foretold = play(check=True, limit="sgl1,localhost")
    assert foretold.status == "successful", foretold.stdout[-3000:]
    (plan,) = foretold.results("sgl1", "sglang_plan")[:1]
    named = "\n".join(f"{change['resource']} {change['what']}" for change in plan["plan"])
    assert "patched file (kimi_k25_eagle3_delegation) sglang/srt/models/kimi_k25.py" in named
    assert "package tqdm" in named
    assert UNIT in named
    for text in ("kimi_k25.py", "tqdm", "--max-running-requests=4"):
        assert text in foretold.stdout, f"--diff does not show {text}"
    assert foretold.count("changed", "sgl1") > 0
    assert on("sgl1", f"sha256sum {patched} {UNIT}") == touched
    assert main_pid("sgl1") == deployed["sgl1"]

    repaired = play(limit="sgl1,localhost")
    assert repaired.status == "successful", repaired.stdout[-3000:]
    observed(repaired, "sgl1")
    assert on("sgl1", "readlink -f /opt/sglang/tiny/current") != build
    assert "--max-running-requests=8" in on("sgl1", f"cat {UNIT}")
    assert generate("sgl1")["text"]

    deployed["sgl1"] = main_pid("sgl1")
    again = play(limit="sgl1,localhost")
    assert again.count("changed", "sgl1") == 0
    assert main_pid("sgl1") == deployed["sgl1"]


@pytest.fixture
def port_holder() -> Iterator[int]:
    """A process of somebody else that holds a port of sgl1."""
    command = "setsid python3 -m http.server 31999 --bind 127.0.0.1 >/dev/null 2>&1 & echo $!"
    pid = int(on("sgl1", command))
    yield 31999
    on("sgl1", f"kill {pid}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"args": {"max_runing_requests": 8}}, ["max_runing_requests", "--max-running-requests"]),
        ({"model_path": "/srv/models/tiny-lama"}, ["/srv/models/tiny-lama"]),
        ({"patches": ["sm120_multimen"]}, ["sm120_multimen", "sm120_multimem"]),
        ({"lock": "sglang-0.5.9-cpy"}, ["sglang-0.5.9-cpy", "sglang-0.5.9-cpu"]),
        ({"prot": 30000}, ["prot", "port"]),
        ({"port": 31999}, ["31999", "http.server"]),
    ],
    ids=["option", "model", "patch", "lock", "key", "port"],
)
def test_a_wrong_value_stops_the_host_before_anything_is_touched(
    play: Play, deployed: dict[str, str], port_holder: int, wrong: dict[str, Any], said: list[str]
) -> None:
    unit = on("sgl1", f"sha256sum {UNIT}")
    run = play(limit="sgl1,localhost", sglang_instances_override={"tiny": wrong})
    assert run.status == "failed"
    for text in said:
        assert text in run.failure("sgl1"), run.failure("sgl1")
    assert on("sgl1", f"sha256sum {UNIT}") == unit
    assert main_pid("sgl1") == deployed["sgl1"]


def test_an_activation_that_does_not_come_up_gives_way_to_the_one_before(play: Play, deployed: dict[str, str]) -> None:
    # without the CPU engine this release wants vllm, which it finds out while it loads the model
    secrets = {"api_key": "sk-planted", "secret_env": {"HF_TOKEN": "hf-planted"}}
    broken = {"tiny": {"env": {"SGLANG_USE_CPU_ENGINE": "0"}, **secrets}}
    run = play(limit="sgl1,localhost", sglang_instances_override=broken)
    assert run.status == "failed"
    assert "vllm" in run.failure("sgl1")
    assert "was put back and serves" in run.failure("sgl1")
    assert "planted" not in run.stdout
    assert generate("sgl1")["text"]
    assert "SGLANG_USE_CPU_ENGINE=1" in on("sgl1", "cat /etc/sglang/tiny.env").replace('"', "")

    # what runs is what the inventory says, so there is nothing to do
    after = play(limit="sgl1,localhost")
    assert after.count("changed", "sgl1") == 0
    deployed["sgl1"] = main_pid("sgl1")
