"""What playbooks need to have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOKS = [*sorted((ROOT / "playbooks").glob("*.yml")), *sorted((ROOT / "tests" / "integration").glob("*.yml"))]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_who_uses_the_rendered_instances_outside_the_role_reads_where_they_are_rendered(path: Path) -> None:
    text = path.read_text()
    if "roles/sglang/tasks/plan.yml" in text or "sglang__instances" in text:
        assert "roles/sglang/vars/main.yml" in text
