"""Numbers and addresses that cannot be right, told with instance, key, what was found and what was wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils import described, ranges

GOOD = {"name": "kimi", "model_path": "/m", "lock": "l"}
OPTIONS = [json.loads(path.read_text()) for path in (Path(__file__).parent.parent / "server").glob("options-*.json")]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("port", 99999, "'port' is 99999; it must be between 1 and 65535"),
        ("port", "0", "'port' is 0"),
        ("drain_timeout", -1, "'drain_timeout' is -1; it must be 0 or more"),
        ("speculative", {"eagle_topk": 0}, "'speculative.eagle_topk' is 0; it must be 1 or more"),
        ("args", {"max_total_tokens": -5}, "'args.max_total_tokens' is -5; it must be 1 or more"),
        ("args", {"--tp": "0"}, "'args.--tp' is 0; it must be 1 or more"),
        ("args", {"tensor-parallel-size": 0}, "'args.tensor-parallel-size' is 0"),
        ("args", {"mem_fraction_static": 3}, "'args.mem_fraction_static' is 3; it must be between 0 and 1"),
        ("args", {"mem_fraction_static": "88"}, "'args.mem_fraction_static' is 88"),
        ("args", {"context_length": "-1k"}, "'args.context_length' is -1k"),
        ("args", {"node_rank": -1}, "'args.node_rank' is -1; it must be 0 or more"),
        ("args", {"grpc_port": 70000}, "'args.grpc_port' is 70000"),
        ("host", "10.0.0.300", "'host' is '10.0.0.300', which is no IP address"),
        ("host", "1.2.3", "no IP address"),
        ("host", "0.0.0.0:30000", "the port is an option of its own"),
        ("host", "http://gpu-01", "give the address alone"),
        ("host", "[::]", "give the address alone"),
        ("host", "gpu 01", "'host' is 'gpu 01'; wanted an address"),
        ("host", "-gpu", "wanted an address"),
        ("host", "", "wanted an address"),
        ("memory_max", "500 GB", "'memory_max' is '500 GB'; wanted bytes"),
    ],
)
def test_a_value_out_of_its_range(key: str, value: Any, words: str) -> None:
    (problem,) = described.problems([{**GOOD, key: value}])
    assert problem.startswith("instance 'kimi': ") and words in problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", "30000"),
        ("liveness_interval", 0),
        ("memory_max", "1.5T"),
        ("memory_max", "80%"),
        ("host", "::"),
        ("host", "fe80::1%eth0"),
        ("host", "localhost"),
        ("host", "gpu-01.example.com."),
        ("host", "gpu_01"),
        ("args", {"chunked_prefill_size": -1, "context_length": "32Ki", "max_total_tokens": "1.5M", "random_seed": -1}),
        ("args", {"tp_size": None, "mem_fraction_static": ".88", "schedule_conservativeness": 0}),
        ("args", {"mem_fraction_static": True, "tp_size": "eight"}),
    ],
)
def test_what_may_be_right_or_is_for_the_release_to_judge(key: str, value: Any) -> None:
    assert described.problems([{**GOOD, key: value}]) == []


def test_every_bounded_option_is_one_of_a_release() -> None:
    known = {option["dest"] for release in OPTIONS for option in release["options"]}
    spelled = {
        name.lstrip("-").replace("-", "_") for release in OPTIONS for o in release["options"] for name in o["names"]
    }
    assert set(ranges.ARGS) <= known | spelled
