# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of the speculative options, and of what the release's sources ask of the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import nearest
from .check import ERROR, WARNING, Item, Outcome, Result, deferred, failed, passed
from .facts import SHAPE_KEYS, Facts

#: Patches of the catalogue that give a class what its release lacks.
CURES = {"KimiK25ForConditionalGeneration": "kimi_k25_eagle3_delegation"}


def speculative_algorithm(facts: Facts) -> Result:
    if facts.algorithm is None:
        return None
    if facts.sources is None:
        return deferred(f"whether there is an algorithm {facts.algorithm} is looked up in {facts.waiting_for}")
    return list(_algorithm_problems(facts, facts.algorithm)) or passed(f"the release has {facts.algorithm}")


def _algorithm_problems(facts: Facts, name: str) -> Iterator[Outcome]:
    known, on_cpu = facts.source("algorithms"), facts.source("on_cpu")
    if known is not None and name not in known:
        yield failed(
            f"speculative.algorithm is {name}, which SGLang {facts.release} does not have"
            + (nearest(name, known) or f"; it has {', '.join(known)}")
            + " (one that a plugin adds is not known here: acknowledge it by name)",
            algorithms=known,
        )
        return
    if str(facts.options.get("device")) == "cpu" and on_cpu is not None and name not in on_cpu:
        yield failed(
            f"device is cpu, and SGLang {facts.release} has {name} for GPUs only: it dies while it loads the draft, or "
            "before; serve without speculation (policy: never), or use a release from 0.5.16 on",
            on_cpu=on_cpu,
        )
    if name in ("STANDALONE", "NGRAM") and facts.attention_groups > 1:
        yield failed(
            f"{name} does not go with data parallel attention ({facts.attention_groups} groups), in any release: take "
            "another algorithm, or leave enable_dp_attention out",
        )
    stages = facts.number("pp_size", 1)
    if stages > 1 and facts.release is not None:
        relays = facts.options.get("disaggregation_mode") == "prefill" or facts.variable("SGLANG_ENABLE_PP_SPEC")
        if facts.before("0.5.21") or name != "EAGLE" or not relays:
            yield failed(
                f"pp_size is {stages}, and SGLang {facts.release} does not run {name} over pipeline stages"
                + ("" if facts.before("0.5.21") else " (EAGLE alone, for prefill or with SGLANG_ENABLE_PP_SPEC)")
                + ": use tensor parallelism alone, or serve without speculation (policy: never)",
                pp_size=stages,
            )


def speculative_options(facts: Facts) -> Result:
    if not facts.trees:
        return None
    given = {key: facts.speculative(key) for key in SHAPE_KEYS}
    absent = [key for key, value in given.items() if value is None]
    if facts.flag("speculative_adaptive") and given["eagle_topk"] in (None, 1):
        return passed("the release chooses what is not given, and changes it while it serves (speculative_adaptive)")
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
    if not facts.trees or shape is None:
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
    if not facts.trees or shape is None:
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
    if not facts.trees or shape is None or not facts.variable("SGLANG_ENABLE_SPEC_V2") or not facts.before("0.5.11"):
        return None
    if shape[1] > 1:
        return failed(
            f"SGLANG_ENABLE_SPEC_V2 is set and eagle_topk is {shape[1]}: the overlapped worker of SGLang "
            f"{facts.release} takes topk 1 only (earlier ones crash at the first request); unset the variable or "
            "set eagle_topk: 1",
            eagle_topk=shape[1],
        )
    return passed("the overlapped worker takes topk 1")


def target_interface(facts: Facts) -> Result:
    return _interface(facts, "target", facts.target.architecture)


def draft_interface(facts: Facts) -> Result:
    known = facts.draft.architecture if facts.draft is not None else None
    return _interface(facts, "draft", facts.source("draft_architecture") or known)


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
        "speculative_algorithm",
        ERROR,
        "The release has the algorithm, and runs it on this device and with these parallel sizes",
        speculative_algorithm,
    ),
    Item(
        "speculative_options", ERROR, "Steps, topk and draft tokens: all three are given, or none", speculative_options
    ),
    Item("speculative_effective", WARNING, "The values that the release really uses", speculative_effective),
    Item("speculative_tree", ERROR, "The draft tokens can be drawn from the tree", speculative_tree),
    Item("spec_v2_topk", ERROR, "The overlapped worker of early releases takes topk 1 only", spec_v2_topk),
    Item(
        "target_interface",
        ERROR,
        "The target class has every method and attribute that the speculative path of its release uses",
        target_interface,
    ),
    Item("draft_interface", ERROR, "So has the draft's class", draft_interface),
)
