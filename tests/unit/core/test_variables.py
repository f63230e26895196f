"""Variables of an inventory with a slip in their name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.plugin_utils import variables

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sglang_find_link", "sglang_find_links"),
        ("sglang_instance", "sglang_instances"),
        ("sglang_instances_overide", "sglang_instances_override"),
        ("sglang_pyhton", "sglang_python"),
        ("sglang_wheel", "sglang_wheels"),
        ("sglang_index", "sglang_indexes"),
        ("sglang_gateway_worker", "sglang_gateway_workers"),
        ("sglang_findlinks", "sglang_find_links"),
        ("sglang_gatway_port", "sglang_gateway_port"),
        ("sglang_ready_timout", "sglang_ready_timeout"),
    ],
)
def test_a_slip_is_named_with_what_was_meant(name: str, meant: str) -> None:
    (problem,) = variables.misspelt({name: ["/x"], "sglang_python": "/usr/bin/python3", "other": 1})
    assert f"sets '{name}', which nothing reads; did you mean '{meant}'?" in problem


@pytest.mark.parametrize(
    "given",
    [
        {"sglang_find_links": []},
        {"sglang_planned": {}, "sglang_started": {}, "sglang__instances": ""},
        {"sglang_model_folder": "/m", "sglang_result": {}},
        {"find_link": []},
        # a helper of the inventory's own
        {"sglang_host": "10.0.0.1", "sglang_instances": {"kimi": {"host": "{{ sglang_host }}"}}},
    ],
)
def test_what_is_read_or_resembles_nothing_is_left_alone(given: dict[str, Any]) -> None:
    assert variables.misspelt(given) == []


def test_what_a_variable_says_of_itself_does_not_count() -> None:
    given = {"sglang_wheel": "{{ sglang_wheel }}", "hostvars": "sglang_wheel", "vars": "sglang_wheel"}
    assert len(variables.misspelt(given)) == 1


def _read() -> set[str]:
    """The words in roles and playbooks that look like variables of ours."""
    found = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            text = "\n".join(line.partition("#")[0] for line in path.read_text().splitlines())
            found |= set(re.findall(r"(?<![\w./-])sglang_[a-z]\w*(?!\w*[./-])", text))
    return found


def test_the_names_are_those_that_roles_and_playbooks_read() -> None:
    files = (ROOT / "roles").glob("*/meta/argument_specs.yml")
    specs = [yaml.safe_load(path.read_text())["argument_specs"] for path in files]
    declared = {name for spec in specs for entry in spec.values() for name in entry.get("options", {})}
    plugins = "".join(path.read_text() for path in (ROOT / "plugins").glob("*/*.py") if path.stem != "variables")
    elsewhere = {name for name in variables.PUBLIC if f'"{name}"' in plugins}
    assert declared <= variables.PUBLIC <= declared | _read() | elsewhere


def test_what_our_own_tasks_keep_resembles_nothing() -> None:
    assert variables.misspelt(dict.fromkeys(_read())) == []
