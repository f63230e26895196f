"""Model folders that are incomplete, cut short, or no models at all: found from headers and index."""

from __future__ import annotations

import json
from pathlib import Path

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import models
from preflight_samples import facts, instance, named, results
from releases import release_tree

pytestmark = pytest.mark.index
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


def test_files_that_count_themselves_are_all_there_without_an_index_too(tmp_path: Path) -> None:
    parts: list[model_folders.Shapes] = [{f"layers.{n}.a": ("BF16", [64])} for n in range(4)]
    folder = model_folders.folder(tmp_path / "model", model_folders.LLAMA, parts, index=False)
    assert problems(folder) == ""
    third(folder).unlink()
    assert "lacks 1 of the 4 weight files that the names of the others count" in problems(folder)


def test_a_file_that_is_a_link_to_nothing_is_named_with_where_it_leads(sharded: Path) -> None:
    """An interrupted download leaves such."""
    third(sharded).unlink()
    third(sharded).symlink_to("../../blobs/gone")
    assert f"{third(sharded)} cannot be read: No such file or directory (it is a link to ../../blobs/gone)" in problems(
        sharded
    )


def test_a_draft_whose_header_is_damaged(tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000)
    weights = draft / "model.safetensors"
    raw = bytearray(weights.read_bytes()[:100])
    raw[20:24] = b"\xff\xff\xff\xff"
    with weights.open("r+b") as stream:
        stream.write(raw)
    assert "has a header that is no JSON" in models.read(str(draft), {}, names=True).weights.problems[0]


@pytest.mark.parametrize("form", ["dummy", "sharded_state", "gguf", "remote"])
def test_weights_in_another_form_are_not_looked_for(tmp_path: Path, form: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(model_folders.LLAMA))
    assert "model_weights" not in named(facts(instance(model_path=str(tmp_path), args={"load_format": form}), None))
    assert "model_weights" in named(facts(instance(model_path=str(tmp_path), args={"load_format": "pt"}), None))


def test_what_a_path_can_lead_to(tmp_path: Path, sharded: Path) -> None:
    def said(path: object) -> dict[str, object]:
        return results(facts(instance(model_path=str(path)), None))["model_path"]

    (tmp_path / "link").symlink_to(sharded)
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "notes").write_text("x")
    assert said(tmp_path / "link")["ok"] and not said(tmp_path / "link")["deferred"]
    for path in (tmp_path / "model.gguf", "s3://bucket/model", "Qwen/Qwen3-8B", "gpt2"):
        assert said(path)["deferred"], path
    assert f"is a link to {tmp_path / 'gone'}, which is not there" in str(said(tmp_path / "broken")["message"])
    for path in (tmp_path / "notes", tmp_path / "none", "./models/kimi"):
        assert not said(path)["ok"], path


@pytest.mark.parametrize("names", [None, [], "LlamaForCausalLM", [1]])
def test_a_configuration_that_names_no_class(sharded: Path, names: object) -> None:
    (sharded / "config.json").write_text(json.dumps({**model_folders.LLAMA, "architectures": names}))
    found = named(facts(instance(model_path=str(sharded)), None))["model_path"]
    assert "no list 'architectures'" in found["message"]


