# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of attention backends: against the cards, the target, the draft, and the tree that is drafted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .check import ERROR, Item, Outcome, Result, failed, passed
from .facts import Facts, is_mla
from .models import Model

# Backends for multi-head latent attention alone: a Llama draft cannot run on them.
_MLA_ONLY = ("trtllm_mla", "flashmla", "cutlass_mla", "cutedsl_mla", "tokenspeed_mla")
_PAGES = {"flashmla": 64, "cutlass_mla": 128, "trtllm_mla": 64}
# Targets for which the release chooses trtllm_mla on capability 10 where no backend is given.
_DEEPSEEK = ("DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration")


def attention_backend(facts: Facts) -> Result:
    rules = facts.source("attention")
    if rules is None or not facts.on_gpu or facts.target.config is None:
        return None
    return list(_backend_problems(facts, rules)) or passed("the attention backends run the target on these cards")


def _backend_problems(facts: Facts, rules: dict[str, Any]) -> Iterator[Outcome]:
    used, latent = backends(facts), is_mla(facts.target)
    for purpose in ("prefill", "decode"):
        name = used[purpose]
        if name is None:
            continue
        if name in rules["mha_only" if latent else "mla_only"]:
            yield failed(
                f"attention backend {name} runs models {'without' if latent else 'with'} latent attention only, and "
                f"the target is {facts.target.architecture}: SGLang says so after it has loaded all weights; choose "
                "another (flashinfer, triton)",
                backend=name,
            )
            return
        cards = _cards(rules, name, purpose, latent)
        if cards is not None and facts.major is not None and facts.major not in cards:
            yield failed(
                f"attention backend {name} ({purpose}) runs on compute capability "
                f"{', '.join(f'{major}.x' for major in cards)} in SGLang {facts.release}, and these cards have "
                f"{facts.capability}; choose another (flashinfer, triton)",
                backend=name,
                cards=cards,
                capability=facts.capability,
            )
            return
    if facts.speculates and facts.algorithm and "flex_attention" in (used["prefill"], used["decode"]):
        yield failed(
            "attention backend flex_attention does not go with speculation: choose another (flashinfer, triton)"
        )


def _cards(rules: dict[str, Any], name: str, purpose: str, latent: bool) -> list[int] | None:
    """The major capabilities that a backend is for; ``None`` where the release does not say."""
    if name == "fa3":
        return ([9] if latent else [8, 9]) if rules["fa3_bounded"] else None
    known: dict[str, list[int]] = rules["cards"].get(name) or {}
    return known.get(purpose)


def backends(facts: Facts) -> dict[str, str | None]:
    """The attention backends in force, as far as they are known: ``None`` where the release chooses.

    ``verify``: for the target's verify step, ``draft_decode`` and ``draft_extend``: for the draft.
    """
    options = facts.options
    common = options.get("attention_backend")
    if common is None and facts.major == 10 and facts.target.architecture in _DEEPSEEK:
        common = "trtllm_mla"
    prefill = options.get("prefill_attention_backend") or common
    decode = options.get("decode_attention_backend") or common
    mode = options.get("speculative_attention_mode") or "prefill"
    draft = options.get("speculative_draft_attention_backend")
    return {
        "prefill": prefill,
        "decode": decode,
        "verify": decode if mode == "decode" else prefill,
        "draft_decode": draft or decode,
        "draft_extend": draft or (decode if mode == "decode" else prefill),
    }


def attention_backend_topk(facts: Facts) -> Result:
    shape = facts.shape
    if not facts.trees or shape is None:
        return None
    if shape[1] <= 1:
        return passed("topk is 1, which every attention backend takes")
    return list(_topk_problems(facts, shape[1])) or passed(f"the attention backends take topk {shape[1]}")


