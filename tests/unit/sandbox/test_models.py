"""The tiny models: files that loaders can read, tensors that fit their configuration."""

from __future__ import annotations

import functools
import json
import math
import random
import struct

import pytest
from sandbox import models
from sandbox.safetensors import Matrix, encode

SIZES = {"BF16": 2, "I64": 8, "BOOL": 1}


def decode(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """Read a safetensors file by its definition: type, shape and bytes of each tensor."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    body = data[8 + length :]
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        assert end - start == SIZES[entry["dtype"]] * math.prod(entry["shape"]), name
        found[name] = (entry["dtype"], entry["shape"], body[start:end])
    assert max(entry["data_offsets"][1] for entry in header.values()) == len(body)
    return found


@functools.cache
def built(echo: bool) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a target and its draft."""
    return models.build(echo=echo)


def floats(data: bytes) -> list[float]:
    """bfloat16 values."""
    return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]


@pytest.mark.parametrize(
    ("value", "stored"),
    [(1.0, 1.0), (-2.5, -2.5), (1.00390625, 1.0), (1.01171875, 1.015625), (0.1, 0.10009765625), (0.0, 0.0)],
)
def test_bfloat16_rounds_to_the_nearest_and_ties_to_even(value: float, stored: float) -> None:
    assert floats(Matrix.floats((1,), [value]).data) == [stored]


def test_rows_and_selector() -> None:
    matrix = Matrix.floats((3, 2), [1, 2, 3, 4, 5, 6])
    assert matrix.rows(1, 3) == Matrix.floats((2, 2), [3, 4, 5, 6])
    assert floats(Matrix.selector(2, 4, 2).data) == [0, 0, 1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("echo", [False, True])
def test_the_tensors_fit_the_configuration(echo: bool) -> None:
    target, draft = built(echo)
    config, weights = json.loads(target["config.json"]), decode(target["model.safetensors"])
    hidden = config["hidden_size"]
    assert weights["model.embed_tokens.weight"][1] == [config["vocab_size"], hidden]
    layers = {name.split(".")[2] for name in weights if name.startswith("model.layers.")}
    assert layers == {str(number) for number in range(config["num_hidden_layers"])}
    tapped = {2, config["num_hidden_layers"] // 2, config["num_hidden_layers"] - 3}
    assert len(tapped) == 3
    config, weights = json.loads(draft["config.json"]), decode(draft["model.safetensors"])
    assert weights["fc.weight"][1] == [hidden, 3 * config["target_hidden_size"]]
    assert weights["midlayer.self_attn.q_proj.weight"][1][1] == 2 * hidden
    assert weights["lm_head.weight"][1] == [config["draft_vocab_size"], hidden]


@pytest.mark.parametrize("echo", [False, True])
def test_the_map_from_draft_to_target_tokens_agrees_with_its_inverse(echo: bool) -> None:
    draft = decode(built(echo)[1]["model.safetensors"])
    offsets = struct.unpack(f"<{models.DRAFT_VOCABULARY}q", draft["d2t"][2])
    reached = {token + offset for token, offset in enumerate(offsets)}
    assert reached == {token for token, known in enumerate(draft["t2d"][2]) if known}
    assert len(draft["t2d"][2]) == models.VOCABULARY


def test_the_echo_draft_predicts_with_the_targets_own_head() -> None:
    target, draft = (decode(files["model.safetensors"]) for files in built(True))
    head = target["lm_head.weight"]
    assert head == target["model.embed_tokens.weight"]
    size = 2 * models.HIDDEN
    known = [token for token, flag in enumerate(draft["t2d"][2]) if flag]
    assert draft["lm_head.weight"][2] == b"".join(head[2][token * size : (token + 1) * size] for token in known)


def test_models_are_the_same_each_time() -> None:
    assert models.build(echo=True) == built(True)
    assert built(True) != built(False)
    chance = random.Random(1)
    assert encode({"a": Matrix.random(chance, 2, 2)}) != encode({"a": Matrix.random(chance, 2, 2)})


def test_every_byte_has_a_token_of_its_own() -> None:
    alphabet = models.byte_alphabet()
    assert len(set(alphabet)) == 256
    # as GPT-2 writes them: a space is G with a dot above, a newline C with one
    assert (alphabet[ord(" ")], alphabet[ord("\n")], alphabet[ord("A")]) == ("\u0120", "\u010a", "A")
    vocabulary = json.loads(models.tokenizer()["tokenizer.json"])["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(259))
    assert max(vocabulary.values()) < models.VOCABULARY