def test_a_tokenizer_is_beside_the_weights_or_elsewhere_or_not_asked_for(tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t")
    (target / "tokenizer.json").rename(tmp_path / "tiktoken.model")

    def said(**args: object) -> bool:
        return "tokenizer" in named(facts(instance(model_path=str(target), args=args), None))

    assert said()
    assert said(tokenizer_path=str(tmp_path / "none"))
    assert said(tokenizer_path=str(target))
    for args in (
        {"tokenizer_path": str(tmp_path)},
        {"tokenizer_path": str(tmp_path / "tiktoken.model")},
        {"tokenizer_path": "Qwen/Qwen3-8B"},
        {"skip_tokenizer_init": True},
    ):
        assert not said(**args), args
    for name in ("vocab.json", "tekken.json", "tokenization_kimi.py", "spiece.model"):
        (target / name).touch()
        assert not said(), name
        (target / name).unlink()


def test_a_tokenizer_that_is_code_of_the_model_s_own(tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t")
    about = {
        "tokenizer_class": "TikTokenTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
    }
    (target / "tokenizer_config.json").write_text(json.dumps(about))
    (target / "tokenization_kimi.py").touch()

    def said(**args: object) -> bool:
        return "tokenizer" in named(facts(instance(model_path=str(target), args=args), None))

    assert not said()
    (target / "tokenizer.json").unlink()
    assert said() and not said(trust_remote_code=True)
    (target / "tokenizer_config.json").write_text(json.dumps({**about, "tokenizer_class": "LlamaTokenizer"}))
    assert not said()
    model_folders.lfs_pointer(target / "tokenizer_config.json")
    assert said(trust_remote_code=True)


@pytest.mark.parametrize(
    ("stored", "asked", "release", "refused"),
    [
        ("awq", "fp8", "0.5.9", True),
        ("fp8", "awq", "0.5.23", True),
        ("compressed-tensors", "fp8", "0.5.9", True),
        ("mxfp4", "fp8", "0.5.15", True),
        ("awq", "awq_marlin", "0.5.9", False),
        ("gptq", "moe_wna16", "0.5.9", False),
        ("modelopt", "modelopt_fp4", "0.5.9", False),
        ("compressed-tensors", "w8a8_int8", "0.5.9", False),
        # later releases turn these into that
        ("fp8", "modelopt_fp4", "0.5.9", True),
        ("fp8", "modelopt_fp4", "0.5.23", False),
        ("fp8", "quark_mxfp4", "0.5.23", False),
        ("fp8", "fp8", "0.5.9", False),
        (None, "fp8", "0.5.9", False),
        ("fp8", None, "0.5.9", False),
    ],
)
def test_weights_in_one_method_and_an_option_for_another(
    tmp_path: Path, stored: str | None, asked: str | None, release: str, refused: bool
) -> None:
    changes = {"quantization_config": {"quant_method": stored}} if stored else {}
    target = model_folders.llama(tmp_path / "t", **changes)
    args = {"quantization": asked} if asked else {}
    found = named(facts(instance(model_path=str(target), args=args), release_tree(release), release))
    assert ("quantization" in found) is refused


def test_a_method_that_needs_a_description_of_the_weights(tmp_path: Path) -> None:
    """A draft takes the target's method unless it is told otherwise, and drafts are seldom quantized."""
    target = model_folders.llama(tmp_path / "t", quantization_config={"quant_method": "awq"})
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, max_position_embeddings=131072)

    def said(model: Path, **args: object) -> str:
        speculative = {"draft_model_path": str(draft), "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
        described = instance(model_path=str(model), speculative=speculative, args=args)
        found = named(facts(described, release_tree("0.5.9"))).get("quantization")
        return str(found["message"]) if found else ""

    assert "speculative_draft_model_quantization: unquant" in said(target, quantization="awq")
    assert said(target) == said(target, quantization="awq", speculative_draft_model_quantization="unquant") == ""
    plain = model_folders.llama(tmp_path / "plain")
    unquant = {"quantization": "gptq", "speculative_draft_model_quantization": "unquant"}
    assert f"quantization of the target is gptq, and {plain} says nothing" in said(plain, **unquant)
    (plain / "quantize_config.json").write_text("{}")
    assert said(plain, **unquant) == ""
    assert said(plain, quantization="fp8") == ""


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(model_folders.LLAMA))
    assert "holds no weights" in problems(tmp_path)
    (tmp_path / "kimi.Q4_K.gguf").touch()
    assert f"give the file itself, {tmp_path / 'kimi.Q4_K.gguf'}" in problems(tmp_path)
    (tmp_path / "training_args.bin").touch()
    (tmp_path / "consolidated.00.pth").touch()
    assert "holds no weights" in problems(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    assert problems(tmp_path) == ""


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


@pytest.mark.parametrize(
    ("args", "release", "names"),
    [
        ({"context_length": "32Ki"}, "0.5.23", set()),
        ({"context_length": "128k"}, "0.5.23", {"context_length"}),
        ({"context_length": "32Ki"}, "0.5.9", {"options"}),
        ({"context_length": "long"}, "0.5.9", {"options"}),
        ({"mem_fraction_static": "half"}, "0.5.9", {"options"}),
        ({"tp_size": "eight"}, "0.5.9", {"options"}),
        ({"context_length": 65536, "json_model_override_args": '{"max_position_embeddings": 65536}'}, "0.5.9", set()),
        ({"context_length": 65536, "json_model_override_args": {"max_position_embeddings": 65536}}, "0.5.23", set()),
        ({"context_length": 65536, "json_model_override_args": "{"}, "0.5.9", {"options", "context_length"}),
    ],
)
def test_numbers_as_the_release_reads_them_and_overrides_of_the_configuration(
    tmp_path: Path, args: dict[str, object], release: str, names: set[str]
) -> None:
    target = model_folders.llama(tmp_path / "t", max_position_embeddings=32768)
    found = named(facts(instance(model_path=str(target), args=args), release_tree(release), release))
    assert set(found) - {"symmetric_memory"} == names


def test_a_draft_that_was_cut_short(tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t")
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000)
    weights = draft / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.truncate(weights.stat().st_size - 100)
    speculative = {"draft_model_path": str(draft), "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
    found = named(facts(instance(model_path=str(target), speculative=speculative), None))["draft_weights"]
    assert found["severity"] == "error" and f"{weights} is truncated: 100 bytes are missing" in found["message"]
