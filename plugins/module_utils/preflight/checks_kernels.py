# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of features that depend on the card: all-reduce fusion, symmetric memory, custom all-reduce."""

from __future__ import annotations

from .check import ERROR, INFO, WARNING, Item, Result, failed, passed
from .facts import Facts

_FUSION_MODELS = (
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Qwen3MoeForCausalLM",
    "KimiK25ForConditionalGeneration",
)


def _asked(facts: Facts) -> bool:
    """Whether the options ask for the fusion: by a flag until 0.5.13, by naming a backend since."""
    return facts.flag("enable_flashinfer_allreduce_fusion") or bool(
        facts.options.get("flashinfer_allreduce_fusion_backend")
    )


def _fusion(facts: Facts) -> bool:
    """Whether all-reduce fusion is in force: asked for, or automatic, on a card that the release's gate knows."""
    gate = facts.source("fusion")
    if gate is None or facts.major not in gate or facts.number("tp_size", 1) == 1:
        return False
    automatic = facts.target.architecture in _FUSION_MODELS and facts.number("nnodes", 1) == 1
    return (_asked(facts) or automatic) and not facts.flag("enable_dp_attention")


def allreduce_fusion_no_effect(facts: Facts) -> Result:
    gate = facts.source("fusion")
    if not _asked(facts) or gate is None or facts.major is None:
        return None
    if facts.major in gate:
        return passed(f"all-reduce fusion is in force on compute capability {facts.capability}")
    return failed(
        f"all-reduce fusion is asked for and has no effect: SGLang {facts.release} uses it on compute capability "
        f"{', '.join(f'{major}.x' for major in gate)} only, and these cards have {facts.capability}; remove the option "
        "or leave it, the server runs the same",
        capability=facts.capability,
        gate=gate,
    )


def allreduce_fusion_kernel(facts: Facts) -> Result:
    gate, kernel = facts.source("fusion"), facts.source("flashinfer_fusion")
    if not _fusion(facts) or gate is None:
        return None
    supported = kernel if kernel is not None else [9, 10]
    if facts.major in supported:
        return passed(f"flashinfer builds the fusion kernel for compute capability {facts.capability}")
    return failed(
        f"the gate of all-reduce fusion is open for compute capability {facts.capability}, and the installed "
        f"flashinfer builds that kernel for {', '.join(f'{major}.x' for major in supported)} only: it raises after "
        "the whole load, and where its import fails the all-reduce is skipped altogether; remove the patch "
        "sm120_allreduce_fusion",
        capability=facts.capability,
        kernel=supported,
    )


def eagle3_aux_after_allreduce(facts: Facts) -> Result:
    where = facts.source("captures_before_allreduce")
    if facts.algorithm != "EAGLE3" or facts.sources is None:
        return None
    if where is None:
        return passed("auxiliary hidden states are captured after the all-reduce")
    cure = "the patch deepseek_eagle3_aux_after_allreduce cures it; so does a release from 0.5.14 on"
    if _fusion(facts):
        return failed(
            f"with all-reduce fusion in force, {where} captures the draft's auxiliary hidden states before the "
            "deferred all-reduce of the layer before: every rank hands over partial sums and accept length falls, "
            f"silently; {cure}",
            at=where,
        )
    return failed(
        f"{where} captures the draft's auxiliary hidden states before a deferred all-reduce; that is harmless as "
        f"long as all-reduce fusion is not in force, as here; {cure}",
        severity=INFO,
        at=where,
    )


def symmetric_memory(facts: Facts) -> Result:
    known = facts.source("symmetric_memory")
    if known is None or facts.major is None or facts.major < 9 or not known["raises"]:
        return None
    lacking = [
        name
        for name, table in (("sm120_symm_mem", known["capabilities"]), ("sm120_multimem", known["multimem"]))
        if facts.major not in table
    ]
    if not lacking:
        return passed(f"torch's symmetric memory has sizes for compute capability {facts.capability}")
    enabled = facts.flag("enable_torch_symm_mem")
    patches = (
        f"the patch{'es' if len(lacking) > 1 else ''} {' and '.join(lacking)} turn{'' if len(lacking) > 1 else 's'}"
    )
    return failed(
        f"the tables of torch's symmetric memory have no compute capability {facts.capability}: "
        + ("enable_torch_symm_mem" if enabled else "with enable_torch_symm_mem, which is not set here, the server")
        + f" ends in a bare KeyError: {facts.major}; "
        f"{patches if facts.major == 12 else 'a release from 0.5.14 on turns'} "
        "that into a warning",
        severity=None if enabled else INFO,
        capability=facts.capability,
        tables=known,
    )


def custom_all_reduce(facts: Facts) -> Result:
    interconnect = (facts.host.gpus.get("topology") or {}).get("interconnect")
    if facts.number("tp_size", 1) < 2 or interconnect is None or len(facts.cards) < 2 or not facts.on_gpu:
        return None
    if interconnect == "nvlink" or facts.flag("disable_custom_all_reduce"):
        return passed("custom all-reduce is off, or the cards have NVLink", interconnect=interconnect)
    return failed(
        "the cards have no NVLink and disable_custom_all_reduce is not set: graph capture can crash or hang in the "
        "custom all-reduce; set args.disable_custom_all_reduce: true",
        interconnect=interconnect,
    )


TABLE = (
    Item(
        "allreduce_fusion_no_effect",
        WARNING,
        "All-reduce fusion, where it is asked for, is in force on these cards",
        allreduce_fusion_no_effect,
    ),
    Item(
        "allreduce_fusion_kernel",
        ERROR,
        "The installed flashinfer builds the fusion kernel for these cards",
        allreduce_fusion_kernel,
    ),
    Item(
        "eagle3_aux_after_allreduce",
        WARNING,
        "The draft's auxiliary hidden states are captured after the all-reduce (information where fusion is off)",
        eagle3_aux_after_allreduce,
    ),
    Item(
        "symmetric_memory",
        ERROR,
        "Torch's symmetric memory knows these cards (information where it is not enabled)",
        symmetric_memory,
    ),
    Item("custom_all_reduce", WARNING, "Custom all-reduce is off on cards without NVLink", custom_all_reduce),
)
