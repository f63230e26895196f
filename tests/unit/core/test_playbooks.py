"""What playbooks need to have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOKS = [*sorted((ROOT / "playbooks").glob("*.yml")), *sorted((ROOT / "tests" / "integration").glob("*.yml"))]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_who_uses_the_rendered_instances_outside_the_role_reads_where_they_are_rendered(path: Path) -> None:
    text = path.read_text()
    if "roles/sglang/tasks/plan.yml" in text or "sglang__instances" in text:
        assert "roles/sglang/vars/main.yml" in text


@pytest.mark.parametrize("name", ["tasks/plan.yml", "vars/main.yml"])
def test_what_playbooks_read_without_the_role_asks_for_none_of_its_defaults(name: str) -> None:
    """A bare one would hide what ``sglang__undescribed`` says of a host that describes nothing."""
    text = "\n".join(line.partition("#")[0] for line in (ROOT / "roles/sglang" / name).read_text().splitlines())
    read = re.findall(r"(?:{{|\(|\[)\s*(sglang_[a-z]\w*)(\s*\|\s*default\()?", text)
    assert read and not [variable for variable, default in read if not default]


def _tasks(found: Any) -> Iterator[dict[str, Any]]:
    """All tasks of a file, those in blocks and plays included."""
    for entry in found if isinstance(found, list) else []:
        yield entry
        for part in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from _tasks(entry.get(part))


TASK_FILES = [
    *PLAYBOOKS,
    *sorted((ROOT / "playbooks" / "tasks").glob("*.yml")),
    *sorted((ROOT / "roles").glob("*/*/*.yml")),
]


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_loops_over_instances_themselves(path: Path) -> None:
    """Ansible shows the item of a loop that fails, and an instance holds API keys: loop over names."""
    loops = [
        str(task[key])
        for task in _tasks(yaml.safe_load(path.read_text()))
        for key in task
        if key == "loop" or key.startswith("with_")
    ]
    whole = [loop for loop in loops if "sglang__instances" in loop or "instance_list" in loop]
    assert [loop for loop in whole if "map(attribute='name')" not in loop] == []


def test_a_rollout_looks_whether_it_may_go_on_before_each_batch() -> None:
    """Behind a batch it would not do: where all its hosts were left alone, nothing of the batch runs any more."""
    (play,) = [play for play in yaml.safe_load((ROOT / "playbooks" / "rollout.yml").read_text()) if "serial" in play]
    look, stop, change = play["tasks"]
    assert "inferops.sglang.sglang_rollout" in look
    assert stop["ansible.builtin.meta"] == "end_play"
    assert "ansible.builtin.include_tasks" in change


def test_what_a_plan_wants_made_the_role_makes() -> None:
    """Each list of ``sglang_plan``'s result that says what to make is worked off, and no build goes before its use."""
    tasks = yaml.safe_load((ROOT / "roles" / "sglang" / "tasks" / "install.yml").read_text())
    loops = {next(key for key in task if key.startswith("inferops.")): task.get("loop") for task in tasks[1:]}
    assert loops["inferops.sglang.python_env"] == "{{ sglang_planned.builds }}"
    assert loops["inferops.sglang.sglang_patch"] == "{{ sglang_planned.trees }}"
    (make,) = (task["inferops.sglang.python_env"] for task in tasks if "inferops.sglang.python_env" in task)
    assert "sglang__instances | length" in make["keep"]


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_who_keeps_other_runs_away_lets_them_in_again(path: Path) -> None:
    """What a task file claims, it gives back, or the one that includes it does."""
    given_back = {"rollout_change.yml": "rollout_unit.yml"}
    if "state: claimed" in path.read_text():
        assert "state: released" in path.with_name(given_back.get(path.name, path.name)).read_text()
