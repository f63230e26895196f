"""Attention backends against cards, target, draft and the tree of drafts, on each release as its sources say."""

from __future__ import annotations

from typing import Any

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source import attention
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.package import Sources
from preflight_samples import GIB, facts, gpus, instance, named
from releases import RELEASES, release_tree

pytestmark = pytest.mark.index
CHECKS = ("attention_backend", "attention_backend_topk", "draft_attention_backend", "mla_topk_tree_mask")
LINE = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
TREE = {"num_steps": 3, "eagle_topk": 4, "num_draft_tokens": 8}
EARLY, LATE = ("0.5.9", "0.5.15"), ("0.5.15", "0.5.23")
ALL = ("0.5.9", "0.5.15", "0.5.23")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("attention")
    latent = {**model_folders.KIMI_TEXT, "num_nextn_predict_layers": 1}
    layer: model_folders.Shapes = {"model.layers.61.eh_proj.weight": ("BF16", [4])}
    made = {
        "llama": model_folders.llama(base / "llama"),
        "latent": model_folders.folder(base / "latent", latent, [layer]),
        "draft": model_folders.draft(base / "draft", 4096, 128256, 32000),
        "wide": model_folders.kimi_draft(base / "wide"),
    }
    return {name: str(path) for name, path in made.items()}


def check(
    models: dict[str, str],
    model: str,
    card: str,
    release: str,
    args: dict[str, Any],
    speculative: dict[str, Any] | None,
) -> set[str]:
    given = dict(speculative) if speculative else None
    if given is not None:
        own = given.get("algorithm") == "NEXTN"
        given["draft_model_path"] = None if own else models["wide" if model == "latent" else "draft"]
    shards = {"tp_size": 8} if model == "latent" else {}
    described = instance(model_path=models[model], args={**shards, **args}, speculative=given)
    host = gpus(8, card, 141 * GIB, "nvlink")
    return {n for n in named(facts(described, release_tree(release), release, gpus=host)) if n in CHECKS}


@pytest.mark.parametrize(
    ("model", "card", "args", "refused", "taken"),
    [
        ("llama", "12.0", {"attention_backend": "fa3"}, ALL, ()),
        ("llama", "9.0", {"attention_backend": "fa3"}, (), ALL),
        ("llama", "8.0", {"attention_backend": "fa3"}, (), ALL),
        ("latent", "8.0", {"attention_backend": "fa3"}, ALL, ()),
        ("llama", "12.0", {"attention_backend": "trtllm_mha"}, EARLY, ("0.5.23",)),
        ("llama", "10.0", {"attention_backend": "trtllm_mha"}, (), ALL),
        ("llama", "9.0", {"decode_attention_backend": "trtllm_mha"}, ("0.5.9",), LATE),
        ("llama", "10.0", {"attention_backend": "trtllm_mla"}, ALL, ()),
        ("latent", "10.0", {"attention_backend": "trtllm_mha"}, ALL, ()),
        ("latent", "9.0", {"attention_backend": "trtllm_mla"}, ALL, ()),
        ("latent", "12.0", {"attention_backend": "trtllm_mla"}, (), ALL),
        ("llama", "12.0", {"attention_backend": "flashinfer"}, (), ALL),
        ("llama", "12.0", {}, (), ALL),
    ],
)
def test_a_backend_on_a_card(
    models: dict[str, str],
    model: str,
    card: str,
    args: dict[str, Any],
    refused: tuple[str, ...],
    taken: tuple[str, ...],
) -> None:
    for release in refused:
        assert check(models, model, card, release, args, None) == {"attention_backend"}, release
    for release in taken:
        assert check(models, model, card, release, args, None) == set(), release


@pytest.mark.parametrize(
    ("model", "card", "args", "speculative", "refused", "taken", "name"),
    [
        (
            "llama",
            "12.0",
            {"attention_backend": "triton", "page_size": 16},
            TREE,
            ("0.5.9",),
            LATE,
            "attention_backend_topk",
        ),
        ("llama", "12.0", {"attention_backend": "flashinfer", "page_size": 16}, TREE, (), ALL, ""),
        ("llama", "10.0", {"attention_backend": "trtllm_mha"}, TREE, ALL, (), "attention_backend_topk"),
        ("llama", "10.0", {"attention_backend": "trtllm_mha"}, LINE, (), ALL, ""),
        ("llama", "10.0", {}, TREE, (), ALL, ""),
        ("latent", "12.0", {"attention_backend": "flashinfer"}, {"algorithm": "NEXTN", **LINE}, (), ALL, ""),
        (
            "latent",
            "9.0",
            {"attention_backend": "flashmla"},
            {"algorithm": "NEXTN", **TREE},
            ALL,
            (),
            "attention_backend_topk",
        ),
        ("latent", "10.0", {"attention_backend": "trtllm_mla"}, LINE, ALL, (), "draft_attention_backend"),
    ],
)
def test_a_backend_under_a_tree_of_drafts(
    models: dict[str, str],
    model: str,
    card: str,
    args: dict[str, Any],
    speculative: dict[str, Any],
    refused: tuple[str, ...],
    taken: tuple[str, ...],
    name: str,
) -> None:
    for release in refused:
        assert check(models, model, card, release, args, speculative) == {name}, release
    for release in taken:
        assert check(models, model, card, release, args, speculative) == set(), release


def test_a_draft_with_latent_attention_drafts_no_tree_on_flashinfer(models: dict[str, str]) -> None:
    tree = {"algorithm": "NEXTN", **TREE}
    found = check(models, "latent", "12.0", "0.5.9", {"attention_backend": "flashinfer"}, tree)
    assert found == {"attention_backend_topk", "mla_topk_tree_mask"}
    triton = {"attention_backend": "flashinfer", "speculative_draft_attention_backend": "triton"}
    assert check(models, "latent", "12.0", "0.5.9", triton, tree) == {"mla_topk_tree_mask"}


def test_flex_attention_does_not_speculate(models: dict[str, str]) -> None:
    found = check(models, "llama", "12.0", "0.5.9", {"attention_backend": "flex_attention"}, LINE)
    assert "attention_backend" in found
    assert check(models, "llama", "12.0", "0.5.9", {"attention_backend": "flex_attention"}, None) == set()


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_says_what_its_backends_are_for(release: str) -> None:
    rules = attention.rules(Sources(str(release_tree(release))))
    assert rules is not None and rules["fa3_bounded"]
    assert "trtllm_mla" in rules["mla_only"] and "trtllm_mha" in rules["mha_only"]
    assert rules["cards"]["trtllm_mla"] == {"prefill": [10, 11, 12], "decode": [10, 11, 12]}
    assert 10 in rules["cards"]["trtllm_mha"]["prefill"]
