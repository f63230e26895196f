"""The page on troubleshooting is what the tables say, and the tables are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import milestones as ms
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import signatures as sig
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.categories import CATEGORIES
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.exceptions import EXCEPTIONS
from ansible_collections.inferops.sglang.plugins.plugin_utils import troubleshooting

PAGE = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"
# Settled into another category before anyone sees them.
INNER = {"child_exit", "rank_dead", "peer"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == troubleshooting.page(), "write it again: see plugins/plugin_utils/troubleshooting.py"


@pytest.mark.parametrize("name", CATEGORIES)
def test_every_category_is_on_the_page(name: str) -> None:
    assert f"### `{name}`" in troubleshooting.page()


def test_every_signature_has_a_category() -> None:
    used = {entry.category for entry in (*EXCEPTIONS, *sig.LINES)} | {
        entry.category for entry, dummy in sig.EXPLANATIONS
    }
    assert used - INNER - set(CATEGORIES) == set()
    explained = {name for dummy, names in sig.EXPLANATIONS for name in names}
    assert explained - INNER - set(CATEGORIES) == set()


def test_every_phase_has_a_progress_category_and_a_patience() -> None:
    for phase in ms.PHASES:
        assert ms.progress_category(phase) in CATEGORIES
    assert set(ms.PATIENCE) | {ms.SERVING} == set(ms.PHASES)
