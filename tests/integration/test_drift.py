"""Drift of every kind: each is said under the right resource, nothing else is said, and correcting restarts no more
than it must. The server is the stand-in, on a host with what looks like a toolkit and a driver; the gateway is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Play, Run
from drift_breaks import BREAKS, GATEWAY, HOST, PRELUDE, Break
from fleet import Fleet, sandbox

pytestmark = pytest.mark.sandbox
RELEASE = "0.5.9"
# a toolkit that compiles nothing, the driver's two halves, and models that may be written to
PREPARE = """set -e
mkdir -p /srv/model /usr/local/cuda-13.0/bin /usr/local/cuda-13.0/include
cp /srv/models/tiny-llama/* /srv/model/
printf '#!/bin/sh\\necho "Cuda compilation tools, release 13.0, V13.0.88"\\n' > /usr/local/cuda-13.0/bin/nvcc
chmod 755 /usr/local/cuda-13.0/bin/nvcc
echo '#define CUDART_VERSION 13000' > /usr/local/cuda-13.0/include/cuda_runtime_api.h
mountpoint -q /proc/driver || mount -t tmpfs none /proc/driver
mkdir -p /proc/driver/nvidia
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build' > /proc/driver/nvidia/version
cd /usr/lib/x86_64-linux-gnu && touch libcuda.so.580.95.05 && ln -sfn libcuda.so.580.95.05 libcuda.so.1
"""


@pytest.fixture(scope="module")
def fleet(play: Play, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet([HOST], tmp_path_factory.mktemp("drift"), gateway=GATEWAY)
    with made.standing(play):
        made.ssh(HOST, PREPARE)
        made.told()
        made.rollout = {"hold": 0, "soak": 1, "allow_outage": True}
        made.variables = {HOST: {"sglang_toolkit": {"source": "present", "version": "13.0"}}}
        made.instance = {
            "model_path": "/srv/model",
            "patches": ["kimi_k25_eagle3_delegation"],
            "api_key": "sk-Planted1",
            "secret_env": {"HF_TOKEN": "hf-Planted2"},
            "drain_timeout": 10,
            # there is a timer, and it does not look while the test does
            "liveness_interval": 3600,
        }
        gateway = play("tests/integration/gateway.yml", inventory=made.inventory, sglang_gateway_api_key="sk-Planted1")
        assert gateway.status == "successful", gateway.stdout[-2000:]
        made.reach(play, RELEASE)
        yield made


Found = tuple[Run, dict[str, Any]]


class Drift:
    """Runs drift.yml into one folder; the report that it wrote."""

    def __init__(self, fleet: Fleet, play: Play, folder: Path) -> None:
        self.fleet, self.play, self.folder = fleet, play, folder

    def __call__(self, status: str = "successful", **variables: Any) -> Found:
        run = self.play(
            "playbooks/drift.yml",
            inventory=self.fleet.inventory,
            fleet_release=RELEASE,
            reports=str(self.folder),
            **variables,
        )
        assert run.status == status, run.stdout[-4000:]
        assert "Planted" not in run.stdout
        text = (self.folder / "drift.json").read_text()
        assert "Planted" not in text
        return run, json.loads(text)


@pytest.fixture(scope="module")
def drift(fleet: Fleet, play: Play, tmp_path_factory: pytest.TempPathFactory) -> Drift:
    return Drift(fleet, play, tmp_path_factory.mktemp("reports"))


def apply(fleet: Fleet, broken: Break) -> None:
    fleet.ssh(broken.on, ("set -e\n" if broken.on == GATEWAY else PRELUDE) + broken.how)


def undo(fleet: Fleet, broken: Break) -> None:
    if broken.undo:
        fleet.ssh(broken.on, broken.undo)


def pid(fleet: Fleet) -> str:
    return fleet.ssh(HOST, "systemctl show -P MainPID sglang-tiny").strip()


def differences(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, entry) for name, host in report["hosts"].items() for entry in host["differences"]]


def check(report: dict[str, Any], broken: tuple[Break, ...]) -> None:
    """Exactly what was broken is said."""
    found = differences(report)
    for one in broken:
        for said in one.said:
            fitting = [pair for pair in found if said.matches(*pair)]
            assert len(fitting) == 1, (one.name, said, found)
            assert fitting[0][1]["correctable"] is not one.noticed
            found.remove(fitting[0])
    assert found == []


def test_as_deployed_nothing_is_said(drift: Drift) -> None:
    run, report = drift()
    assert differences(report) == []
    assert report["summary"]["in_sync"] == report["summary"]["hosts"] == 2
    # one task on the host, whatever it finds
    assert run.count("ok", HOST) == 1


# a run that corrects compares twice: what is not put right in its report would be said again
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.name)
def test_one_way_to_break_it(drift: Drift, fleet: Fleet, broken: Break) -> None:
    apply(fleet, broken)
    before = pid(fleet)
    try:
        dummy, report = drift(correct=True)
        check(report, (broken,))
        assert [entry["corrected"] for dummy, entry in differences(report)] == [not broken.noticed] * len(broken.said)
        assert (pid(fleet) != before) == broken.restarts
    finally:
        undo(fleet, broken)
    if broken.undo:
        dummy, again = drift()
        assert differences(again) == []


def test_all_at_once(drift: Drift, fleet: Fleet) -> None:
    broken = tuple(one for one in BREAKS if not one.apart)
    assert len(broken) >= 20
    for one in broken:
        apply(fleet, one)
    before = pid(fleet)
    try:
        dummy, report = drift()
        check(report, broken)
        assert pid(fleet) == before
        failed, dummy = drift("failed", drift_fail=True)
        assert failed.count("failures", HOST) == 1
        assert failed.count("failures", GATEWAY) == 0
        dummy, report = drift(correct=True)
        left = [entry["what"] for dummy, entry in differences(report) if not entry["corrected"]]
        assert sorted(left) == sorted(entry["what"] for dummy, entry in differences(report) if not entry["correctable"])
        assert report["hosts"][HOST]["consequence"] == "none"
    finally:
        for one in broken:
            undo(fleet, one)
    dummy, again = drift()
    assert differences(again) == []


def test_a_host_that_does_not_answer_is_in_the_report(drift: Drift, fleet: Fleet) -> None:
    sandbox("stop", "--hard", HOST)
    try:
        run, report = drift()
        assert report["hosts"][HOST]["state"] == "unreachable"
        assert report["hosts"][HOST]["message"]
        assert f"{HOST}  unreachable" in run.stdout
        failed, dummy = drift("failed", drift_fail=True)
        assert failed.count("failures", HOST) == 1
    finally:
        sandbox("up", HOST)
