"""Every variant of every kind of failure gets its verdict, category, cause line and rank."""

from __future__ import annotations

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.categories import CATEGORIES
from variants import (
    ALL,
    alarms,
    compilers,
    distributed,
    found,
    host,
    kernels,
    memory,
    model,
    noise,
    serving,
    speculation,
    words,
)

FILES = (alarms, compilers, distributed, host, kernels, memory, model, noise, serving, speculation, words)


@pytest.mark.parametrize("name", list(ALL))
def test_variant(name: str) -> None:
    wanted = ALL[name]()
    state = found(wanted)
    assert (state.verdict, state.category) == (wanted.verdict, wanted.category), state.cause
    assert (state.cause.number if state.cause else None) == wanted.line, state.cause
    assert state.rank == wanted.rank
    if wanted.phase:
        assert state.phase == wanted.phase
    if wanted.was_ready is not None:
        assert state.was_ready is wanted.was_ready
    assert state.category in CATEGORIES
    assert state.hint or state.verdict in ("ready", "still_starting", "stopped")


@pytest.mark.parametrize("category", [name for name in CATEGORIES if CATEGORIES[name].kind != "progress"])
def test_every_category_has_a_variant_or_is_the_waits_own(category: str) -> None:
    """A category that no variant reaches is one that nothing proves."""
    known = {ALL[name]().category for name in ALL}
    assert category in known | {"no_generation", "generation_failed", "not_running", "process_stopped"}


def test_the_hint_names_the_value_that_the_release_has_worked_out() -> None:
    assert "above 0.412" in found(memory.kv_budget_0523_names_the_minimum()).hint


def test_the_hint_names_the_backend_that_the_draft_inherited() -> None:
    assert "trtllm_mla" in found(speculation.the_draft_inherits_an_mla_backend()).hint


def test_a_start_that_dies_at_import_was_not_ready_though_an_earlier_one_was() -> None:
    assert found(noise.a_start_that_dies_at_import_after_a_clean_stop()).was_ready is False


def test_the_hint_says_that_there_are_fewer_cards_than_ranks() -> None:
    assert "fewer GPUs than it starts ranks" in found(kernels.more_ranks_than_cards()).hint
