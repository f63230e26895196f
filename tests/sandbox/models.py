"""Tiny models, made on the spot: two targets of the Llama architecture and an EAGLE-3 draft for each.

``tiny-llama-echo`` repeats its last token and ``tiny-eagle3-echo`` foresees that, so drafts are accepted; in the plain
pair both are random and almost nothing is. Everything is computed from a seed with the standard library, to the same
bytes on every machine: no torch, no hub.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import settings
from .files import write
from .locking import lock
from .safetensors import Matrix, encode
from .shell import step

SPECIAL = ["<s>", "</s>", "<pad>"]
VOCABULARY = 320
#: The draft knows the 256 bytes and none of the special tokens, as real drafts know a part of the vocabulary.
DRAFT_VOCABULARY = 256
HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_SIZE = 64, 128, 4, 2, 16
#: EAGLE-3 taps the layers 2, n // 2 and n - 3, which must differ.
LAYERS = 8
#: In the echo target, how much a layer adds to what the token's embedding says.
QUIET = 0.05

CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "torch_dtype": "bfloat16",
}
DRAFT = {
    **LLAMA,
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": DRAFT_VOCABULARY,
    "target_hidden_size": HIDDEN,
}

NAMES = ("tiny-llama", "tiny-eagle3", "tiny-llama-echo", "tiny-eagle3-echo")


def ensure() -> None:
    """Make the models unless they are there as this code makes them."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(b"".join((folder / n).read_bytes() for n in ("models.py", "safetensors.py"))).hexdigest()
    made = settings.CACHE / "models.made-from"
    with lock("models"):
        complete = made.exists() and made.read_text(encoding="utf-8") == digest
        if complete and all((settings.MODELS / name).is_dir() for name in NAMES):
            return
        with step("tiny models"):
            for echo, suffix in ((False, ""), (True, "-echo")):
                target, draft = build(echo=echo)
                _install(f"tiny-llama{suffix}", target)
                _install(f"tiny-eagle3{suffix}", draft)
        write(made, digest)


def _install(name: str, files: Mapping[str, bytes]) -> None:
    aside, final = settings.MODELS / f".{name}.partial", settings.MODELS / name
    for folder in (aside, final):
        shutil.rmtree(folder, ignore_errors=True)
    aside.mkdir(parents=True)
    for file, data in files.items():
        (aside / file).write_bytes(data)
    os.rename(aside, final)


def build(*, echo: bool) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a target and of its draft: name -> content."""
    chance = random.Random(20)
    weights = target_weights(chance, echo=echo)
    draft = draft_weights(chance, weights["lm_head.weight"], echo=echo)
    return (
        {"config.json": _json(LLAMA), "model.safetensors": encode(weights), **tokenizer()},
        {"config.json": _json(DRAFT), "model.safetensors": encode(draft)},
    )


def target_weights(chance: random.Random, *, echo: bool) -> dict[str, Matrix]:
    """The tensors of a target, named as ``transformers`` names them."""
    embedding = Matrix.random(chance, VOCABULARY, HIDDEN)
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": Matrix.ones(HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights.update(_layer(chance, prefix, HIDDEN, QUIET if echo else 1.0))
        weights[f"{prefix}input_layernorm.weight"] = Matrix.ones(HIDDEN)
        weights[f"{prefix}post_attention_layernorm.weight"] = Matrix.ones(HIDDEN)
    weights["lm_head.weight"] = embedding if echo else Matrix.random(chance, VOCABULARY, HIDDEN)
    return weights


def draft_weights(chance: random.Random, lm_head: Matrix, *, echo: bool) -> dict[str, Matrix]:
    """The tensors of an EAGLE-3 draft, named as SGLang's ``models/llama_eagle3.py`` loads them.

    Its one layer reads the token's embedding beside the target's states, hence twice the width. ``d2t`` holds, for each
    token of the draft's vocabulary, what must be added to its number to get the target's.
    """
    weights = _layer(chance, "midlayer.", 2 * HIDDEN, 0.0 if echo else 1.0)
    for norm in ("midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm"):
        weights[f"{norm}.weight"] = Matrix.ones(HIDDEN)
    first, last = len(SPECIAL), len(SPECIAL) + DRAFT_VOCABULARY
    # of the three tapped states, the echo draft hands on the last
    last_state = Matrix.selector(HIDDEN, 3 * HIDDEN, 2 * HIDDEN)
    weights["fc.weight"] = last_state if echo else Matrix.random(chance, HIDDEN, 3 * HIDDEN)
    weights["lm_head.weight"] = lm_head.rows(first, last) if echo else Matrix.random(chance, DRAFT_VOCABULARY, HIDDEN)
    weights["d2t"] = Matrix.integers([first] * DRAFT_VOCABULARY)
    weights["t2d"] = Matrix.booleans([first <= token < last for token in range(VOCABULARY)])
    return weights


def _layer(chance: random.Random, prefix: str, width: int, loudness: float) -> dict[str, Matrix]:
    queries, keys = HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE
    return {
        f"{prefix}self_attn.q_proj.weight": Matrix.random(chance, queries, width),
        f"{prefix}self_attn.k_proj.weight": Matrix.random(chance, keys, width),
        f"{prefix}self_attn.v_proj.weight": Matrix.random(chance, keys, width),
        f"{prefix}self_attn.o_proj.weight": Matrix.random(chance, HIDDEN, queries, loudness),
        f"{prefix}mlp.gate_proj.weight": Matrix.random(chance, INTERMEDIATE, HIDDEN),
        f"{prefix}mlp.up_proj.weight": Matrix.random(chance, INTERMEDIATE, HIDDEN),
        f"{prefix}mlp.down_proj.weight": Matrix.random(chance, HIDDEN, INTERMEDIATE, loudness),
    }


def tokenizer() -> dict[str, bytes]:
    """A tokenizer of bytes: three special tokens, one token for each byte, no merges."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL + byte_alphabet())}
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "unk_token": None, "vocab": vocabulary, "merges": []},
    }
    names = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "pad_token": SPECIAL[2]}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, "chat_template": CHAT_TEMPLATE}
    generation = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    return {
        "tokenizer.json": _json(content),
        "tokenizer_config.json": _json({**about, **names}),
        "special_tokens_map.json": _json(names),
        "generation_config.json": _json(generation),
    }


def byte_alphabet() -> list[str]:
    """The character by which byte-level BPE (GPT-2) writes each byte: itself where it is printable, the next free one
    from 256 on otherwise; in the order of the bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
