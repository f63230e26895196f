"""The guard on a controller of its own, a sandbox host that reaches another one by SSH. That one is bare, so it differs
from its description in everything."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Play, Run
from unit_host import ROOT, inventory, sandbox, ssh

pytestmark = pytest.mark.sandbox
CONTROLLER, HOST = "dr2", "dr1"
FOLDER = "/var/lib/sglang-drift-guard"
METRICS = "/var/lib/node/drift.prom"
KEYS = "/var/lib/inferops-sandbox"


@pytest.fixture(scope="module")
def controller() -> Iterator[str]:
    # the checkout with its Python, and the way to the other host, as they are here
    mounts = [str(ROOT), str(Path(sys.prefix).resolve()), KEYS]
    sandbox("up", HOST)
    sandbox("up", CONTROLLER, *(word for path in mounts for word in ("--mount", f"{path}:{path}")))
    fleet = {
        "model_path": "/srv/models/tiny-llama",
        "gpus": "none",
        "lock": f"{ROOT}/tests/stand_in/locks/stand-in-0.5.9",
    }
    common = {"ansible_ssh_common_args": f"-F {KEYS}/ssh/config", "ansible_python_interpreter": "/usr/bin/python3"}
    described = {"sglang": {"hosts": {HOST: {}}, "vars": {**common, "sglang_instances": {"tiny": fleet}}}}
    ssh(CONTROLLER, "mkdir -p /etc/fleet /var/lib/node")
    ssh(CONTROLLER, "cat > /etc/fleet/hosts.json", json.dumps(described).encode())
    yield CONTROLLER
    sandbox("down", CONTROLLER, HOST)


@pytest.fixture(scope="module")
def guard(controller: str, play: Play) -> Any:
    def run(check: bool = False, **options: Any) -> Run:
        told = {
            "project": str(ROOT),
            "inventory": "/etc/fleet/hosts.json",
            "playbook": "playbooks/drift.yml",
            "python": f"{ROOT}/.venv/bin/python",
            "metrics": METRICS,
            "keep": 2,
            **options,
        }
        named = {f"sglang_drift_guard_{key}": value for key, value in told.items()}
        done = play("tests/integration/drift_guard.yml", inventory=inventory(CONTROLLER), check=check, **named)
        assert done.status == "successful", done.stdout[-3000:]
        return done

    return run


def show(what: str) -> str:
    return ssh(CONTROLLER, f"systemctl show -P {what} sglang-drift-guard.service").strip()


def start() -> str:
    """One run of the unit; its exit status."""
    ssh(CONTROLLER, "systemctl start sglang-drift-guard.service || true")
    return show("ExecMainStatus")


def test_the_guard_from_nothing_to_nothing(guard: Any) -> None:
    guard(check=True)
    guard()
    again = guard()
    assert again.count("changed", CONTROLLER) == 0
    assert ssh(CONTROLLER, "systemctl is-active sglang-drift-guard.timer").strip() == "active"
    assert ssh(CONTROLLER, "systemctl is-enabled sglang-drift-guard.timer").strip() == "enabled"

    # a bare host differs in everything: the unit says so, and OnFailure would
    assert start() == "10"
    assert show("Result") == "exit-code"
    report = json.loads(ssh(CONTROLLER, f"cat {FOLDER}/reports/drift.json"))
    assert report["hosts"][HOST]["state"] == "drifted"
    assert f'sglang_drift_differences{{host="{HOST}",resource="host"' in ssh(CONTROLLER, f"cat {METRICS}")
    assert "<h1>Drift</h1>" in ssh(CONTROLLER, f"cat {FOLDER}/reports/drift.html")

    # outside of its window it only reports
    day = ssh(CONTROLLER, "date -d tomorrow +%a").strip()
    guard(correct=True, window=f"{day} 10:00-11:00")
    assert start() == "10"
    assert json.loads(ssh(CONTROLLER, f"cat {FOLDER}/reports/drift.json"))["correct"] is False
    assert start() == "10"
    assert len(ssh(CONTROLLER, f"ls {FOLDER}/runner/artifacts").split()) == 2

    # a host that does not answer
    sandbox("stop", "--hard", HOST)
    assert start() == "11"
    assert f'sglang_drift_no_answer{{host="{HOST}",state="unreachable"}} 1' in ssh(CONTROLLER, f"cat {METRICS}")

    # a run that is no run leaves the last report alone, and is told from it
    guard(inventory="/etc/fleet/gone.json")
    assert start() == "12"
    assert json.loads(ssh(CONTROLLER, f"cat {FOLDER}/reports/drift.json"))["hosts"][HOST]["state"] == "unreachable"

    # one at a time
    busy = ssh(
        CONTROLLER,
        f"flock {FOLDER}/lock {ROOT}/.venv/bin/python -I /usr/local/lib/sglang-drift-guard.py"
        " /etc/sglang-drift-guard.json; echo $?",
    )
    assert busy.split("\n")[-2] == "75"

    guard(state="absent")
    assert ssh(CONTROLLER, "ls /etc/systemd/system | grep guard || true") == ""
    assert ssh(CONTROLLER, f"ls {FOLDER}/reports").split() != []
    assert guard(state="absent").count("changed", CONTROLLER) == 0
