# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of the models' own files: are they there, whole, and do they fit the cards?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from ..errors import InferopsError, nearest
from ..files import read_json
from . import models
from .calibration import Measured
from .check import ERROR, WARNING, Item, Outcome, Result, deferred, failed, passed
from .facts import Facts, is_mla
from .models import Model

_GIB = 1 << 30
#: What the name of a tokenizer's file has in it.
_TOKENIZERS = (
    "tokenizer",
    "vocab",
    "merges",
    "tiktoken",
    "tekken",
    "spiece",
    "sentencepiece",
    "tokenization",
    ".model",
)
# Files that describe quantized weights where the configuration does not, by methods that need a description.
_DESCRIBED = {
    ("awq", "awq_marlin"): ("quant_config.json", "quantize_config.json"),
    ("gptq", "gptq_marlin", "marlin"): ("quantize_config.json",),
}
# Methods that SGLang turns into each other where it can; nothing is said of others.
_FAMILIES = (
    ("awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "moe_wna16", "auto-round"),
    ("modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed"),
    ("fp8",),
    ("compressed-tensors", "w8a8_int8", "w8a8_fp8"),
    ("bitsandbytes",),
    ("mxfp4",),
)
#: Forms of weights that are read from safetensors files, or else from PyTorch's, in the model's own folder.
_FORMATS = ("auto", "safetensors", "pt", "npcache", "layered", "bitsandbytes", "fastsafetensors", "flash_rl")


def place(facts: Facts, model: Model, option: str) -> Outcome:
    if model.kind in (models.FILE, models.REMOTE):
        return deferred(f"{option} {model.path} is no folder of safetensors files: what it holds is not looked at")
    if model.kind == models.HUB:
        if facts.variable("HF_HUB_OFFLINE") or facts.variable("TRANSFORMERS_OFFLINE"):
            return failed(
                f"{option} {model.path!r} names a repository of the hub, which is not in the cache of the unit "
                "(HF_HOME), and the unit is offline (HF_HUB_OFFLINE): download it first, or give a folder",
                path=model.path,
            )
        return deferred(f"{option} {model.path!r} is downloaded from the hub at the start: its files cannot be checked")
    if model.kind == models.MISSING:
        found = (
            f"a link to {os.readlink(model.path)}, which is not there" if os.path.islink(model.path) else "no folder"
        )
        return failed(
            f"{option} {model.path!r} is {found} on this host: mount it, or correct the path", path=model.path
        )
    if model.config is None:
        return failed(f"{option}: {model.config_problem}", path=model.path)
    if model.architecture is None:
        return failed(
            f"{model.path}/config.json has no list 'architectures' that names a class, and SGLang goes by its first "
            "entry: take the configuration that belongs to the weights",
            architectures=model.config.get("architectures"),
        )
    return passed(f"{option} {model.path} holds {model.architecture}", architecture=model.architecture)


def model_path(facts: Facts) -> Result:
    return place(facts, facts.target, "model_path")


def model_weights(facts: Facts) -> Result:
    return _weights(facts, facts.target, "load_format")


def draft_weights(facts: Facts) -> Result:
    return _weights(facts, facts.draft, "speculative_draft_load_format") if facts.draft is not None else None


def _weights(facts: Facts, model: Model, option: str) -> Result:
    if model.kind != models.FOLDER:
        return None
    form = facts.options.get(option) or facts.options.get("load_format") or "auto"
    if form not in _FORMATS:
        return deferred(f"{option} is {form}: the files of {model.path} are not read as safetensors")
    if model.weights.problems:
        more = f" (and {len(model.weights.problems) - 3} more)" if len(model.weights.problems) > 3 else ""
        return failed("; ".join(model.weights.problems[:3]) + more, problems=model.weights.problems[:50])
    return passed(f"{len(model.weights.sizes)} weight files are whole: {model.bytes / _GIB:.1f} GiB", bytes=model.bytes)


def model_class(facts: Facts) -> Result:
    sources = facts.sources
    if sources is None:
        return deferred(f"the model class is looked up in {facts.waiting_for}")
    if sources.get("broken"):
        return failed(
            f"a file of the installed SGLang does not parse: {sources['broken']}; SGLang would only say 'Ignore import "
            "error' and not know the model: reinstall the build, or correct the patch",
            at=sources["broken"],
        )
    if not sources["models"]:
        return deferred("the installed package has no model classes to look at")
    wanted = facts.target.architecture
    found = sources.get("target_class")
    if wanted is None or found is not None:
        return passed(f"{wanted} is defined in {found['path']}", **found) if found else None
    implementation = "it falls back to transformers' own code"
    return failed(
        f"SGLang {facts.release} has no class {wanted}, which {facts.target.path}/config.json asks for; "
        f"{implementation}, which cannot speculate: use a release that knows the model"
        if facts.speculates
        else f"SGLang {facts.release} has no class {wanted}: {implementation}, where that knows it at all",
        severity=None if facts.speculates else WARNING,
        architecture=wanted,
    )


def draft_class(facts: Facts) -> Result:
    sources = facts.sources
    if not facts.trees or sources is None or not sources["models"] or sources.get("broken"):
        return None
    wanted, found = sources.get("draft_architecture"), sources.get("draft_class")
    if wanted is None:
        return None
    if found is not None:
        return passed(f"{wanted} is defined in {found['path']}", path=found["path"])
    whose = facts.draft if facts.draft is not None else facts.target
    text = f"SGLang {facts.release} has no class {wanted}, which {whose.path}/config.json asks for"
    if facts.algorithm == "STANDALONE":
        return failed(
            f"{text}; it falls back to transformers' own code, where that knows it at all",
            severity=WARNING,
            architecture=wanted,
        )
    known = sources["draft_classes"]
    has = f"; it has {', '.join(known) or 'none for drafts'}: use a draft of such a class"
    return failed(text + (nearest(wanted, known) or has), architecture=wanted, known=known)


def context_length(facts: Facts) -> Result:
    wanted, known = facts.number("context_length", 0), facts.target.context_length
    if not wanted or known is None:
        return None
    if wanted <= known:
        return passed(f"the context of {wanted} tokens is within the model's {known}")
    overridden = facts.variable("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    return failed(
        f"context_length is {wanted} and {facts.target.path} was made for {known} tokens: "
        + ("expect nonsense beyond that" if overridden else "SGLang refuses to start; lower it")
        + (" (SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is set)" if overridden else ""),
        severity=WARNING if overridden else None,
        context_length=wanted,
        derived=known,
    )


def tokenizer(facts: Facts) -> Result:
    """SGLang asks transformers for it before it loads weights; a copy of the weights alone is a common one."""
    given = facts.options.get("tokenizer_path")
    if facts.flag("skip_tokenizer_init") or (given is None and facts.target.kind != models.FOLDER):
        return None
    path = str(given) if given is not None else facts.target.path
    if given is not None and not os.path.isabs(path):
        return None
    if given is not None and not os.path.isdir(path):
        return None if os.path.isfile(path) else failed(f"tokenizer_path {path!r} is not there", path=path)
    files = os.listdir(path) if given is not None else facts.target.files
    known = [name for name in files if any(word in name.lower() for word in _TOKENIZERS)]
    if not known:
        return failed(
            f"{path} has no file of a tokenizer ({', '.join(_TOKENIZERS)}): copy those of the model too, set "
            "args.tokenizer_path, or skip_tokenizer_init for a server that takes tokens only",
            files=sorted(files)[:20],
        )
    try:
        custom = "" if given is not None else _custom_tokenizer(facts.target)
    except InferopsError as error:
        return failed(f"{error.message}; copy it again")
    if custom and not facts.flag("trust_remote_code"):
        return failed(
            f"the tokenizer of {path} is {custom}, code that the model brings with it, and trust_remote_code is not "
            "set: transformers refuses to run it; look at that code, then set args.trust_remote_code: true",
            tokenizer=custom,
        )
    return passed(f"the tokenizer is made of {', '.join(sorted(known)[:4])}")


def _custom_tokenizer(model: Model) -> str:
    """The tokenizer's class where it is the model's own, in a file beside it, and there is no other form of it.

    :raises InferopsError: for a configuration that is no JSON.
    """
    said = read_json(os.path.join(model.folder, "tokenizer_config.json")) or {}
    named = (said.get("auto_map") or {}).get("AutoTokenizer")
    module, dummy, name = str(named[0] if isinstance(named, list) and named else named).rpartition(".")
    own = f"{module}.py" in model.files and said.get("tokenizer_class") == name
    return name if own and "tokenizer.json" not in model.files else ""


def quantization(model: Model) -> str | None:
    """How a model's weights say that they are quantized; ``None`` where they are not."""
    for config in (model.config or {}, model.text):
        method = (config.get("quantization_config") or {}).get("quant_method")
        if method:
            return str(method).lower()
    return None


def quantization_method(facts: Facts) -> Result:
    """SGLang takes another method than the weights' own only where it can turn one into the other."""
    problems = list(_unquantized(facts))
    return problems or _another_method(facts)


def _unquantized(facts: Facts) -> Iterator[Outcome]:
    """Methods that only read what somebody has quantized; a draft takes the target's unless it is told otherwise."""
    common = facts.options.get("quantization")
    own = facts.options.get("speculative_draft_model_quantization") or common
    drafts = facts.draft if facts.trees else None
    for whose, model, asked in (("target", facts.target, common), ("draft", drafts, own)):
        files = next((files for methods, files in _DESCRIBED.items() if str(asked).lower() in methods), ())
        if model is None or model.config is None or not files or quantization(model) is not None:
            continue
        if not any(name.endswith(files) for name in model.files):
            cure = "set args.speculative_draft_model_quantization: unquant" if whose == "draft" else "leave it out"
            yield failed(
                f"quantization of the {whose} is {asked}, and {model.path} says nothing of how it is quantized (no "
                f"quantization_config, no {' or '.join(files)}): SGLang cannot load it so; {cure}, or take other "
                "weights",
                asked=asked,
                model=model.path,
            )


def _another_method(facts: Facts) -> Result:
    asked, stored = facts.options.get("quantization"), quantization(facts.target)
    rules = facts.source("quantization")
    if asked is None or stored is None or rules is None:
        return None
    asked = str(asked).lower()
    families = [next((family for family in _FAMILIES if name in family), None) for name in (asked, stored)]
    fits = stored in rules["compatible"].get(asked, []) or asked in rules["requantized"]
    if asked == stored or fits or None in families or families[0] == families[1]:
        return passed(f"quantization {asked} goes with weights in {stored}")
    return failed(
        f"quantization is {asked}, and {facts.target.path}/config.json says that the weights are in {stored}: SGLang "
        f"refuses to start; leave the option out ({stored} is used then), or take other weights",
        asked=asked,
        stored=stored,
    )


def gpu_memory(facts: Facts) -> Result:
    cards = [card for card in facts.cards if card.get("memory_total")]
    if not facts.on_gpu or not cards or not facts.target.bytes or _elsewhere(facts):
        return None
    total = min(int(card["memory_total"]) for card in cards)
    weights = facts.target.bytes / facts.ranks
    draft = (facts.draft.bytes if facts.draft is not None else 0) / facts.number("tp_size", 1)
    evidence: dict[str, Any] = {
        "gpu_bytes": total,
        "weights_bytes": int(weights),
        "draft_bytes": int(draft),
        "kv_bytes_per_token": kv_bytes(facts),
    }
    if _shrinks(facts):
        return passed(
            f"the files hold {weights / _GIB:.1f} GiB for each rank, and are made smaller while they are loaded "
            "(quantization, or a shorter dtype): whether that fits is not known",
            **evidence,
        )
    needs = f"each rank holds {weights / _GIB:.1f} GiB of weights" + (
        f" and {draft / _GIB:.1f} GiB of the draft's" if draft else ""
    )
    if weights + draft >= total:
        return failed(
            f"{needs}, and the smallest of the GPUs has {total / _GIB:.1f} GiB: spread the model over more GPUs "
            "(tp_size, pp_size) or quantize it",
            **evidence,
        )
    fraction = facts.amount("mem_fraction_static")
    # before 0.5.14 the draft's weights were not counted against the fraction
    counted = weights + (0 if facts.before("0.5.14") else draft)
    if fraction is not None and fraction * total <= counted:
        return failed(
            f"{needs}, and mem_fraction_static={fraction} leaves {fraction * total / _GIB:.1f} GiB for weights "
            f"and KV cache: it must be above {counted / total:.2f}",
            **evidence,
        )
    text = _range(facts, total, (weights + draft) / total, needs)
    if facts.measured is not None:
        evidence["last_good_start"] = dataclasses.asdict(facts.measured)
        text += f"; {_measured(facts.measured)}"
    return passed(text, **evidence)


def _elsewhere(facts: Facts) -> bool:
    """Whether weights stay in the host's memory, or not all are loaded."""
    beside = any(name.startswith(("kt_", "offload_")) for name in facts.options)
    fewer = "num_hidden_layers" in str(facts.options.get("json_model_override_args"))
    return beside or fewer or bool(facts.options.get("cpu_offload_gb"))


def _shrinks(facts: Facts) -> bool:
    """Whether weights take less memory than their files: quantized or cast to a shorter type as they are loaded."""
    config = facts.target.config or {}
    quantized = "quantization_config" in config or "quantization_config" in facts.target.text
    stored = str(config.get("torch_dtype") or config.get("dtype") or facts.target.text.get("torch_dtype") or "")
    wide = stored.endswith("float32") and facts.options.get("dtype") not in ("float32", "float")
    asked = facts.options.get("quantization") is not None and not quantized
    return asked or wide or bool(facts.options.get("torchao_config"))


def _measured(found: Measured) -> str:
    left = "" if found.left is None else f" and left {found.left:.1f} GiB free"
    of_draft = f" and {found.draft:.1f} GiB for the draft's" if found.draft else ""
    return (
        f"the last good start took {found.weights:.1f} GiB for weights{of_draft} on a rank, had room for "
        f"{found.tokens} tokens of KV cache{left}"
    )


def _range(facts: Facts, total: int, low: float, needs: str) -> str:
    """What memory there is beside the weights, in words. The upper end is a rule of thumb, and said to be one."""
    high = 1 - (3 + 2 * facts.speculates) * _GIB / total
    fraction = facts.amount("mem_fraction_static")
    text = f"{needs} of {total / _GIB:.1f} GiB; mem_fraction_static can be between {low:.2f} and about {high:.2f}"
    text += " (graphs, activations and the verify step's logits take the rest)"
    per_token = kv_bytes(facts)
    if fraction is not None and per_token:
        left = (fraction - low) * total
        text += f"; {fraction} leaves {left / _GIB:.1f} GiB, about {int(left / per_token)} tokens of KV cache"
    if is_mla(facts.target):
        text += " (with latent attention every rank keeps all of it)"
    return text


def kv_bytes(facts: Facts) -> int | None:
    """Bytes of KV cache for a token on one rank; ``None`` where the configuration does not say enough."""
    text = facts.target.text
    size = 1 if str(facts.options.get("kv_cache_dtype") or "").startswith("fp8") else 2
    layers = text.get("num_hidden_layers")
    if layers is None:
        return None
    if is_mla(facts.target):
        return int((text["kv_lora_rank"] + text.get("qk_rope_head_dim", 0)) * size * layers)
    heads = text.get("num_key_value_heads") or text.get("num_attention_heads")
    width = text.get("head_dim") or (text.get("hidden_size", 0) // max(1, text.get("num_attention_heads") or 1))
    if not heads or not width:
        return None
    return int(2 * max(1, heads // facts.attention_ranks) * width * size * layers)


def host_memory(facts: Facts) -> Result:
    """A file is mapped while it is read; where memory is short, the kernel ends a rank without a word of SGLang's."""
    largest = max(facts.target.weights.sizes.values(), default=0)
    if not facts.host.memory or not largest or not facts.on_gpu:
        return None
    needed = largest + facts.needed * 2 * _GIB
    if needed > facts.host.memory:
        return failed(
            f"the host has {facts.host.memory / _GIB:.1f} GiB of memory; {facts.needed} ranks with a largest file "
            f"of {largest / _GIB:.1f} GiB need about {needed / _GIB:.1f} GiB while loading: the kernel may end a rank, "
            "and SGLang up to 0.5.9 then hangs without a message",
            memory=facts.host.memory,
            largest_file=largest,
        )
    return passed(f"{facts.host.memory / _GIB:.1f} GiB of memory are enough for loading")


TABLE = (
    Item("model_path", ERROR, "The target model is there, and its `config.json` can be read", model_path),
    Item(
        "model_weights",
        ERROR,
        "Every weight file is there, whole, and no git-lfs pointer (headers and index only)",
        model_weights,
    ),
    Item("tokenizer", ERROR, "A tokenizer is beside the weights, or where `tokenizer_path` says", tokenizer),
    Item(
        "quantization",
        ERROR,
        "`quantization` is what the weights are in, or what the release makes of them",
        quantization_method,
    ),
    Item("model_class", ERROR, "The installed release has the target's class, and its file parses", model_class),
    Item("context_length", ERROR, "`context_length` is within what the target was made for", context_length),
    Item("draft_class", ERROR, "The installed release has the draft's class", draft_class),
    Item("draft_weights", ERROR, "The draft's weight files are whole", draft_weights),
    Item(
        "gpu_memory", ERROR, "The weights fit; the range for `mem_fraction_static`, and what it is made of", gpu_memory
    ),
    Item("host_memory", WARNING, "The host has memory enough for its ranks to load", host_memory),
)
