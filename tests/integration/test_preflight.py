"""Preflight on the sandbox hosts: real builds, real systemd; nothing is started and nothing changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Play, Run
from unit_host import SSH_CONFIG

pytestmark = pytest.mark.sandbox
HOSTS = ("sgl1", "sgl2")
PREFLIGHT = "playbooks/preflight.yml"
DROP_IN = "/etc/systemd/system/sglang-tiny.service.d"


def on(host: str, command: str) -> str:
    done = subprocess.run(["ssh", "-F", SSH_CONFIG, host, command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{host}: {command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def checks(run: Run, host: str) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in run.results(host, "sglang_preflight")[-1]["checks"]}


def override(**changes: Any) -> dict[str, Any]:
    return {"sglang_instances_override": {"tiny": changes}}


@pytest.fixture(scope="module", autouse=True)
def builds(play: Play) -> None:
    run = play("tests/integration/preflight_builds.yml")
    assert run.status == "successful", run.stdout[-3000:]


def test_both_instances_raise_no_alarm_from_outside_and_from_inside_their_units(play: Play) -> None:
    run = play(PREFLIGHT)
    assert run.status == "successful", run.stdout[-3000:]
    for host in HOSTS:
        found = checks(run, host)
        wrong = {name: entry["message"] for name, entry in found.items() if not entry["ok"]}
        # sgl2 uses an option that 0.5.23 calls deprecated: true, and a warning
        assert set(wrong) <= {"options"} and all("deprecated" in message for message in wrong.values())
        assert not any(entry["deferred"] for entry in found.values())
        assert "torch, sgl_kernel" in found["unit_imports"]["message"]
        assert run.count("changed", host) == 0
    assert {"target_interface", "draft_interface", "draft_lm_head"} <= set(checks(run, "sgl2"))


def test_check_mode_says_the_same(play: Play) -> None:
    run = play(PREFLIGHT, limit="sgl2", check=True, inside_unit=False)
    assert run.status == "successful" and checks(run, "sgl2")["target_interface"]["ok"]


def test_a_mistake_is_refused_and_can_be_accepted_by_name(play: Play) -> None:
    wrong = {"speculative": {"algorithm": "EAGLE"}}
    run = play(PREFLIGHT, limit="sgl2", inside_unit=False, **override(**wrong))
    assert run.status == "failed" and "algorithm: EAGLE3" in run.failure("sgl2")
    accepted = play(PREFLIGHT, limit="sgl2", inside_unit=False, **override(**wrong, acknowledge=["draft_algorithm"]))
    assert accepted.status == "successful" and checks(accepted, "sgl2")["draft_algorithm"]["acknowledged"]


def test_a_name_that_is_no_check_is_refused_with_the_nearest(play: Play) -> None:
    run = play(PREFLIGHT, limit="sgl2", inside_unit=False, **override(acknowledge=["draft_algoritm"]))
    assert run.status == "failed" and "did you mean 'draft_algorithm'" in run.failure("sgl2")


@pytest.fixture
def low_limit() -> Iterator[None]:
    on("sgl2", f"mkdir -p {DROP_IN} && printf '[Service]\\nLimitNOFILE=1024\\n' > {DROP_IN}/low.conf")
    yield
    on("sgl2", f"rm {DROP_IN}/low.conf && rmdir --ignore-fail-on-non-empty {DROP_IN}")


def test_a_drop_in_that_lowers_a_limit_is_seen_from_inside_the_unit(play: Play, low_limit: None) -> None:
    run = play(PREFLIGHT, limit="sgl2")
    assert run.status == "failed" and "limited to 1024 inside the unit" in run.failure("sgl2")


def test_a_port_that_is_taken_is_named_with_its_owner(play: Play) -> None:
    on("sgl2", "systemd-run --quiet --unit=squatter python3 -m http.server 30000 --bind 127.0.0.1; sleep 2")
    try:
        run = play(PREFLIGHT, limit="sgl2", inside_unit=False)
    finally:
        on("sgl2", "systemctl stop squatter")
    assert run.status == "failed" and "squatter.service" in run.failure("sgl2")
