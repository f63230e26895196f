"""One run at a time on an instance."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import ready
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.watch import Options
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.server import lease, service

ONE = {"id": "c/1/1", "controller": "c"}
TWO = {"id": "c/2/2", "controller": "c"}


def test_it_is_taken_renewed_and_given_back(host: Path) -> None:
    lease.take("kimi", ONE, term=10, now=100)
    lease.take("kimi", ONE, term=10, now=105)
    assert json.loads(Path(layout.Instance("kimi").lease).read_text())["expires_at"] == 115
    lease.release("kimi", TWO)
    assert os.path.exists(layout.Instance("kimi").lease)
    lease.release("kimi", ONE)
    lease.take("kimi", TWO, now=106)


def test_another_run_waits_until_it_expires(host: Path) -> None:
    lease.take("kimi", ONE, term=10, now=100)
    with pytest.raises(InferopsError, match=r"c/1/1 from c, until 00:01:50 UTC .* remove .*lease\.json") as error:
        lease.take("kimi", TWO, now=109)
    assert error.value.result["lease"]["id"] == "c/1/1"
    lease.take("kimi", TWO, now=111)


def test_a_run_that_is_known_to_be_over_is_no_obstacle(host: Path) -> None:
    lease.take("kimi", ONE, now=100)
    lease.take("kimi", {**TWO, "break_id": "c/1/1"}, now=101)
    with pytest.raises(InferopsError):
        lease.take("kimi", {**ONE, "break_id": "c/3/3"}, now=102)


def until(name: str = "kimi") -> float:
    return float(json.loads(Path(layout.Instance(name).lease).read_text())["expires_at"])


class Clock:
    """Tells the time to the lease and to whoever renews it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(lease.time, "time", lambda: self.now)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("hours", [1, 12])
def test_a_wait_of_hours_holds_it_all_the_time(host: Path, clock: Clock, hours: int) -> None:
    lease.take("kimi", ONE)
    renewed = lease.Renewed("kimi", ONE, clock)
    for dummy in range(hours * 1800):
        renewed.tick()
        assert until() > clock.now + lease.TERM / 2
        with pytest.raises(InferopsError):
            lease.take("kimi", TWO)
        clock.now += 2


def test_a_renewal_makes_it_no_shorter_and_is_none_of_another_run(host: Path, clock: Clock) -> None:
    lease.Renewed("kimi", ONE, clock).renew()
    assert not os.path.exists(layout.Instance("kimi").lease), "who only looks takes no lease"
    lease.take("kimi", ONE, term=5000)
    for run in (ONE, TWO, None):
        lease.Renewed("kimi", run, clock).renew()
        assert until() == 6000
    lease.take("kimi", ONE)
    assert until() == 6000
    lease.Renewed("kimi", ONE, clock).renew(9000)
    assert until() == 10000


def test_a_full_disk_ends_no_wait(host: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*dummy: object) -> None:
        raise OSError(28, "No space left on device")

    lease.take("kimi", ONE)
    monkeypatch.setattr(lease, "write_atomic", full)
    clock.now += lease.TERM - 1
    lease.Renewed("kimi", ONE, clock).tick()
    assert until() == 1000 + lease.TERM


def test_a_wait_for_a_server_holds_it(host: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watch:
        def __init__(self, dummy: object, name: str, options: Options) -> None:
            self.options = options

        def wait(self) -> None:
            clock.now += lease.TERM - 10
            self.options.alive()
            raise InferopsError("it loads")

    monkeypatch.setattr(ready, "Watch", Watch)
    lease.take("kimi", ONE)
    with pytest.raises(InferopsError, match="it loads"):
        ready.wait(_nobody, "kimi", Options(), run=ONE)
    assert until() == clock.now + lease.TERM


def test_who_is_done_gives_back_what_is_his(host: Path) -> None:
    lease.release("kimi", ONE)
    for name in ("a", "b"):
        lease.take(name, ONE)
    lease.take("c", TWO)
    given = {"state": service.RELEASED, "enabled": True, "adopting": False, "holder": ONE}
    named = [{"name": name} for name in "abcd"]
    plan, dummy = service.run(_nobody, named, check_mode=True, **given)
    assert os.path.exists(layout.Instance("a").lease)
    plan, dummy = service.run(_nobody, named, check_mode=False, **given)
    assert not plan.changed
    assert [os.path.exists(layout.Instance(name).lease) for name in "abcd"] == [False, False, True, False]


def _nobody(*dummy: object, **words: object) -> Completed:
    raise AssertionError("nothing is looked at")
