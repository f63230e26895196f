# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of parallelism: do the sizes go together, and can the models' own sizes be split over the ranks?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .check import ERROR, Item, Outcome, Result, failed, passed
from .facts import Facts, is_mla
from .models import Model

_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")


def parallel_sizes(facts: Facts) -> Result:
    return list(_size_problems(facts)) or passed("the sizes of parallelism go together")


def _size_problems(facts: Facts) -> Iterator[Outcome]:
    tp, pp, nodes = (facts.number(name, 1) for name in ("tp_size", "pp_size", "nnodes"))
    groups, replicas, experts = facts.attention_groups, facts.replicas, facts.number("ep_size", 1)
    rank, layers = facts.number("node_rank", 0), facts.target.text.get("num_hidden_layers")
    if tp * pp % nodes:
        yield failed(f"tp_size {tp} times pp_size {pp} cannot be spread evenly over nnodes {nodes}: change one of them")
    if rank >= nodes:
        yield failed(f"node_rank is {rank} and nnodes is {nodes}: ranks of nodes count from 0")
    if nodes > 1 and not facts.options.get("dist_init_addr"):
        yield failed(
            f"nnodes is {nodes} and dist_init_addr is not given: every node would wait for the others at its own "
            "address, for ever; set dist_init_addr: HOST_OF_RANK_0:PORT on all of them"
        )
    if tp % groups:
        yield failed(f"tp_size {tp} cannot be divided into {groups} groups of data parallel attention")
    if replicas > 1 and (nodes > 1 or facts.number("attn_dp_size", 1) > 1):
        yield failed(
            f"dp_size {replicas} copies of the model do not go with "
            f"{'several nodes' if nodes > 1 else 'attn_dp_size'}: use data parallel attention alone, or an instance "
            "for each copy behind the gateway"
        )
    if tp % experts:
        yield failed(f"ep_size {experts} does not divide tp_size {tp}: the experts are spread over the same ranks")
    if isinstance(layers, int) and pp > layers:
        yield failed(f"pp_size is {pp} and the target has {layers} layers: a stage would have none")


def parallel_shapes(facts: Facts) -> Result:
    """What SGLang asserts while it builds the models, after the processes are started and before weights are read."""
    if not facts.on_gpu or facts.target.config is None:
        return None
    models = [("target", facts.target)]
    if facts.trees and facts.draft is not None and facts.draft.config is not None:
        models.append(("draft", facts.draft))
    return [outcome for whose, model in models for outcome in _shape_problems(facts, whose, model)] or passed(
        "heads and layers can be split over the ranks"
    )


def _shape_problems(facts: Facts, whose: str, model: Model) -> Iterator[Outcome]:
    text, attention = model.text, facts.attention_ranks
    heads, pairs = (text.get(name) for name in ("num_attention_heads", "num_key_value_heads"))
    if isinstance(heads, int) and heads % attention:
        yield _uneven(whose, "num_attention_heads", heads, attention)
    elif isinstance(pairs, int) and pairs and not is_mla(model) and max(pairs, attention) % min(pairs, attention):
        yield _uneven(whose, "num_key_value_heads", pairs, attention)
    parts, name = _split(facts, model)
    size = text.get(name)
    if not isinstance(size, int) or parts == 1:
        return
    if size % parts:
        yield _uneven(whose, name, size, parts)
        return
    block = _block(facts, model)
    if block and size // parts % block:
        yield failed(
            f"the {whose}'s weights are quantized in blocks of {block}, and {name} {size} over {parts} ranks is "
            f"{size // parts}, which {block} does not divide: SGLang refuses it while it builds the model; use a "
            "smaller tp_size, or spread whole experts (ep_size)",
            found=size,
            parts=parts,
            block=block,
        )


def _split(facts: Facts, model: Model) -> tuple[int, str]:
    """Over how many ranks the inner size of a layer is split, and its name in the configuration."""
    tp = facts.number("tp_size", 1)
    if not any(model.text.get(name) for name in _EXPERTS):
        whole = facts.attention_groups > 1 or facts.options.get("moe_dense_tp_size") is not None
        return (1 if whole else tp), "intermediate_size"
    if str(facts.options.get("moe_a2a_backend") or "none") != "none":
        return 1, "moe_intermediate_size"
    spread = facts.number("ep_size", 1) * facts.number("moe_dp_size", 1)
    return max(1, tp // spread), "moe_intermediate_size"


def _block(facts: Facts, model: Model) -> int | None:
    """The block that a layer's part must be a multiple of: for weights in fp8 with a scale for each block."""
    for config in (model.config or {}, model.text):
        quantized: dict[str, Any] = config.get("quantization_config") or {}
        sizes = quantized.get("weight_block_size")
        if quantized.get("quant_method") == "fp8" and isinstance(sizes, list) and sizes:
            return int(sizes[0])
    return None


def _uneven(whose: str, name: str, size: int, parts: int) -> Outcome:
    return failed(
        f"the {whose}'s {name} is {size}, which cannot be split over {parts} ranks: SGLang asserts that while it "
        "builds the model; use a tp_size that divides it",
        found=size,
        parts=parts,
    )


TABLE = (
    Item("parallel_sizes", ERROR, "The sizes of parallelism (tp, pp, dp, ep, nodes) go together", parallel_sizes),
    Item("parallel_shapes", ERROR, "Heads, layers and blocks can be split over the ranks", parallel_shapes),
)
