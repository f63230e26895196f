"""What a description of a server may say."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec
from server_samples import instance


def said(*instances: dict[str, Any]) -> str:
    with pytest.raises(InferopsError) as error:
        spec.validate(instances)
    return error.value.message


def test_a_plain_instance_is_right() -> None:
    spec.validate([instance()])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "Kimi"}, "lower-case"),
        ({"name": "builds"}, "taken by a folder"),
        ({"name": "toolkits"}, "taken by a folder"),
        ({"name": "gateway"}, "taken by a folder or a unit"),
        ({"name": "kimi-liveness"}, "taken by a folder or a unit"),
        ({"name": "a/b"}, "lower-case"),
        ({"mode": "in_place"}, "needs 'python'"),
        ({"gpus": ["first"]}, "'first'"),
        ({"gpus": []}, "empty list"),
        ({"gpus": ["0", "0"]}, "twice"),
        ({"args": {"model-path": "/x"}}, "set it as 'model_path'"),
        ({"args": {"api_key": "x"}}, "set it as 'api_key'"),
        ({"args": {"speculative_num_steps": 3}}, "speculative.num_steps"),
        ({"args": {"tp_size": 1, "tp-size": 2}}, "twice"),
        ({"env": {"A B": "x"}}, "not a name"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "through 'gpus'"),
        ({"env": {"A": ["x"]}}, "must be a string"),
        ({"env": {"A": "x\0"}}, "NUL"),
        ({"env": {"A": "1"}, "secret_env": {"A": "2"}}, "in env and in secret_env"),
        ({"api_key": "-x"}, "must not begin with '-'"),
        ({"api_key": "a b"}, "without blanks"),
        ({"model_path": ""}, "empty"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], words: str) -> None:
    assert words in said(instance(**given))


def test_every_problem_is_in_one_message() -> None:
    message = said(instance(gpus=[], env={"A B": "x"}), instance(name="Other", gpus=["x"]))
    assert "empty list" in message
    assert "not a name" in message
    assert "'x'" in message
    assert "Other" in message


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({}, {}, "more than once"),
        ({"name": "a"}, {"name": "b"}, "both listen on port 30000"),
        ({"name": "a", "host": "0.0.0.0"}, {"name": "b", "host": "10.0.0.1"}, "both listen"),
        ({"name": "a", "gpus": ["0", "1"]}, {"name": "b", "port": 1, "gpus": ["1"]}, "both use GPU 1"),
    ],
)
def test_instances_of_one_host_that_clash(one: dict[str, Any], other: dict[str, Any], words: str) -> None:
    assert words in said(instance(**one), instance(**other))


def test_disjoint_instances_are_right() -> None:
    spec.validate([instance(name="a", gpus=["0"]), instance(name="b", port=30001, gpus=["1"])])


def test_two_instances_may_share_a_gpu_where_both_say_what_they_take() -> None:
    one = instance(name="a", gpus=["0"], args={"mem_fraction_static": 0.4})
    spec.validate([one, instance(name="b", port=30001, gpus=["0"], args={"mem-fraction-static": 0.4})])
    assert "both use GPU 0; set mem_fraction_static" in said(one, instance(name="b", port=30001, gpus=["0"]))


def _compare(documented: dict[str, Any], options: dict[str, Any]) -> None:
    assert list(documented) == list(options)
    for name, option in options.items():
        page = documented[name]
        assert page["type"] == option["type"], name
        assert page.get("required", False) == option.get("required", False), name
        assert page.get("default") == option.get("default"), name
        assert page.get("choices") == option.get("choices"), name
        assert page.get("elements") == option.get("elements"), name
        if "options" in option:
            _compare(page["suboptions"], option["options"])


def test_the_documentation_says_what_the_argument_spec_says() -> None:
    fragment = importlib.import_module("ansible_collections.inferops.sglang.plugins.doc_fragments.instance")
    documented = yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)["options"]["instances"]
    _compare(documented["suboptions"], spec.INSTANCE_OPTIONS)
