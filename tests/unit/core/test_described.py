"""The form of the inventory's description, told with the instance, the key, what was found and what was wanted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import described, desired

GOOD = {"name": "kimi", "model_path": "/m", "lock": "l"}


def test_unknown_keys_have_a_suggestion() -> None:
    wrong = {**GOOD, "modelpath": "/x", "tp_size": 8, "speculative": {"num_step": 2}}
    problems = described.problems([wrong])
    assert "did you mean 'model_path'?" in problems[0]
    assert "an option of SGLang itself belongs under 'args'" in problems[1]
    assert "did you mean 'num_steps'?" in problems[2]
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model_path", None, "'kimi' has no 'model_path'"),
        ("model_path", ["/m"], "'model_path' is a list; wanted a text"),
        ("port", True, "'port' is true; wanted a whole number"),
        ("port", "http", "'port' is the text 'http'; wanted a whole number"),
        ("port", 3.5, "'port' is the number 3.5; wanted a whole number"),
        ("api_key", True, "put the text in quotes"),
        ("speculative", "EAGLE3", "'speculative' is the text 'EAGLE3'; wanted a mapping of names to values (algorithm"),
        ("speculative", {"num_steps": "two"}, "'speculative': 'num_steps' is the text 'two'; wanted a whole number"),
        ("args", "tp_size=8", "'args' is the text 'tp_size=8'; wanted a mapping"),
        ("env", ["A=1"], "'env' is a list; wanted a mapping"),
        ("gpus", {"a": 1}, "'gpus' is a mapping; wanted a list"),
        ("gpus", [True], "element 0 of 'gpus' is true"),
        ("patches", [3], "element 0 of 'patches' is the number 3; wanted a text"),
        ("core_dumps", "perhaps", "'core_dumps' is the text 'perhaps'; wanted true or false"),
    ],
)
def test_a_value_of_the_wrong_kind(key: str, value: Any, words: str) -> None:
    (problem,) = described.problems([{**GOOD, key: value}])
    assert words in problem
    assert "'kimi'" in problem
    assert "Ansible" not in problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", "30000"),
        ("gpus", "all"),
        ("gpus", 0),
        ("gpus", [0, "1"]),
        ("api_key", 12345),
        ("core_dumps", "yes"),
        ("patches", "sm120_multimem, sm120_symm_mem"),
        ("patches", [{"name": "ours"}]),
        ("speculative", {"policy": "never"}),
    ],
)
def test_what_ansible_takes_is_right(key: str, value: Any) -> None:
    assert described.problems([{**GOOD, key: value}]) == []


def test_a_secret_of_the_wrong_kind_is_not_shown() -> None:
    (problem,) = described.problems([{**GOOD, "secret_env": "HF_TOKEN=hf-planted"}])
    assert "planted" not in problem


@pytest.mark.parametrize("value", ["yes", [1], 3, True])
def test_an_instance_that_is_no_mapping(value: Any) -> None:
    with pytest.raises(InferopsError, match="instance 'tiny' is .*; wanted a mapping"):
        desired.instances({"tiny": value})


@pytest.mark.parametrize("value", [[{"name": "kimi"}], "kimi", 3])
def test_descriptions_that_are_no_mapping(value: Any) -> None:
    with pytest.raises(InferopsError, match="sglang_instances is .*; wanted a mapping of names to instances"):
        desired.instances(value)


def test_patches_in_one_text_are_as_many_patches() -> None:
    one = {"name": "a", "model_path": "/m", "lock": "sglang-0.5.9-cpu", "patches": "sm120_multimem, sm120_symm_mem"}
    two = {**one, "patches": ["sm120_multimem", "sm120_symm_mem"]}
    first, second = (done["build"]["build_id"] for done in desired.complete([one, two]))
    assert first == second
