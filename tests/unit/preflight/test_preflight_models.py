"""Model folders that are incomplete, cut short, or no models at all: found from headers and index."""

from __future__ import annotations

import json
from pathlib import Path

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import models
from preflight_samples import facts, instance, named

TENSORS: model_folders.Shapes = {"a.weight": ("BF16", [64, 64]), "b.weight": ("BF16", [64])}


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    parts: list[model_folders.Shapes] = [
        {f"layers.{n}.{key}": value for key, value in TENSORS.items()} for n in range(4)
    ]
    return model_folders.folder(tmp_path / "model", model_folders.LLAMA, parts)


def problems(folder: Path) -> str:
    """What the check of the weights says, as the module says it."""
    found = named(facts(instance(model_path=str(folder)), None))
    return found["model_weights"]["message"] if "model_weights" in found else ""


def third(folder: Path) -> Path:
    return folder / "model-00003-of-000004.safetensors"


def test_a_whole_model_has_no_problem(sharded: Path) -> None:
    assert problems(sharded) == ""


@pytest.mark.parametrize("missing", [1, 100, 8191])
def test_a14_truncated_file(sharded: Path, missing: int) -> None:
    model_folders.shard(third(sharded), {"layers.2." + k: v for k, v in TENSORS.items()}, missing=missing)
    said = problems(sharded)
    assert str(third(sharded)) in said and f"{missing} bytes are missing" in said


def test_tensors_may_stand_in_any_order(tmp_path: Path) -> None:
    """The end of the data is the largest of all ends, wherever in the header it stands."""
    folder = model_folders.folder(tmp_path / "model", model_folders.LLAMA, [TENSORS])
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    turned = json.dumps(dict(reversed(header.items())), separators=(",", ":")).encode()
    path.write_bytes(len(turned).to_bytes(8, "little") + turned + raw[8 + length :])
    assert problems(folder) == ""
    path.write_bytes(path.read_bytes()[:-3])
    assert "3 bytes are missing" in problems(folder)


@pytest.mark.parametrize("size", [0, 5, 8, 60])
def test_a14_file_that_ends_inside_its_header(sharded: Path, size: int) -> None:
    raw = third(sharded).read_bytes()
    third(sharded).write_bytes(raw[:size])
    assert str(third(sharded)) in problems(sharded)


def test_a_file_with_more_than_its_header_promises(sharded: Path) -> None:
    with third(sharded).open("ab") as stream:
        stream.write(b"x")
    assert "longer than it should be" in problems(sharded)


def test_a14_git_lfs_pointer(sharded: Path) -> None:
    model_folders.lfs_pointer(third(sharded))
    assert "git lfs pull" in problems(sharded)


def test_file_that_the_index_names_and_that_is_not_there(sharded: Path) -> None:
    third(sharded).unlink()
    assert "lacks 1 of the 4 weight files" in problems(sharded)


def test_tensor_that_the_index_promises_and_no_file_has(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    listed["weight_map"]["layers.9.a.weight"] = third(sharded).name
    index.write_text(json.dumps(listed))
    assert "layers.9.a.weight" in problems(sharded)


def test_an_index_that_is_no_index(sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").write_text("{}")
    assert "no index" in problems(sharded)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(model_folders.LLAMA))
    assert "holds no weights" in problems(tmp_path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (None, "does not exist"),
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_configuration_that_cannot_be_read(sharded: Path, text: str | None, word: str) -> None:
    (sharded / "config.json").unlink()
    if text is not None:
        (sharded / "config.json").write_text(text)
    assert word in named(facts(instance(model_path=str(sharded)), None))["model_path"]["message"]


def test_names_and_shapes_are_read_only_where_they_are_asked_for(sharded: Path) -> None:
    assert models.read(str(sharded), {}).tensors is None
    tensors = models.read(str(sharded), {}, names=True).tensors
    assert tensors is not None and tensors["layers.3.a.weight"] == [64, 64] and len(tensors) == 8


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"factor": 4.0, "type": "linear"}}, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}}, 4096),
        (
            {
                "max_position_embeddings": 262144,
                "rope_scaling": {"factor": 64.0, "original_max_position_embeddings": 4096},
            },
            262144,
        ),
        ({"seq_length": 8192, "max_position_embeddings": 2048}, 8192),
        ({"text_config": {"max_position_embeddings": 1024}, "max_position_embeddings": 1}, 1024),
        ({"vocab_size": 10}, 2048),
    ],
)
def test_the_context_is_derived_as_sglang_derives_it(config: dict[str, object], length: int) -> None:
    assert models.Model("/x", config=config).context_length == length


def test_a_context_longer_than_the_model_was_made_for(tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t", max_position_embeddings=4096)

    def found(length: int, **env: str) -> dict[str, object] | None:
        described = instance(model_path=str(target), args={"context_length": length}, env=env)
        return named(facts(described, None)).get("context_length")

    refused = found(8192)
    assert refused is not None and refused["severity"] == "error"
    assert refused["evidence"] == {"context_length": 8192, "derived": 4096}
    warned = found(8192, SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1")
    assert warned is not None and warned["severity"] == "warning"
    assert found(4096) is None


def test_a_draft_that_was_cut_short(tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t")
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000)
    weights = draft / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.truncate(weights.stat().st_size - 100)
    speculative = {"draft_model_path": str(draft), "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
    found = named(facts(instance(model_path=str(target), speculative=speculative), None))["draft_weights"]
    assert found["severity"] == "error" and f"{weights} is truncated: 100 bytes are missing" in found["message"]
