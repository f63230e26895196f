from __future__ import annotations

import random

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.bench import figures, keep, prompts
from ansible_collections.inferops.sglang.plugins.module_utils.bench import run as bench
from ansible_collections.inferops.sglang.plugins.module_utils.bench.client import Timed
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from hypothesis import given
from hypothesis import strategies as st


def noisy(middle: float, noise: float, count: int = 5, seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [middle * (1 + source.uniform(-noise, noise)) for dummy in range(count)]


def result(*levels: tuple[int, list[float]], accept: float | None = None) -> dict:
    return {
        "levels": [{"concurrency": n, "output_tok_s": figures.summary(runs)} for n, runs in levels],
        "accept_length": accept,
        "accept_length_most": 3,
    }


def test_the_figures_of_a_run() -> None:
    run = figures.of_run([Timed(0, 0.1, 1.0, 10, 5), Timed(0, 0.3, 2.0, 10, 5)])
    assert run["output_tok_s"] == 10
    assert run["ttft_ms"] == pytest.approx(200)
    assert run["itl_ms"] == pytest.approx(1000 * (0.1 + 1.7 / 9) / 2)
    assert run["accept_length"] == 2


def test_without_speculation_there_is_no_accept_length_and_one_token_has_no_gap() -> None:
    run = figures.of_run([Timed(0, 0.1, 0.1, 1)])
    assert (run["accept_length"], run["itl_ms"]) == (None, None)
    assert figures.summary([None, None]) is None


@pytest.mark.parametrize(
    ("ratio", "noise", "decision"),
    [
        (1.038, 0.003, "on"),
        (0.86, 0.02, "off"),
        (1.02, 0.05, "undecided"),
        (1.005, 0.0001, "undecided"),
        (0.6, 0.05, "off"),
    ],
)
def test_a_gain_counts_only_beyond_the_noise(ratio: float, noise: float, decision: str) -> None:
    found = figures.verdict(noisy(90, noise), noisy(90 * ratio, noise, seed=2))
    assert found["decision"] == decision
    assert found["ratio"] == pytest.approx(ratio, rel=2 * noise)


def test_one_disturbed_run_spoils_nothing() -> None:
    seven = [70, 71, 70.5, 70.2, 69.9, 70.1, 70.3]
    assert figures.verdict([90, 91, 89, 12, 90.5, 90.2, 90.1], seven)["decision"] == "off"
    assert figures.verdict([90, 91, 89, 90.5, 90.2], [91, 90, 89, 12, 90.1])["decision"] == "undecided"


def test_too_few_runs_decide_nothing() -> None:
    assert figures.verdict([90, 90, 90], [45, 45, 45])["decision"] == "undecided"
    assert figures.verdict([90, 90, 90, 90], [45, 45, 45, 45])["decision"] == "off"


def test_without_a_difference_noise_decides_in_at_most_one_of_twenty_cases() -> None:
    wrong = sum(
        figures.verdict(noisy(90, 0.1, seed=seed), noisy(90, 0.1, seed=-seed - 1))["decision"] != "undecided"
        for seed in range(600)
    )
    assert wrong <= 600 * 0.06


def test_the_p_value_is_that_of_the_tables() -> None:
    assert figures.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert figures.mann_whitney([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert figures.mann_whitney([1, 4], [2, 3]) == 1.0


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=9), st.lists(st.floats(1, 1000), min_size=4, max_size=9))
def test_a_verdict_and_its_reverse_agree(one: list[float], two: list[float]) -> None:
    forth, back = figures.verdict(one, two)["decision"], figures.verdict(two, one)["decision"]
    assert {forth, back} in ({"on", "off"}, {"undecided"}, {"on", "undecided"}, {"off", "undecided"})


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=9))
def test_the_same_figures_are_never_faster_or_slower(values: list[float]) -> None:
    assert figures.verdict(values, values)["decision"] == "undecided"


def test_slower_at_one_concurrency_is_off() -> None:
    base = result((1, noisy(90, 0.001)), (8, noisy(400, 0.001)))
    assert keep.combine(base, result((1, noisy(120, 0.001)), (8, noisy(300, 0.001))), 0.01)["decision"] == "off"
    assert keep.combine(base, result((1, noisy(120, 0.001)), (8, noisy(400, 0.001))), 0.01)["decision"] == "on"
    with pytest.raises(InferopsError, match="no concurrency in common"):
        keep.combine(base, result((2, [1.0, 1, 1])), 0.01)


def test_the_gate_objects_to_slower_servers_and_useless_drafts() -> None:
    base = result((1, noisy(90, 0.01)))
    assert bench.gate(result((1, noisy(89, 0.01))), base, 0.9, 0) == []
    slow = bench.gate(result((1, noisy(72, 0.01))), base, 0.9, 0)
    assert len(slow) == 1 and "0.8" in slow[0]
    assert "hardly ever right" in bench.gate(result((1, [1.0]), accept=1.0), None, 0.9, 0)[0]
    assert "at least 2 is wanted" in bench.gate(result((1, [1.0]), accept=1.5), None, 0.9, 2.0)[0]
    assert bench.gate(result((1, [1.0]), accept=1.5), None, 0.9, 0) == []


def test_prompts_are_never_the_same_twice() -> None:
    found = prompts.fresh(prompts.SHIPPED, 20)
    assert len(set(found)) == 20
    assert len({text[:14] for text in found}) == 20
