"""From the inventory's words to what modules take."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired

KIMI = {"kimi": {"model_path": "/m", "args": {"tp_size": 8}, "env": {"A": "1"}}, "chat": None}


def test_a_list_with_names() -> None:
    assert desired.instances(KIMI) == [
        {"name": "kimi", "model_path": "/m", "args": {"tp_size": 8}, "env": {"A": "1"}},
        {"name": "chat"},
    ]


def test_overrides_merge_mappings_and_replace_the_rest_without_touching_the_inventory() -> None:
    (kimi,) = desired.instances(KIMI, {"kimi": {"env": {"B": "2"}, "model_path": "/n"}}, only=["kimi"])
    assert kimi["env"] == {"A": "1", "B": "2"}
    assert kimi["model_path"] == "/n"
    assert KIMI["kimi"] == {"model_path": "/m", "args": {"tp_size": 8}, "env": {"A": "1"}}


@pytest.mark.parametrize("arguments", [{"override": {"kimmi": {}}}, {"only": ["kimmi"]}])
def test_an_unknown_name_is_refused_with_the_nearest(arguments: dict[str, object]) -> None:
    with pytest.raises(InferopsError, match="'kimmi' is not described.*did you mean 'kimi'"):
        desired.instances(KIMI, **arguments)


def test_a_list_in_place_of_names_is_refused() -> None:
    with pytest.raises(InferopsError, match="is a list; wanted a mapping of names"):
        desired.instances([{"name": "kimi"}])


def test_an_instance_without_a_lock_is_refused_with_what_there_is() -> None:
    with pytest.raises(InferopsError, match="'chat' has no lock.*sglang-0.5.9-cu130"):
        desired.complete([{"name": "chat", "model_path": "/m"}])


def test_instances_of_one_lock_and_the_same_patches_share_a_build() -> None:
    one, two, three = (
        {"name": "a", "model_path": "/m", "lock": "sglang-0.5.9-cpu", "patches": ["sm120_multimem"]},
        {"name": "b", "model_path": "/m", "lock": "sglang-0.5.9-cpu", "patches": ["sm120_multimem"]},
        {"name": "c", "model_path": "/m", "lock": "sglang-0.5.9-cpu"},
    )
    listed = desired.complete([one, two, three])
    ids = [instance["build"]["build_id"] for instance in listed]
    assert ids[0] == ids[1] != ids[2]
    assert listed[0]["build"]["patches"] == ["sm120_multimem"]


@pytest.mark.parametrize(
    ("secrets", "named"),
    [
        ({"api_key": "k"}, "api_key"),
        ({"api_key": "kimi"}, "api_key"),
        ({"admin_api_key": "none"}, "admin_api_key"),
        ({"secret_env": {"FLAG": 1}}, "secret_env.FLAG"),
        ({"secret_env": {"FLAG": True}}, "secret_env.FLAG"),
        ({"secret_env": {"PIN": "90210"}}, "secret_env.PIN"),
        ({"secret_env": {"LOCK": "sglang-0.5.9"}}, "secret_env.LOCK"),
    ],
)
def test_a_secret_that_would_hide_the_plan_is_refused(secrets: dict[str, Any], named: str) -> None:
    """Ansible hides it in the name of every build, say, and nothing would be found to make."""
    instance = {"name": "kimi", "model_path": "/m", "lock": "sglang-0.5.9-cpu", **secrets}
    with pytest.raises(InferopsError, match=f"^instance 'kimi': the value of {named} stands in names"):
        desired.complete([instance])


def test_other_secrets_are_taken() -> None:
    secrets = {
        "api_key": "sk-1",
        "admin_api_key": "it's-a-$key",
        "secret_env": {"PIN": "902101", "EMPTY": "", "N": None},
    }
    assert desired.complete([{"name": "kimi", "model_path": "/m", "lock": "sglang-0.5.9-cpu", **secrets}])
