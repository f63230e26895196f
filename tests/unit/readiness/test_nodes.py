"""One host of a replica over several: nobody can ask it for a token, and its health answer is 200 whatever happens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import live, ready, watch
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import milestones as ms
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.lines import moment
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.story import Reader
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import Observation, State, judge
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.watch import Options
from conftest import Host, kill
from releases import RELEASES
from writing import Log

from tests.stand_in.running import StandIn, free_port

DUMMY = "Dummy health check server started in background thread at 0.0.0.0:30000"


class Replica:
    """Two hosts: the first one is only a process here, the second is the instance that is watched."""

    def __init__(self, host: Host, folder: Path, release: str, tp: int = 2) -> None:
        self.host, self.release = host, release
        self.common = ["--nnodes=2", f"--tp-size={tp}", f"--dist-init-addr=127.0.0.1:{free_port()}"]
        self.first = StandIn(folder, release, [*self.common, "--node-rank=0"], crash_wait_s=0)

    def second(self, **keys: Any) -> StandIn:
        return self.host.start(self.release, options=[*self.common, "--node-rank=1"], **keys)

    def wait(self, **options: Any) -> dict[str, Any]:
        try:
            return ready.wait(self.host.runner, "demo", Options(**{"timeout": 30, "stall_timeout": 20, **options}))
        except InferopsError as error:
            return error.result


@pytest.fixture(params=["0.5.9", "0.5.15", "0.5.23"])
def replica(host: Host, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Replica]:
    made = Replica(host, tmp_path, request.param)
    with made.first:
        yield made


def test_ready_without_a_generation(replica: Replica) -> None:
    replica.second()
    told = replica.wait(soak=3)
    assert told["state"] == "ready", told
    assert told["first_generation"] is None and told["soak"] is None
    assert told["ready_after_s"] >= 0
    assert any("node 0" in finding for finding in told["findings"])
    assert [phase["name"] for phase in told["phases"]][-1] == "serving"
    assert live.alive(replica.host.runner, "demo", quiet_s=0).state == live.ALIVE


def test_a_taken_port_is_no_matter_there(replica: Replica) -> None:
    """Its server answers health only; the schedulers talk to node 0 by other ports."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        replica.second(port=other.getsockname()[1])
        assert replica.wait()["state"] == "ready"


def test_not_ready_before_the_others_are(host: Host, tmp_path: Path) -> None:
    Replica(host, tmp_path, "0.5.23").second()
    told = ready_or_not(host, timeout=2, extend_while_progressing=False)
    assert told["state"] == "timeout" and told["failure"]["phase"] == "dist_init"
    assert live.alive(host.runner, "demo").state == live.STARTING


def ready_or_not(host: Host, **options: Any) -> dict[str, Any]:
    try:
        return ready.wait(host.runner, "demo", Options(**options))
    except InferopsError as error:
        return error.result


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_a_worker_that_dies_while_another_is_waited_for(host: Host, tmp_path: Path, release: str) -> None:
    """The main process waits for its workers in their order: the death of the second goes unnoticed, in any release."""
    replica = Replica(host, tmp_path, release, tp=4)
    with replica.first:
        server = replica.second()
        assert replica.wait()["state"] == "ready"
        kill(server.children()[1])
        told = replica.wait()
        assert (told["state"], told["failure"]["category"]) == ("failed", "child_sigkill_zombie_service")
        assert server.process.poll() is None and server.ask("GET", "/health")[0] == 200
        assert live.alive(host.runner, "demo").state == live.DEAD


def test_the_end_of_the_first_worker_is_no_clean_stop(replica: Replica) -> None:
    """The main process then ends with status 0, as after a stop."""
    server = replica.second()
    assert replica.wait()["state"] == "ready"
    kill(server.children()[0])
    assert server.process.wait(10) == 0
    told = replica.wait()
    assert (told["state"], told["failure"]["category"]) == ("failed", "child_sigkill")


def test_it_waits_longer_than_a_host_alone(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own work is done, and it waits for another host that is slower: nothing moves here, and nothing is wrong."""
    monkeypatch.setattr(watch, "PATIENCE", dict.fromkeys(ms.PHASES, 1.0))
    monkeypatch.setattr(ms, "PATIENCE_WITH_OTHERS", 60)
    Replica(host, tmp_path, "0.5.23").second()
    assert ready_or_not(host, timeout=3, extend_while_progressing=False)["state"] == "timeout"


def node(release: str, **more: Any) -> Log:
    """The second of two hosts, up to its weights."""
    log = Log(release, tp=8).arguments(nnodes=2, node_rank=1, **more)
    log.local = range(4, 8)
    return log


def judged(log: Log, unit: str = "active", after: float = 1.0) -> State:
    reader = Reader()
    reader.feed(log.data)
    reader.finish()
    return judge(reader.story, Observation(unit=unit, now=moment(log.now) + after))


@pytest.mark.parametrize("release", RELEASES)
def test_ready_by_its_own_word(release: str) -> None:
    log = node(release).dist().weights().pool()
    assert judged(log).verdict == "still_starting"
    assert judged(log.say(DUMMY)).verdict == "ready"


def test_the_ranks_of_other_hosts_are_not_missing() -> None:
    state = judged(node("0.5.9").dist(missing=["TP6"]), after=1000)
    assert (state.verdict, state.category, state.rank) == ("stalled", "dist_init_hang", "TP6")


def test_other_hosts_may_take_their_time() -> None:
    log = node("0.5.9").dist().weights().pool()
    assert judged(log, after=700).verdict == "still_starting"
    assert judged(log, after=1000).verdict == "stalled"


@pytest.mark.parametrize(("code", "verdict"), [(-9, "failed"), (1, "failed"), (0, "stopped")])
def test_the_end_of_its_workers(code: int, verdict: str) -> None:
    log = node("0.5.9").dist().weights().pool().say(DUMMY)
    log.later(60).say(f"Scheduler or DataParallelController 4711 terminated with {code}")
    assert judged(log, unit="dead:exit=0").verdict == verdict


def test_a_stop_is_a_stop() -> None:
    log = node("0.5.23").dist().weights().pool().say(DUMMY).later(60)
    log.say("SIGTERM received on node_rank 1; waiting for the rank-0 ShutdownReq broadcast to stop the schedulers.")
    log.say("Scheduler or DataParallelController 4711 terminated with -15")
    assert judged(log, unit="dead:exit=0").verdict == "stopped"
