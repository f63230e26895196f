"""Makes model folders of real shapes whose weight files hold headers only (the data is a hole in a sparse file)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[str, list[int]]]
_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8, "I32": 4, "BOOL": 1, "F8_E4M3": 1}

KIMI_TEXT = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
    "rope_theta": 50000.0,
    "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 0,
}
KIMI_K25 = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": KIMI_TEXT,
    "vision_config": {"model_type": "kimi_k25_vision", "vt_hidden_size": 1152},
    "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    "dtype": "bfloat16",
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def shard(path: Path, tensors: Shapes, *, missing: int = 0) -> None:
    """One safetensors file: a real header, and data that takes no space. ``missing`` bytes are cut off its end."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (kind, shape) in tensors.items():
        size = _BYTES[kind]
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header, separators=(",", ":")).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(raw)) + raw)
        stream.truncate(8 + len(raw) + offset - missing)


def lfs_pointer(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9848000000\n")


def folder(path: Path, config: dict[str, Any], shards: list[Shapes], *, index: bool | None = None) -> Path:
    """A model folder: ``config.json``, the shards, and an index where there are several."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text("{}")
    count = len(shards)
    names = [f"model-{n:05d}-of-{count:06d}.safetensors" for n in range(1, count + 1)]
    names = ["model.safetensors"] if count == 1 and not index else names
    for name, tensors in zip(names, shards, strict=True):
        shard(path / name, tensors)
    if index if index is not None else count > 1:
        listed = {tensor: name for name, tensors in zip(names, shards, strict=True) for tensor in tensors}
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": listed}))
    return path


def kimi_k25(path: Path, shards: int = 64) -> Path:
    """Kimi-K2.5 in int4 as it is published: 64 files, 551 GiB, with every expert's packed weights and scales."""
    text = KIMI_TEXT
    hidden, middle = text["hidden_size"], text["moe_intermediate_size"]
    parts: list[Shapes] = [{} for dummy in range(shards)]
    for layer in range(text["num_hidden_layers"]):
        tensors = parts[layer % shards]
        base = f"language_model.model.layers.{layer}."
        tensors[base + "input_layernorm.weight"] = ("BF16", [hidden])
        tensors[base + "post_attention_layernorm.weight"] = ("BF16", [hidden])
        tensors[base + "self_attn.q_a_proj.weight"] = ("BF16", [1536, hidden])
        tensors[base + "self_attn.q_b_proj.weight"] = ("BF16", [12288, 1536])
        tensors[base + "self_attn.kv_a_proj_with_mqa.weight"] = ("BF16", [576, hidden])
        tensors[base + "self_attn.kv_b_proj.weight"] = ("BF16", [16384, 512])
        tensors[base + "self_attn.o_proj.weight"] = ("BF16", [hidden, 8192])
        for expert in range(text["n_routed_experts"] if layer else 0):
            for name, shape in (
                ("gate_proj", [middle, hidden]),
                ("up_proj", [middle, hidden]),
                ("down_proj", [hidden, middle]),
            ):
                key = f"{base}mlp.experts.{expert}.{name}."
                tensors[key + "weight_packed"] = ("I32", [shape[0], shape[1] // 8])
                tensors[key + "weight_scale"] = ("BF16", [shape[0], shape[1] // 32])
                tensors[key + "weight_shape"] = ("I32", [2])
        for name in ("gate_proj", "up_proj"):
            wide = middle if layer else text["intermediate_size"]
            tensors[f"{base}mlp.shared_{name}.weight"] = ("BF16", [wide, hidden])
    parts[-1]["language_model.model.embed_tokens.weight"] = ("BF16", [text["vocab_size"], hidden])
    parts[-2]["language_model.lm_head.weight"] = ("BF16", [text["vocab_size"], hidden])
    parts[-3]["language_model.model.norm.weight"] = ("BF16", [hidden])
    return folder(path, KIMI_K25, parts)


def llama(path: Path, **changes: Any) -> Path:
    config = {**LLAMA, **changes}
    hidden = config["hidden_size"]
    tensors: Shapes = {
        "model.embed_tokens.weight": ("BF16", [config["vocab_size"], hidden]),
        "lm_head.weight": ("BF16", [config["vocab_size"], hidden]),
    }
    return folder(path, config, [tensors])


def eagle3_config(hidden: int, vocab: int, draft_vocab: int | None, **changes: Any) -> dict[str, Any]:
    """The configuration of an EAGLE-3 draft model as SpecForge writes it."""
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden * 2,
        "num_hidden_layers": 1,
        "num_attention_heads": 64 if hidden > 4096 else 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": vocab,
        "draft_vocab_size": draft_vocab,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    return {**config, **changes}


def eagle3_tensors(config: dict[str, Any], *, target_hidden: int | None = None, aux: int = 3) -> Shapes:
    """The tensors of an EAGLE-3 draft by the names that SGLang's class loads."""
    hidden, head = config["hidden_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    wide = config["intermediate_size"]
    draft_vocab = config["draft_vocab_size"] or config["vocab_size"]
    tensors: Shapes = {
        "fc.weight": ("BF16", [hidden, aux * (target_hidden or hidden)]),
        "midlayer.self_attn.q_proj.weight": ("BF16", [heads, 2 * hidden]),
        "midlayer.self_attn.k_proj.weight": ("BF16", [kv, 2 * hidden]),
        "midlayer.self_attn.v_proj.weight": ("BF16", [kv, 2 * hidden]),
        "midlayer.self_attn.o_proj.weight": ("BF16", [hidden, heads]),
        "midlayer.mlp.gate_proj.weight": ("BF16", [wide, hidden]),
        "midlayer.mlp.up_proj.weight": ("BF16", [wide, hidden]),
        "midlayer.mlp.down_proj.weight": ("BF16", [hidden, wide]),
        "midlayer.input_layernorm.weight": ("BF16", [hidden]),
        "midlayer.hidden_norm.weight": ("BF16", [hidden]),
        "midlayer.post_attention_layernorm.weight": ("BF16", [hidden]),
        "norm.weight": ("BF16", [hidden]),
        "lm_head.weight": ("BF16", [draft_vocab, hidden]),
    }
    if config["draft_vocab_size"] and config["draft_vocab_size"] != config["vocab_size"]:
        tensors["d2t"] = ("I64", [draft_vocab])
        tensors["t2d"] = ("BOOL", [config["vocab_size"]])
    return tensors


def kimi_draft(path: Path, *, drop: tuple[str, ...] = (), **changes: Any) -> Path:
    """An EAGLE-3 draft for Kimi-K2.5. ``drop`` leaves tensors out; ``changes`` go into its configuration."""
    return draft(path, 7168, 163840, 32000, drop=drop, **changes)


def draft(
    path: Path, hidden: int, vocab: int, draft_vocab: int | None, *, drop: tuple[str, ...] = (), **changes: Any
) -> Path:
    config = eagle3_config(hidden, vocab, draft_vocab, **changes)
    tensors = {name: value for name, value in eagle3_tensors(config).items() if name not in drop}
    return folder(path, config, [tensors])
