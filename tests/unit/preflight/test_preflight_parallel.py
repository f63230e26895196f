"""Sizes of parallelism that do not go together, and models that cannot be split over the ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_folders
import pytest
from preflight_samples import check_llama, facts, instance, named

QWEN = {"num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584, "intermediate_size": 18944}
EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "moe_intermediate_size": 1536,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
NODES = {"tp_size": 16, "nnodes": 2, "dist_init_addr": "gpu-01:5000"}


def check(path: Path, args: dict[str, Any], **changes: Any) -> dict[str, str]:
    """The findings on parallelism by name, without a release: nothing of them depends on one."""
    gpus = changes.pop("gpus", ["all"])
    target = model_folders.llama(path / "t", **changes)
    found = named(facts(instance(model_path=str(target), args=args, gpus=gpus), None))
    return {name: entry["message"] for name, entry in found.items() if name.startswith(("parallel", "gpu_count"))}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"tp_size": 4, "nnodes": 3, "dist_init_addr": "a:1"}, "cannot be spread evenly over nnodes 3"),
        ({**NODES, "node_rank": 2}, "ranks of nodes count from 0"),
        ({"tp_size": 16, "nnodes": 2}, "dist_init_addr is not given"),
        ({"tp_size": 8, "dp_size": 3, "enable_dp_attention": True}, "into 3 groups"),
        ({"tp_size": 8, "attn_dp_size": 3}, "into 3 groups"),
        ({**NODES, "dp_size": 2}, "do not go with several nodes"),
        ({"tp_size": 2, "dp_size": 2, "attn_dp_size": 2}, "do not go with attn_dp_size"),
        ({"tp_size": 4, "ep_size": 3}, "ep_size 3 does not divide tp_size 4"),
        ({"pp_size": 8, "tp_size": 1}, "a stage would have none"),
    ],
)
def test_sizes_that_do_not_go_together(tmp_path: Path, args: dict[str, Any], words: str) -> None:
    assert words in check(tmp_path, args, num_hidden_layers=4)["parallel_sizes"]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"tp_size": 8},
        {**NODES, "node_rank": 1},
        {**NODES, "dp_size": 2, "enable_dp_attention": True},
        {"tp_size": 8, "ep_size": 8, "dp_size": 8, "enable_dp_attention": True},
        {"tp_size": 4, "dp_size": 2},
        {"tp_size": 4, "pp_size": 2},
    ],
)
def test_sizes_that_do(tmp_path: Path, args: dict[str, Any]) -> None:
    assert check(tmp_path, args) == {}


@pytest.mark.parametrize(
    ("changes", "args", "words"),
    [
        (QWEN, {"tp_size": 8}, "num_attention_heads is 28, which cannot be split over 8 ranks"),
        (
            {**QWEN, "intermediate_size": 18942},
            {"tp_size": 7},
            "num_key_value_heads is 4, which cannot be split over 7 ranks",
        ),
        ({"intermediate_size": 14338}, {"tp_size": 4}, "intermediate_size is 14338"),
        (EXPERTS, {"tp_size": 8}, "moe_intermediate_size 1536 over 8 ranks is 192, which 128 does not divide"),
        ({**EXPERTS, "moe_intermediate_size": 1538}, {"tp_size": 4}, "moe_intermediate_size is 1538"),
    ],
)
def test_models_that_cannot_be_split(tmp_path: Path, changes: dict[str, Any], args: dict[str, Any], words: str) -> None:
    assert words in check(tmp_path, args, **changes)["parallel_shapes"]


@pytest.mark.parametrize(
    ("changes", "args"),
    [
        (QWEN, {"tp_size": 4}),
        (QWEN, {"tp_size": 8, "dp_size": 2, "enable_dp_attention": True}),
        ({"num_key_value_heads": 4}, {"tp_size": 8}),
        ({"intermediate_size": 14338}, {"tp_size": 4, "moe_dense_tp_size": 1}),
        (EXPERTS, {"tp_size": 4}),
        (EXPERTS, {"tp_size": 8, "ep_size": 2}),
        (EXPERTS, {"tp_size": 8, "moe_a2a_backend": "deepep"}),
        ({**EXPERTS, "quantization_config": None}, {"tp_size": 8}),
        ({"num_attention_heads": None, "num_key_value_heads": None}, {"tp_size": 8}),
    ],
)
def test_models_that_can(tmp_path: Path, changes: dict[str, Any], args: dict[str, Any]) -> None:
    assert "parallel_shapes" not in check(tmp_path, args, **changes)


def test_processors_take_what_cards_do_not(tmp_path: Path) -> None:
    assert check(tmp_path, {"tp_size": 3, "device": "cpu"}, gpus=["none"], **QWEN) == {}


@pytest.mark.index
def test_a_draft_that_cannot_be_split(llama_folder: Path, tmp_path: Path) -> None:
    changes = {"num_attention_heads": 12, "num_key_value_heads": 4, "max_position_embeddings": 131072}
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, **changes)
    found = check_llama(llama_folder, draft, args={"tp_size": 8})
    assert "the draft's num_attention_heads is 12" in found["parallel_shapes"]["message"]
    assert check_llama(llama_folder, draft, args={"tp_size": 4}) == {}
