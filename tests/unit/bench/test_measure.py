"""The client against stand-in servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.bench import client
from ansible_collections.inferops.sglang.plugins.module_utils.bench import run as bench
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from stand_in.running import StandIn

FEW = bench.Options(concurrency=(1, 3), requests=2, output_len=20, repeat=4)


def body(tokens: int) -> dict:
    return {"text": "a b c", "sampling_params": {"max_new_tokens": tokens, "temperature": 0}}


def test_every_token_of_every_request_is_counted(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", ["--speculative-algorithm=EAGLE3"], accept_length=2.0) as server:
        server.wait_ready()
        done = client.many(server.url, [body(40)] * 5, 2, None, 10)
        assert [one.tokens for one in done] == [40] * 5
        assert all(one.began < one.first < one.last for one in done)
        assert {one.tokens / one.verifies for one in done} == {2.0}


def test_figures_tell_speeds_apart_and_say_under_which_limits(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", tok_s=400) as server:
        server.wait_ready()
        fast = bench.measure(bench.Target(server.url), FEW)
        server.told(slowdown=0.5)
        slow = bench.measure(bench.Target(server.url), FEW)
    assert [level["concurrency"] for level in fast["levels"]] == [1, 3]
    assert fast["levels"][0]["output_tok_s"]["median"] > 1.3 * slow["levels"][0]["output_tok_s"]["median"]
    assert {found["decision"] for found in bench.compare(fast, slow)} == {"off"}
    assert len(bench.gate(slow, fast, 0.9, 0)) == 2
    assert fast["conditions"]["limits"]["effective_max_running_requests_per_dp"] == 48
    assert len(fast["levels"][0]["ttft_ms"]["runs"]) == 4


def test_a_useless_draft_is_seen(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.23", ["--speculative-algorithm=EAGLE3"], accept_length=1.0) as server:
        server.wait_ready()
        found = bench.measure(bench.Target(server.url), FEW)
    assert found["accept_length"] == 1.0
    assert "hardly ever right" in bench.gate(found, None, 0.9, 0)[0]


def test_no_key_leaves_the_server(tmp_path: Path) -> None:
    with StandIn(tmp_path, "0.5.15", ["--api-key=s3cret"]) as server:
        server.wait_ready()
        found = bench.measure(bench.Target(server.url, "s3cret"), FEW)
        assert "s3cret" not in repr(found)
        with pytest.raises(InferopsError, match="status 401"):
            bench.measure(bench.Target(server.url), FEW)


def test_a_cut_stream_is_no_figure(tmp_path: Path) -> None:
    import os
    import signal
    import threading

    with StandIn(tmp_path, "0.5.23", tok_s=20, crash_wait_s=0) as server:
        server.wait_ready()
        killer = threading.Timer(1.0, lambda: os.kill(server.children()[0], signal.SIGKILL))
        killer.start()
        with pytest.raises(InferopsError, match=r"requests to .* failed at concurrency 1"):
            bench.measure(bench.Target(server.url), bench.Options(concurrency=(1,), output_len=200, timeout=20))
