# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of the speculative options, of attention backends, and of what the release's sources ask of the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .check import ERROR, WARNING, Item, Outcome, Result, deferred, failed, passed
from .facts import SHAPE_KEYS, Facts, is_mla

# Backends for multi-head latent attention alone: a Llama draft cannot run on them.
_MLA_ONLY = ("trtllm_mla", "flashmla", "cutlass_mla", "cutedsl_mla", "tokenspeed_mla")
_PAGES = {"flashmla": 64, "cutlass_mla": 128, "trtllm_mla": 64}
# Targets for which the release chooses trtllm_mla on capability 10 where no backend is given.
_DEEPSEEK = ("DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration")
#: Patches of the catalogue that give a class what its release lacks.
CURES = {"KimiK25ForConditionalGeneration": "kimi_k25_eagle3_delegation"}


def speculative_options(facts: Facts) -> Result:
    if not facts.eagle:
        return None
    given = {key: facts.speculative(key) for key in SHAPE_KEYS}
    absent = [key for key, value in given.items() if value is None]
    if absent and len(absent) < len(SHAPE_KEYS):
        return failed(
            f"speculative gives {', '.join(key for key in SHAPE_KEYS if key not in absent)} and not "
            f"{', '.join(absent)}: SGLang compares a number with None, or ends in a bare AssertionError; give all "
            "three or none",
            **given,
        )
    if any(value is not None and int(value) < 1 for value in given.values()):
        return failed(f"each of {', '.join(SHAPE_KEYS)} must be 1 or more; found {given}", **given)
    return passed("steps, topk and draft tokens are complete" if not absent else "the release chooses all three")


def speculative_effective(facts: Facts) -> Result:
    """What the release makes of the values, which it says only in a line of its log."""
    shape = facts.shape
    if not facts.eagle or shape is None:
        return None
    steps, topk, tokens = shape
    given = facts.speculative("num_draft_tokens")
    evidence: dict[str, Any] = {"num_steps": steps, "eagle_topk": topk, "num_draft_tokens": tokens}
    text = f"in force: {steps} steps, topk {topk}, {tokens} draft tokens; accept length is at most {steps + 1}"
    if given is not None and int(given) != tokens:
        return failed(
            f"num_draft_tokens is {given} and SGLang changes it to {tokens} (steps + 1, since topk is 1), without an "
            f"error; {text}. Write {tokens}, or use a larger topk",
            **evidence,
        )
    return passed(text, **evidence)


def speculative_tree(facts: Facts) -> Result:
    shape = facts.shape
    if not facts.eagle or shape is None:
        return None
    steps, topk, tokens = shape
    candidates = topk + (steps - 1) * topk * topk
    if tokens - 1 > candidates:
        return failed(
            f"{tokens} draft tokens cannot be drawn from a tree of {steps} steps with topk {topk}: it has "
            f"{candidates} candidates, so at most {candidates + 1}; the first request would end in 'selected index k "
            "out of range'",
            candidates=candidates,
            num_draft_tokens=tokens,
        )
    return passed(f"{tokens} draft tokens are drawn from {candidates} candidates", candidates=candidates)


def spec_v2_topk(facts: Facts) -> Result:
    shape = facts.shape
    if not facts.eagle or shape is None or not facts.variable("SGLANG_ENABLE_SPEC_V2") or not facts.before("0.5.11"):
        return None
    if shape[1] > 1:
        return failed(
            f"SGLANG_ENABLE_SPEC_V2 is set and eagle_topk is {shape[1]}: the overlapped worker of SGLang "
            f"{facts.release} takes topk 1 only (earlier ones crash at the first request); unset the variable or "
            "set eagle_topk: 1",
            eagle_topk=shape[1],
        )
    return passed("the overlapped worker takes topk 1")


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
    if not facts.eagle or shape is None:
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
    if not facts.eagle or shape is None or not is_mla(facts.target):
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


def draft_attention_backend(facts: Facts) -> Result:
    if not facts.eagle or facts.draft is None or facts.draft.config is None:
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


def target_interface(facts: Facts) -> Result:
    return _interface(facts, "target", facts.target.architecture)


def draft_interface(facts: Facts) -> Result:
    return _interface(facts, "draft", facts.draft.architecture if facts.draft is not None else None)


def _interface(facts: Facts, owner: str, architecture: str | None) -> Result:
    if not facts.eagle or architecture is None:
        return None
    if facts.sources is None:
        return deferred(f"what the speculative path asks of {architecture} is looked up in {facts.waiting_for}")
    judged: dict[str, Any] | None = facts.sources.get(f"{owner}_interface")
    if judged is None:
        return None
    missing, mismatched = judged["missing"], judged["mismatched"]
    if missing or mismatched:
        lines = [f"{name} (called at {'; '.join(sites)})" for name, sites in sorted(missing.items())]
        text = f"{architecture} lacks {' and '.join(lines)}" if lines else ""
        text += ("; " if text and mismatched else "") + "; ".join(mismatched.values())
        return failed(
            f"SGLang {facts.release} cannot run {facts.algorithm} on {architecture}: {text}. It would die of that "
            f"after loading all weights. {_advice(facts, architecture)}",
            missing=missing,
            mismatched=mismatched,
        )
    if judged["unknown"]:
        return passed(
            f"whether {architecture} has {', '.join(judged['unknown'])} cannot be read from the sources "
            f"({'; '.join(judged['open'])})",
            unknown=judged["unknown"],
        )
    return passed(f"{architecture} has all that the speculative path of SGLang {facts.release} asks for")


def _advice(facts: Facts, architecture: str) -> str:
    patch = CURES.get(architecture)
    if patch is None:
        return "Use a release that supports it, serve without speculation (policy: never), or patch the class"
    if patch in facts.patches:
        return f"The patch {patch} is listed, but is not in these sources: run deploy.yml, or see sglang_patch"
    return f"Add the patch {patch} to the instance's patches, or use a release from 0.5.10 on"


TABLE = (
    Item(
        "speculative_options", ERROR, "Steps, topk and draft tokens: all three are given, or none", speculative_options
    ),
    Item("speculative_effective", WARNING, "The values that the release really uses", speculative_effective),
    Item("speculative_tree", ERROR, "The draft tokens can be drawn from the tree", speculative_tree),
    Item("spec_v2_topk", ERROR, "The overlapped worker of early releases takes topk 1 only", spec_v2_topk),
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
    Item(
        "target_interface",
        ERROR,
        "The target class has every method and attribute that the speculative path of its release uses",
        target_interface,
    ),
    Item("draft_interface", ERROR, "So has the draft's class", draft_interface),
)
