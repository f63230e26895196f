# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of the draft model against the target and the release, from configurations and safetensors headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import models
from .check import ERROR, WARNING, Item, Outcome, Result, deferred, failed, passed
from .checks_models import place
from .facts import Facts
from .models import Model

_OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def draft_path(facts: Facts) -> Result:
    if not facts.trees:
        return None
    if facts.draft is not None:
        found = place(facts, facts.draft, "speculative.draft_model_path")
        own = facts.algorithm == "EAGLE" and loaded_as(facts, facts.draft) != facts.draft.architecture
        return _own_layers(facts, facts.draft) if own and found.ok and not found.deferred else found
    if facts.algorithm == "EAGLE" and facts.sources is None:
        return deferred(f"whether the target drafts with layers of its own is looked up in {facts.waiting_for}")
    if facts.algorithm == "EAGLE" and facts.source("draft_from_target"):
        return _own_layers(facts, facts.target)
    return failed(
        f"speculative.algorithm is {facts.algorithm} and no draft_model_path is given: SGLang loads the target a "
        "second time as its own draft, and dies after that (no attribute 'set_embed' or 'hot_token_id'); give the "
        "draft's folder",
        algorithm=facts.algorithm,
    )


def _own_layers(facts: Facts, model: Model) -> Outcome:
    """A model drafts with prediction layers of its own: they must be there, with their weights."""
    count = model.text.get("num_hidden_layers")
    if model.text.get("num_nextn_predict_layers") == 0 and not facts.source("draft_layers_counted"):
        return failed(
            f"{model.path}/config.json says num_nextn_predict_layers: 0: it has no prediction layers to draft with, "
            "and SGLang dies when it loads them; give a draft's folder, or serve without speculation",
            num_nextn_predict_layers=0,
        )
    # a folder with the prediction layer alone has it as its only one
    words = ["mtp", "nextn", f"layers.{0 if count == 1 else count}."]
    # some have them in a file that the index leaves out (mtp.safetensors), which is loaded all the same
    names = [*model.names, *model.weights.unlisted] if model.names is not None else None
    if names is not None and not any(word in name for name in names for word in words):
        return failed(
            f"none of the tensors of {model.path} belongs to a prediction layer (none has {', '.join(words)} in its "
            "name): tools that quantize leave them out, and SGLang would draft with random weights; take a checkpoint "
            "that has them, give a draft's folder, or serve without speculation",
            looked_for=words,
        )
    return passed(f"this release drafts with the prediction layers of {model.path}")


def loaded_as(facts: Facts, draft: Model) -> str | None:
    """The class that the release takes for the draft: not a target's, for a model that drafts with its own layers."""
    name: str | None = facts.source("draft_architecture") or draft.architecture
    return name


def _known(facts: Facts) -> Model | None:
    """The draft, where its configuration could be read."""
    draft = facts.draft
    return draft if facts.trees and draft is not None and draft.config is not None else None


def draft_algorithm(facts: Facts) -> Result:
    """What a draft was made for: by the name of its class, and by what the class reads."""
    draft = _known(facts)
    if draft is None or not draft.architecture:
        return None
    name, loaded = draft.architecture, loaded_as(facts, draft)
    is_eagle3 = "eagle3" in name.lower()
    takes = (facts.source("draft_class") or {}).get("takes_hidden_states")
    evidence = {"architecture": name, "algorithm": facts.algorithm}
    wrong = ""
    if facts.algorithm == "EAGLE" and is_eagle3:
        wrong = (
            f"{name}, an EAGLE-3 model: it starts, skips the draft's fc layer, and accepts nothing (accept length "
            "exactly 1.0); set algorithm: EAGLE3"
        )
    elif facts.algorithm == "EAGLE3" and not is_eagle3:
        wrong = (
            f"{name}, which is no EAGLE-3 model: give an EAGLE-3 draft, or set algorithm: EAGLE if it is a draft of "
            "the first kind"
        )
    elif facts.algorithm == "EAGLE" and takes is False:
        wrong = (
            f"{name}, an ordinary model, which takes no hidden states of the target: it starts, and accepts next to "
            "nothing; set algorithm: STANDALONE, or, if it is an EAGLE checkpoint under its base model's name, correct "
            "'architectures' in its config.json (LlamaForCausalLMEagle)"
        )
    elif facts.algorithm == "STANDALONE" and (is_eagle3 or takes):
        wrong = (
            f"{name}{'' if loaded == name else f', which this release loads as {loaded}'}: that drafts from the "
            f"target's hidden states, and STANDALONE gives it none; set algorithm: "
            f"{'EAGLE3' if is_eagle3 else 'EAGLE'}, or use another draft"
        )
    if wrong:
        return failed(f"speculative.algorithm is {facts.algorithm} and the draft is {wrong}", **evidence)
    return passed(f"{name} goes with {facts.algorithm}", **evidence)