def _topk_problems(facts: Facts, topk: int) -> Iterator[Outcome]:
    used = backends(facts)
    if "trtllm_mha" in used.values():
        yield failed(f"attention backend trtllm_mha takes topk 1 only, and eagle_topk is {topk}", backends=used)
    if "flashmla" in (used["draft_decode"], used["verify"]):
        yield failed(f"attention backend flashmla takes topk 1 only, and eagle_topk is {topk}", backends=used)
    if used["draft_decode"] == "flashinfer" and is_mla(drafts_with(facts)):
        yield failed(
            "the draft has latent attention and runs on flashinfer, which drafts with topk 1 only there, and "
            f"eagle_topk is {topk}: set eagle_topk: 1, or args.speculative_draft_attention_backend (triton)",
            backends=used,
        )
    main = used["prefill"] if used["prefill"] == used["decode"] else facts.options.get("attention_backend")
    page = max([facts.number("page_size", 1), *[_PAGES.get(name or "", 1) for name in used.values()]])
    allowed = facts.source("page_tree_backends")
    if page > 1 and allowed is not None and main is not None and main not in allowed:
        yield failed(
            f"eagle_topk is {topk} and the page size {page}: SGLang {facts.release} takes that on {', '.join(allowed)} "
            f"only, and the attention backend is {main}; set eagle_topk: 1, page_size: 1, or one of those backends",
            page_size=page,
            backends=used,
        )


def mla_topk_tree_mask(facts: Facts) -> Result:
    shape = facts.shape
    if not facts.trees or shape is None or not is_mla(facts.target):
        return None
    used = backends(facts)["verify"]
    if used != "flashinfer" or shape[1] <= 1:
        return passed(f"verify steps on {used or 'the default backend'} with topk {shape[1]} keep to the tree")
    if facts.source("mla_verify_masked"):
        return passed("this release hands the tree mask to flashinfer's kernel")
    return failed(
        f"the target has latent attention (MLA), the attention backend is flashinfer and eagle_topk is {shape[1]}: "
        "this backend verifies a tree of drafts without the tree's mask, so a token sees its siblings and the "
        "output is not that of the target alone; set eagle_topk: 1 (then num_draft_tokens: num_steps + 1), or "
        "acknowledge it by name",
        attention_backend=used,
        eagle_topk=shape[1],
    )


def drafts_with(facts: Facts) -> Model:
    """The model that drafts: the one of the draft's folder, or the target with layers of its own."""
    return facts.draft if facts.draft is not None else facts.target


def draft_attention_backend(facts: Facts) -> Result:
    if not facts.trees or facts.draft is None or facts.draft.config is None:
        return None
    return list(_draft_backend_problems(facts)) or passed("the draft can run on its attention backend")


def _draft_backend_problems(facts: Facts) -> Iterator[Outcome]:
    used = backends(facts)
    known: dict[str, list[str]] = facts.source("draft_backends") or {}
    draft = facts.draft
    for purpose in ("decode", "extend"):
        name = used[f"draft_{purpose}"]
        if name is None or draft is None:
            continue
        if name in _MLA_ONLY and not is_mla(draft):
            yield failed(
                f"the draft inherits the attention backend {name}, which can run models with latent attention only, "
                f"and the draft is {draft.architecture}: set args.speculative_draft_attention_backend (trtllm_mha, "
                "or flashinfer)",
                backend=name,
                architecture=draft.architecture,
            )
            return
        steps = facts.shape[0] if facts.shape else 2
        if known.get(purpose) and name not in known[purpose] and not (purpose == "decode" and steps == 1):
            yield failed(
                f"SGLang {facts.release} cannot run a draft on the attention backend {name}; it can on "
                f"{', '.join(known[purpose])}: set args.speculative_draft_attention_backend",
                backend=name,
            )
            return


TABLE = (
    Item(
        "attention_backend",
        ERROR,
        "The attention backends are for the target's kind of attention and for these cards",
        attention_backend,
    ),
    Item(
        "attention_backend_topk",
        ERROR,
        "The attention backends take topk > 1 at this page size",
        attention_backend_topk,
    ),
    Item(
        "mla_topk_tree_mask",
        ERROR,
        "Verify steps keep to the tree: latent attention on flashinfer with topk > 1 does not",
        mla_topk_tree_mask,
    ),
    Item(
        "draft_attention_backend", ERROR, "The draft can run on the backend that it inherits", draft_attention_backend
    ),
)
