"""The module's logic against the real gateway and stand-in servers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import probe, worker
from ansible_collections.inferops.sglang.plugins.module_utils.http_call import request
from stand_in.running import StandIn

from .conftest import Gateway

pytestmark = pytest.mark.index
TIMES = {"drain_timeout": 30.0, "routable_timeout": 30.0}


class Stream(threading.Thread):
    """A streaming generation through the gateway; ``ended`` says how."""

    def __init__(self, port: int, tokens: int) -> None:
        super().__init__(daemon=True)
        self.port, self.tokens = port, tokens
        self.began = threading.Event()
        self.ended = ""
        self.worker: str | None = None

    def run(self) -> None:
        body = {
            "model": "/srv/m",
            "text": f"{id(self)} long",
            "stream": True,
            "sampling_params": {"max_new_tokens": self.tokens},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/generate", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        self.worker = answer.getheader(probe.ROUTED)
        last = b""
        for line in answer:
            self.began.set()
            last = line.strip() or last
        self.ended = last.decode()


def test_a_worker_comes_is_drained_with_its_streams_whole_and_goes(
    gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    front = gateway()
    with StandIn(tmp_path, "0.5.23", tok_s=150) as one, StandIn(tmp_path, "0.5.9", tok_s=150) as two:
        for server in (one, two):
            server.wait_ready()
            done = worker.ensure(front.settings, server.url, "present", **TIMES)
            assert (done["changed"], done["routable"]) == (True, True)
            assert worker.ensure(front.settings, server.url, "present", **TIMES)["changed"] is False
        streams = [Stream(front.settings.port, 450) for dummy in range(4)]
        for stream in streams:
            stream.start()
        assert all(stream.began.wait(10) for stream in streams)
        assert {stream.worker for stream in streams} == {one.url, two.url}

        done = worker.ensure(front.settings, two.url, "drained", **TIMES)
        assert (done["changed"], done["in_flight"], done["routable"]) == (True, 0, False)
        assert done["drained_s"] > 1  # the streams had about 3 s to go
        on_two = [stream for stream in streams if stream.worker == two.url]
        for stream in on_two:
            stream.join(2)
        assert [stream.ended for stream in on_two] == ["data: [DONE]"] * len(on_two)
        for dummy in range(5):
            assert probe.generation(front.settings, "/srv/m")[0] == one.url
        assert worker.ensure(front.settings, two.url, "drained", **TIMES)["changed"] is False
        assert worker.ensure(front.settings, two.url, "known", **TIMES)["changed"] is False
        assert worker.ensure(front.settings, two.url, "absent", **TIMES)["changed"] is True
        assert worker.ensure(front.settings, two.url, "known", **TIMES)["changed"] is True
        for stream in streams:
            stream.join(10)
        assert {stream.ended for stream in streams} == {"data: [DONE]"}


def test_a_drain_is_bounded_and_says_what_still_runs(gateway: Callable[..., Gateway], tmp_path: Path) -> None:
    front = gateway()
    with StandIn(tmp_path, "0.5.23", tok_s=20) as server:
        server.wait_ready()
        worker.ensure(front.settings, server.url, "present", **TIMES)
        stream = Stream(front.settings.port, 400)
        stream.start()
        assert stream.began.wait(10)
        done = worker.ensure(front.settings, server.url, "drained", drain_timeout=1.0, routable_timeout=1.0)
        assert done["in_flight"] == 1
        assert 1.0 <= done["drained_s"] < 5


def test_the_last_but_so_many_workers_are_not_taken_out(gateway: Callable[..., Gateway], tmp_path: Path) -> None:
    front = gateway()
    with StandIn(tmp_path) as one, StandIn(tmp_path) as two:
        for server in (one, two):
            server.wait_ready()
            worker.ensure(front.settings, server.url, "present", **TIMES)
        assert worker.ensure(front.settings, one.url, "drained", min_routable=1, **TIMES)["in_flight"] == 0
        with pytest.raises(InferopsError, match=r"0 other\(s\) would be left \(none\)"):
            worker.ensure(front.settings, two.url, "drained", min_routable=1, drain_timeout=30.0, routable_timeout=1.0)
        assert probe.generation(front.settings, "/srv/m")[0] == two.url


def test_a_gateway_that_restarts_is_waited_for_before_a_worker_is_taken_out(
    gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    front = gateway()
    with StandIn(tmp_path) as one, StandIn(tmp_path) as two:
        for server in (one, two):
            server.wait_ready()
            worker.ensure(front.settings, server.url, "present", **TIMES)
        front.kill()
        with pytest.raises(InferopsError, match="does not say who else is ready"):
            worker.ensure(front.settings, one.url, "drained", min_routable=1, drain_timeout=1, routable_timeout=1)
        back = threading.Timer(2, front.start)
        back.start()
        done = worker.ensure(front.settings, one.url, "drained", min_routable=1, **TIMES)
        back.join()
        assert (done["changed"], done["in_flight"]) == (True, 0)


def test_after_a_crash_the_gateway_has_the_same_workers(gateway: Callable[..., Gateway], tmp_path: Path) -> None:
    front = gateway()
    with StandIn(tmp_path) as one, StandIn(tmp_path) as two:
        for server in (one, two):
            server.wait_ready()
            worker.ensure(front.settings, server.url, "present", **TIMES)
        worker.ensure(front.settings, two.url, "drained", **TIMES)
        front.kill()
        front.start()
        assert worker.until_routable(front.settings, one.url, 30, worker.Clock()) < 30
        for dummy in range(5):
            assert probe.generation(front.settings, "/srv/m")[0] == one.url


def test_a_worker_that_is_not_there_is_not_routable_and_the_message_says_why(
    gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    front = gateway()
    with pytest.raises(InferopsError, match="not routable after 2 s") as caught:
        worker.ensure(front.settings, "http://127.0.0.1:9", "present", drain_timeout=1, routable_timeout=2)
    assert caught.value.result["routable"] is False


def test_the_control_plane_is_closed_without_the_key_and_clients_need_the_workers_key(
    gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    front = gateway(worker_key="w0rker")
    with StandIn(tmp_path, options=["--api-key=w0rker"]) as server:
        server.wait_ready()
        assert worker.ensure(front.settings, server.url, "present", **TIMES)["routable"]
        url = front.settings.url
        assert request("GET", f"{url}/workers").status == 401
        assert request("POST", f"{url}/workers", {"url": "http://127.0.0.1:9"}).status == 401
        body = {"model": "/srv/m", "text": "a", "sampling_params": {"max_new_tokens": 1}}
        assert request("POST", f"{url}/generate", body).status == 401
        assert request("POST", f"{url}/generate", body, key="w0rker").status == 200


def test_bad_requests_of_clients_do_not_take_a_worker_out(gateway: Callable[..., Gateway], tmp_path: Path) -> None:
    front = gateway()
    with StandIn(tmp_path) as server:
        server.wait_ready()
        worker.ensure(front.settings, server.url, "present", **TIMES)
        body = {"model": "/srv/m", "text": "a", "sampling_params": {"temperature": -1}}
        statuses = {request("POST", f"{front.settings.url}/generate", body).status for dummy in range(40)}
        assert statuses == {400}
        assert probe.generation(front.settings, "/srv/m")[0] == server.url


def test_an_option_that_the_gateway_does_not_have_is_named(gateway_python: Path, tmp_path: Path) -> None:
    import subprocess

    from .conftest import ROLE

    (tmp_path / "s.json").write_text('{"admin_key": "a"}')
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"secrets": str(tmp_path / "s.json"), "options": {"polcy": "x"}}))
    done = subprocess.run(
        [str(gateway_python), str(ROLE / "files" / "launch.py"), str(config)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no option 'polcy'; did you mean 'policy'?" in done.stderr


@pytest.mark.parametrize("release", ["0.5.9", "0.5.15", "0.5.23"])
def test_every_release_says_what_runs_on_it(tmp_path: Path, release: str) -> None:
    with StandIn(tmp_path, release, ["--enable-metrics"], tok_s=50) as server:
        server.wait_ready()
        assert probe.in_flight(server.url) == 0
        asking = threading.Thread(target=server.generate, args=(100,))
        asking.start()
        end = time.monotonic() + 5
        while probe.in_flight(server.url) != 1:
            assert time.monotonic() < end
            time.sleep(0.02)
        asking.join()
        assert probe.in_flight(server.url) == 0
    assert probe.in_flight(server.url) == 0