def draft_layers(facts: Facts) -> Result:
    draft = _known(facts)
    if draft is None or facts.algorithm != "EAGLE3":
        return None
    layers = draft.text.get("num_hidden_layers")
    limit = (facts.source("draft_class") or {}).get("single_layer_only")
    if layers is not None and layers != 1 and limit:
        return failed(
            f"the draft has {layers} layers and SGLang {facts.release} takes one only (it says so after the target is "
            "loaded): use a draft of one layer, or a later release",
            num_hidden_layers=layers,
        )
    return passed(f"the draft has {layers} layer(s)", num_hidden_layers=layers) if layers is not None else None


def aux_layers(facts: Facts, draft: Model) -> int:
    """How many hidden states of the target the draft's ``fc`` takes in."""
    if (facts.source("draft_class") or {}).get("counts_aux_layers"):
        ids = aux_ids(draft)
        return int(draft.text.get("num_aux_hidden_states") or (len(ids) if ids else 3))
    return 3


def aux_ids(draft: Model) -> list[int] | None:
    """The target's layers that the draft was trained on, where its configuration names them."""
    ids = (draft.text.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    return list(ids) if ids else None


def draft_fc_shape(facts: Facts) -> Result:
    draft = _known(facts)
    if draft is None or draft.tensors is None or not facts.eagle:
        return None
    if facts.algorithm == "EAGLE":
        return _first_fc(draft)
    config = draft.text
    hidden = config.get("hidden_size")
    inner = facts.target.text.get("hidden_size") or config.get("target_hidden_size") or hidden
    if hidden is None or inner is None:
        return None
    wanted = [hidden, aux_layers(facts, draft) * inner]
    found = next((shape for name, shape in draft.tensors.items() if name in ("fc.weight", "model.fc.weight")), None)
    if found is None:
        return failed(
            f"the draft has no fc.weight (it should be {wanted}): this is no EAGLE-3 checkpoint in SGLang's layout, or "
            "one that was cut; SGLang drops names that it does not know without a word",
            expected=wanted,
            tensors=sorted(draft.tensors)[:20],
        )
    if found != wanted:
        return failed(
            f"the draft's fc.weight is {found} and this target needs {wanted} ({aux_layers(facts, draft)} layers of "
            f"{inner} into {hidden}): it was trained for another model",
            found=found,
            expected=wanted,
        )
    return passed(f"fc.weight is {found}", found=found)


def _first_fc(draft: Model) -> Result:
    """A draft of the first kind puts one hidden state and one embedding into ``fc``."""
    found, hidden = (draft.tensors or {}).get("fc.weight"), draft.text.get("hidden_size")
    if found is None or hidden is None or not (draft.architecture or "").endswith("Eagle"):
        return None
    if found != [hidden, 2 * hidden]:
        return failed(
            f"the draft's fc.weight is {found}, and {draft.architecture} needs {[hidden, 2 * hidden]}: it was made for "
            "another model, or for another algorithm",
            found=found,
            expected=[hidden, 2 * hidden],
        )
    return passed(f"fc.weight is {found}", found=found)


def draft_tensors(facts: Facts) -> Result:
    """The class loads its layer by one name only; others are dropped in silence, and the layer stays random."""
    draft = _known(facts)
    if draft is None or facts.algorithm != "EAGLE3" or draft.tensors is None:
        return None
    if "llama" not in (draft.architecture or "").lower():
        return None
    prefixes = (
        ("midlayer.",) if (facts.source("draft_class") or {}).get("single_layer_only") else ("midlayer.", "layers.")
    )
    found = [name for name in draft.tensors if name.replace("model.", "", 1).startswith(prefixes)]
    if not found:
        return failed(
            f"the draft has no tensors that begin with {' or '.join(prefixes)}: SGLang {facts.release or ''} would "
            "drop what it has in silence and accept nothing; convert the checkpoint's names",
            tensors=sorted(draft.tensors)[:20],
        )
    return passed(f"the draft's layer is stored in {len(found)} tensors that SGLang loads")


def draft_hidden_size(facts: Facts) -> Result:
    draft = _known(facts)
    wanted = facts.target.text.get("hidden_size")
    if draft is None or wanted is None or not facts.eagle:
        return None
    config = draft.text
    hidden, declared = config.get("hidden_size"), config.get("target_hidden_size")
    if declared is not None and declared != wanted:
        return failed(
            f"the draft declares target_hidden_size {declared} and the target's hidden size is {wanted}: it was "
            "made for another model",
            declared=declared,
            target=wanted,
        )
    if hidden != wanted and declared is None:
        return failed(
            f"the draft's hidden size is {hidden} and the target's is {wanted}; the draft shares the target's "
            "embedding, so they must be equal unless its configuration declares target_hidden_size",
            draft=hidden,
            target=wanted,
        )
    alone = declared is not None and declared != hidden
    if alone and draft.tensors is not None and not any(n.endswith("embed_tokens.weight") for n in draft.tensors):
        return failed(
            f"the draft's hidden size is {hidden} and target_hidden_size {declared}, so it cannot share the target's "
            "embedding, and the checkpoint has no embed_tokens: it would stay random and nothing would be accepted; "
            "export the draft with its embedding",
            draft=hidden,
            target=declared,
        )
    return passed(f"hidden size {hidden} goes with the target's {wanted}")


def draft_lm_head(facts: Facts) -> Result:
    draft = _known(facts)
    if draft is None or facts.algorithm != "EAGLE3" or draft.tensors is None:
        return None
    config = draft.text
    if config.get("tie_word_embeddings"):
        return passed("the draft's head is its embedding (tie_word_embeddings)")
    if any(name.endswith("lm_head.weight") for name in draft.tensors):
        return passed("the draft brings its own lm_head")
    if config.get("draft_vocab_size") is None:
        return passed("the draft has no lm_head and no draft_vocab_size: SGLang lends it the target's")
    whole = config["draft_vocab_size"] == config.get("vocab_size") and not any("d2t" in name for name in draft.tensors)
    if whole and (facts.source("draft_class") or {}).get("checks_head"):
        return passed("the draft has no lm_head, and takes the target's (patch eagle3_draft_lm_head)")
    cure = (
        "; the patch eagle3_draft_lm_head makes it borrow the target's, or set draft_vocab_size to null"
        if whole
        else ""
    )
    return failed(
        f"the draft has no lm_head, and its configuration declares draft_vocab_size {config['draft_vocab_size']}: "
        "SGLang lends the target's head only where that is null, so the head stays random and nothing is accepted "
        f"(accept length 1.00); export the draft with its lm_head{cure}",
        draft_vocab_size=config["draft_vocab_size"],
        tensors=sorted(draft.tensors)[:20],
    )


def draft_vocabulary(facts: Facts) -> Result:
    draft = _known(facts)
    if draft is not None and facts.algorithm == "STANDALONE":
        return _same_vocabulary(facts, draft)
    if draft is None or facts.algorithm != "EAGLE3":
        return None
    problems = list(_vocabulary_problems(facts, draft))
    return problems or passed("the draft's vocabulary goes with the target's")


def _same_vocabulary(facts: Facts, draft: Model) -> Result:
    """An ordinary model drafts tokens by their numbers. A few unused ones more or less are padding."""
    one, other = draft.text.get("vocab_size"), facts.target.text.get("vocab_size")
    if one is None or other is None:
        return None
    if abs(one - other) > max(one, other) / 100:
        return failed(
            f"the draft's vocab_size is {one} and the target's is {other}: STANDALONE hands on tokens by their "
            "numbers, which mean others to a model with another tokenizer, so next to nothing is accepted; take a "
            "smaller model of the target's own family",
            severity=WARNING,
            draft=one,
            target=other,
        )
    return passed("the draft's vocabulary goes with the target's")


def _vocabulary_problems(facts: Facts, draft: Model) -> Iterator[Outcome]:
    config, target = draft.text, facts.target.text.get("vocab_size")
    vocabulary = config.get("vocab_size")
    if target is not None and vocabulary is not None and vocabulary != target:
        yield failed(
            f"the draft's vocab_size is {vocabulary} and the target's is {target}: they do not share a tokenizer",
            draft=vocabulary,
            target=target,
        )
    asks = (facts.source("draft_class") or {}).get("asks_for_vocabulary", True)
    if asks and "draft_vocab_size" not in config and not config.get("tie_word_embeddings"):
        yield failed(
            f"{draft.path}/config.json has no draft_vocab_size: SGLang asks for it and dies of an AttributeError; "
            "add it (null where the draft has the target's whole vocabulary)",
        )
    small = config.get("draft_vocab_size")
    yield from _rows(draft, {"embed_tokens": vocabulary, "lm_head": small or vocabulary})
    if draft.tensors is None or small is None or small == vocabulary:
        return
    mapping = next((shape for name, shape in draft.tensors.items() if name.rpartition(".")[2] == "d2t"), None)
    if mapping is None:
        yield failed(
            f"the draft's vocabulary has {small} of {vocabulary} tokens, and the checkpoint has no d2t that says "
            "which: its tokens would mean others; export it with d2t",
            draft_vocab_size=small,
        )
    elif mapping != [small]:
        yield failed(f"d2t has the shape {mapping} and draft_vocab_size is {small}", found=mapping, expected=[small])


def _rows(draft: Model, wanted: Mapping[str, int | None]) -> Iterator[Outcome]:
    """A table of tokens has as many rows as its vocabulary; SGLang asserts that while it loads the draft."""
    for name, rows in wanted.items():
        found = next((s for key, s in (draft.tensors or {}).items() if key.endswith(f"{name}.weight")), None)
        if found is not None and rows is not None and found[0] != rows:
            said = "draft_vocab_size" if name == "lm_head" and draft.text.get("draft_vocab_size") else "vocab_size"
            yield failed(
                f"the draft's {name} has {found[0]} rows and its {said} is {rows}: the configuration is not that of "
                "these weights (a smaller vocabulary is named by draft_vocab_size)",
                found=found,
                expected=rows,
            )


def draft_context_length(facts: Facts) -> Result:
    draft = _known(facts)
    known = draft.context_length if draft is not None else None
    serves = facts.number("context_length", 0) or facts.target.context_length
    if draft is None or known is None or serves is None:
        return None
    if known >= serves:
        return passed(f"the draft knows {known} tokens, as many as are served ({serves})")
    said = (
        "" if any(draft.text.get(key) for key in models.CONTEXT_KEYS) else " (its configuration says nothing, so it is)"
    )
    overridden = facts.variable(_OVERRIDE)
    tail = (
        f"{_OVERRIDE} is set, so it starts: expect loss on prompts beyond {known} tokens (releases before 0.5 read "
        "memory that is not theirs)"
        if overridden
        else "SGLang refuses to start, in words that begin with 'Warning:'; lower context_length, use a draft with a "
        f"longer context, or set {_OVERRIDE} and measure long prompts"
    )
    return failed(
        f"the draft knows {known} tokens{said} and the target serves {serves}: {tail}",
        severity=WARNING if overridden else None,
        draft=known,
        served=serves,
    )


def draft_aux_layers(facts: Facts) -> Result:
    draft = _known(facts)
    ids = aux_ids(draft) if draft is not None else None
    layers = facts.target.text.get("num_hidden_layers")
    if draft is None or ids is None or layers is None or facts.algorithm != "EAGLE3":
        return None
    evidence: dict[str, Any] = {"layer_ids": ids, "target_layers": layers}
    if max(ids) >= layers:
        return failed(f"the draft was trained on layers {ids} and the target has {layers}: another model's", **evidence)
    sites = facts.source("captures_defaults")
    if facts.sources is None:
        return deferred(f"whether graphs capture the draft's layers is looked up in {facts.waiting_for}")
    defaults = [2, layers // 2, layers - 3]
    # the release takes the output of the layer before: the draft's id 1 is its 2
    if sites and [number + 1 for number in ids] != defaults:
        return failed(
            f"the draft was trained on layers {ids}, and SGLang {facts.release} records its CUDA graphs with the "
            f"defaults {[number - 1 for number in defaults]} ({', '.join(sites)}): accept length falls, silently; use "
            "0.5.11 or later, or a draft that was trained on the defaults",
            severity=WARNING,
            **evidence,
        )
    return passed(f"the draft's layers {ids} are captured", **evidence)


TABLE = (
    Item("draft_path", ERROR, "A draft model is given, and its `config.json` can be read", draft_path),
    Item("draft_algorithm", ERROR, "The algorithm is the one that the draft was made for", draft_algorithm),
    Item("draft_layers", ERROR, "The draft has as many layers as the release takes", draft_layers),
    Item("draft_fc_shape", ERROR, "`fc` takes in the target's hidden states", draft_fc_shape),
    Item("draft_tensors", ERROR, "The draft's layer is stored under names that the release loads", draft_tensors),
    Item("draft_hidden_size", ERROR, "Draft and target can share an embedding", draft_hidden_size),
    Item("draft_lm_head", ERROR, "The draft has a head, or may borrow the target's", draft_lm_head),
    Item("draft_vocabulary", ERROR, "Vocabulary sizes and the mapping `d2t` agree", draft_vocabulary),
    Item(
        "draft_context_length",
        ERROR,
        "The draft knows as many tokens as are served (a warning where the override variable is set)",
        draft_context_length,
    ),
    Item(
        "draft_aux_layers",
        ERROR,
        "The target has the layers that the draft was trained on, and CUDA graphs capture them (a warning)",
        draft_aux_layers,
    ),
)
