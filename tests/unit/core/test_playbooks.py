"""What playbooks need to have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOKS = [*sorted((ROOT / "playbooks").glob("*.yml")), *sorted((ROOT / "tests" / "integration").glob("*.yml"))]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_who_uses_the_rendered_instances_outside_the_role_reads_where_they_are_rendered(path: Path) -> None:
    text = path.read_text()
    if "roles/sglang/tasks/plan.yml" in text or "sglang__instances" in text:
        assert "roles/sglang/vars/main.yml" in text


def test_a_rollout_looks_whether_it_may_go_on_before_each_batch() -> None:
    """Behind a batch it would not do: where all its hosts were left alone, nothing of the batch runs any more."""
    (play,) = [play for play in yaml.safe_load((ROOT / "playbooks" / "rollout.yml").read_text()) if "serial" in play]
    look, stop, change = play["tasks"]
    assert "inferops.sglang.sglang_rollout" in look
    assert stop["ansible.builtin.meta"] == "end_play"
    assert "ansible.builtin.include_tasks" in change
