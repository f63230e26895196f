"""Draining on a host with systemd and several users: a file stands for the GPU's device node, all else is real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Play, Run
from toolkit_host import Host, changes

pytestmark = pytest.mark.sandbox

DRAIN = "tests/integration/gpu/drain.yml"
PREPARE = """
touch /dev/nvidia0 && chmod 666 /dev/nvidia0
id alice >/dev/null 2>&1 || useradd --create-home alice
cat > /usr/local/bin/hold <<'END'
#!/usr/bin/python3
import os, sys, time
held = open("/dev/nvidia0")
if "fork" in sys.argv and os.fork():
    held.close()
while True:
    time.sleep(1)
END
chmod 755 /usr/local/bin/hold
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host("gpudrain", tmp_path_factory.mktemp("inventory") / "hosts.json", {})
    made.run(PREPARE)
    yield made
    made.down()


def pids(host: Host) -> set[int]:
    script = "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q /dev/nvidia0 && basename $p; done; true"
    return {int(word) for word in host.run(script).split()}


def drain(host: Host, play: Play, check: bool = False, **variables: Any) -> Run:
    return play(DRAIN, inventory=host.inventory, check=check, **variables)


def result(run: Run, host: Host) -> dict[str, Any]:
    assert run.status == "successful", run.stdout
    return run.results(host.name, "gpu_drain")[-1]


def test_nothing_to_do(host: Host, play: Play) -> None:
    done = result(drain(host, play), host)
    assert not done["changed"] and done["ended"] == [] and done["held_elsewhere"] == []


def test_what_a_user_left_is_ended(host: Host, play: Play) -> None:
    host.run(
        "setsid su alice -c 'exec /usr/local/bin/hold --api-key planted-secret' </dev/null >/dev/null 2>&1 & sleep 1"
    )
    (pid,) = pids(host)
    host.run(
        "mkdir -p /var/lib/sglang/kimi/.cache/flashinfer/0.6 && touch /var/lib/sglang/kimi/.cache/flashinfer/0.6/a.lock"
    )
    host.run("chown alice /var/lib/sglang/kimi/.cache/flashinfer/0.6/a.lock; su alice -c 'touch /dev/shm/nccl-abc'")
    foretold = result(drain(host, play, check=True), host)
    assert pids(host) == {pid}
    done = drain(host, play)
    ended = result(done, host)
    assert [(entry["pid"], entry["user"], entry["signal"]) for entry in ended["ended"]] == [(pid, "alice", "TERM")]
    assert changes(ended) == changes(foretold) and pids(host) == set()
    assert {entry["path"] for entry in ended["cleaned"]} == {
        "/dev/shm/nccl-abc",
        "/var/lib/sglang/kimi/.cache/flashinfer/0.6/a.lock",
    }
    assert "planted-secret" not in done.stdout + repr(done.events)
    assert not result(drain(host, play), host)["changed"]


def test_another_services_process_stands_in_the_way_and_nothing_is_ended(host: Host, play: Play) -> None:
    host.run("systemd-run --unit other --uid alice /usr/local/bin/hold && sleep 1")
    host.run("setsid su alice -c 'exec /usr/local/bin/hold' </dev/null >/dev/null 2>&1 & sleep 1")
    before = pids(host)
    assert len(before) == 2
    for check in (True, False):
        run = drain(host, play, check=check)
        assert run.status == "failed" and "belongs to other.service" in run.failure(host.name)
        assert pids(host) == before
    host.run("systemctl stop other")
    assert len(result(drain(host, play), host)["ended"]) == 1


def test_a_unit_of_ours_is_stopped_by_its_own_means_and_its_orphans_are_ended(host: Host, play: Play) -> None:
    host.run("systemd-run --unit sglang-kimi -p KillMode=process -p Restart=always /usr/local/bin/hold fork && sleep 1")
    run = drain(host, play)
    assert run.status == "failed" and "sglang-kimi.service, which is running: stop that unit first" in run.failure(
        host.name
    )
    host.run("systemctl stop sglang-kimi")
    (orphan,) = pids(host)  # KillMode=process left it in the unit's control group
    (ended,) = result(drain(host, play), host)["ended"]
    assert (ended["pid"], ended["unit"]) == (orphan, "sglang-kimi.service")
    assert pids(host) == set()


def test_a_stubborn_one_is_killed(host: Host, play: Play) -> None:
    host.run("setsid su alice -c 'trap \"\" TERM; exec /usr/local/bin/hold' </dev/null >/dev/null 2>&1 & sleep 1")
    (ended,) = result(drain(host, play, term_timeout=1), host)["ended"]
    assert ended["signal"] == "KILL" and pids(host) == set()
