"""Speculative options that are incomplete, changed in silence, or more than a backend can do (CASES.md, group E)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from preflight_samples import GIB, check_llama, facts, gpus, kimi, llama, named, results
from releases import release_tree

pytestmark = pytest.mark.index


@pytest.mark.parametrize(
    "given",
    [
        {"num_steps": 3, "eagle_topk": None, "num_draft_tokens": None},
        {"num_steps": None, "eagle_topk": 4, "num_draft_tokens": None},
        {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": None},
    ],
)
def test_e7_incomplete_options(llama_folder: Path, llama_draft: Path, given: dict[str, Any]) -> None:
    found = check_llama(llama_folder, llama_draft, speculative=given)
    assert "all three or none" in found["speculative_options"]["message"]
    assert found["speculative_options"]["evidence"] == given


def test_none_of_the_three_is_the_choice_of_the_release(llama_folder: Path, llama_draft: Path) -> None:
    chosen = {"num_steps": None, "eagle_topk": None, "num_draft_tokens": None}
    found = facts(llama(llama_folder, llama_draft, speculative=chosen), release_tree("0.5.9"))
    assert found.shape == (5, 4, 8)
    assert results(found)["speculative_effective"]["evidence"] == {
        "num_steps": 5,
        "eagle_topk": 4,
        "num_draft_tokens": 8,
    }


def test_e8_overlapped_worker_with_topk(llama_folder: Path, llama_draft: Path) -> None:
    wide = {"eagle_topk": 4, "num_draft_tokens": 8}
    env = {"SGLANG_ENABLE_SPEC_V2": "1"}
    assert "spec_v2_topk" in check_llama(llama_folder, llama_draft, speculative=wide, env=env)
    assert "spec_v2_topk" not in check_llama(llama_folder, llama_draft, "0.5.23", speculative=wide, env=env)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"attention_backend": "trtllm_mha"}, "trtllm_mha"),
        ({"decode_attention_backend": "trtllm_mha"}, "trtllm_mha"),
        ({"attention_backend": "triton", "page_size": 16}, "page size 16"),
    ],
)
def test_e8_topk_on_a_backend_that_forbids_it(
    llama_folder: Path, llama_draft: Path, args: dict[str, Any], word: str
) -> None:
    found = check_llama(llama_folder, llama_draft, args=args, speculative={"eagle_topk": 4, "num_draft_tokens": 8})
    assert word in found["attention_backend_topk"]["message"]
    # that these cards are not for trtllm_mha in this release is another matter
    assert set(check_llama(llama_folder, llama_draft, args=args)) <= {"attention_backend"}


def test_a_release_that_adapts_the_tree_chooses_what_is_left_out(llama_folder: Path, llama_draft: Path) -> None:
    def found(topk: int | None) -> dict[str, Any]:
        given = {"num_steps": 3, "eagle_topk": topk, "num_draft_tokens": None}
        return check_llama(llama_folder, llama_draft, "0.5.23", args={"speculative_adaptive": True}, speculative=given)

    assert found(1) == found(None) == {}
    assert "speculative_options" in found(4)


def test_e8_triton_takes_pages_and_topk_in_later_releases(llama_folder: Path, llama_draft: Path) -> None:
    args = {"attention_backend": "triton", "page_size": 16}
    wide = {"eagle_topk": 4, "num_draft_tokens": 8}
    assert check_llama(llama_folder, llama_draft, "0.5.23", args=args, speculative=wide) == {}


def test_e10_draft_tokens_that_are_changed_in_silence(llama_folder: Path, llama_draft: Path) -> None:
    found = check_llama(llama_folder, llama_draft, speculative={"num_draft_tokens": 24})["speculative_effective"]
    assert found["severity"] == "warning" and found["evidence"]["num_draft_tokens"] == 4


def test_more_draft_tokens_than_the_tree_has(llama_folder: Path, llama_draft: Path) -> None:
    wide = {"num_steps": 2, "eagle_topk": 2, "num_draft_tokens": 16}
    assert check_llama(llama_folder, llama_draft, speculative=wide)["speculative_tree"]["evidence"]["candidates"] == 6


def test_e6_draft_inherits_a_backend_for_latent_attention(kimi_folder: Path, kimi_draft: Path) -> None:
    cards = gpus(8, "10.0", 180 * GIB, "nvlink")
    described = kimi(kimi_folder, kimi_draft, speculative={"eagle_topk": 1, "num_draft_tokens": 3})
    described["args"].pop("attention_backend")
    found = named(facts(described, release_tree("0.5.13"), "0.5.13", gpus=cards))
    assert "trtllm_mla" in found["draft_attention_backend"]["message"]
    described["args"]["speculative_draft_attention_backend"] = "trtllm_mha"
    assert "draft_attention_backend" not in named(facts(described, release_tree("0.5.13"), "0.5.13", gpus=cards))
