"""Algorithms beside EAGLE-3: models that draft with layers of their own, ordinary drafts, n-grams; by release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source import drafts, interface
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.classes import Classes
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.package import Sources
from preflight_samples import check_llama, facts, instance, named, results
from releases import RELEASES, release_tree

pytestmark = pytest.mark.index
SHAPE = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
DEEPSEEK = {
    **model_folders.KIMI_TEXT,
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 163840,
}


def own(path: Path, layer: str = "model.layers.61.eh_proj.weight", **changes: Any) -> Path:
    """A model that drafts for itself, with one tensor of its prediction layer."""
    tensors: model_folders.Shapes = {"model.embed_tokens.weight": ("BF16", [16, 16]), layer: ("BF16", [16, 32])}
    return model_folders.folder(path, {**DEEPSEEK, **changes}, [tensors])


def check(target: Path, draft: Path | None, release: str, **speculative: Any) -> dict[str, dict[str, Any]]:
    given = {"draft_model_path": str(draft) if draft else None, "algorithm": "NEXTN", **SHAPE, **speculative}
    described = instance(model_path=str(target), speculative=given, args={"tp_size": 8, "trust_remote_code": True})
    found = named(facts(described, release_tree(release), release))
    return {name: entry for name, entry in found.items() if name in OURS}


OURS = ("draft_path", "draft_algorithm", "draft_class", "draft_interface", "draft_vocabulary", "speculative_algorithm")


@pytest.mark.parametrize("release", ["0.5.9", "0.5.15", "0.5.23"])
@pytest.mark.parametrize(
    ("architecture", "layer"),
    [
        ("DeepseekV3ForCausalLM", "model.layers.61.eh_proj.weight"),
        ("MiMoForCausalLM", "model.mtp_layers.0.input_proj.weight"),
        ("Qwen3NextForCausalLM", "mtp.fc.weight"),
        ("Ernie4_5_MoeForCausalLM", "model.mtp_block.0.mlp.weight"),
    ],
)
def test_a_model_that_drafts_for_itself_needs_no_folder_and_may_be_its_own(
    tmp_path: Path, architecture: str, layer: str, release: str
) -> None:
    target = own(tmp_path / "t", layer, architectures=[architecture])
    assert check(target, None, release) == {}
    assert check(target, target, release) == {}


def test_a_folder_with_the_prediction_layer_alone(tmp_path: Path) -> None:
    layer = "model.layers.0.eh_proj.weight"
    draft = own(tmp_path / "d", layer, architectures=["DeepseekV3ForCausalLMNextN"], num_hidden_layers=1)
    assert check(own(tmp_path / "t"), draft, "0.5.23") == {}


@pytest.mark.parametrize("itself", [False, True])
def test_prediction_layers_that_are_not_there(tmp_path: Path, itself: bool) -> None:
    none = own(tmp_path / "none", num_nextn_predict_layers=0)
    assert "num_nextn_predict_layers: 0" in check(none, none if itself else None, "0.5.9")["draft_path"]["message"]
    lost = own(tmp_path / "lost", "model.layers.60.mlp.weight")
    found = check(lost, lost if itself else None, "0.5.9")["draft_path"]
    assert found["evidence"] == {"looked_for": ["mtp", "nextn", "layers.61."]}


def test_prediction_layers_in_a_file_beside_the_index(tmp_path: Path) -> None:
    parts: list[model_folders.Shapes] = [{"model.layers.0.a": ("BF16", [4])}, {"model.layers.1.a": ("BF16", [4])}]
    target = model_folders.folder(tmp_path / "t", {**DEEPSEEK, "architectures": ["Glm4MoeForCausalLM"]}, parts)
    assert "draft_path" in check(target, None, "0.5.23")
    model_folders.shard(target / "mtp.safetensors", {"model.layers.61.a": ("BF16", [4])})
    assert "draft_path" not in check(target, None, "0.5.23")


def test_where_a_release_sets_their_number_the_configuration_may_say_nought(tmp_path: Path) -> None:
    changes = {"architectures": ["Qwen3NextForCausalLM"], "num_nextn_predict_layers": 0}
    assert check(own(tmp_path / "t", "mtp.fc.weight", **changes), None, "0.5.9") == {}


def test_an_index_tells_the_names_without_reading_a_file(tmp_path: Path) -> None:
    parts: list[model_folders.Shapes] = [{"model.layers.61.eh_proj.weight": ("BF16", [4])}, {"a": ("BF16", [4])}]
    found = facts(
        instance(
            model_path=str(model_folders.folder(tmp_path / "t", DEEPSEEK, parts)), speculative={"algorithm": "NEXTN"}
        ),
        release_tree("0.5.9"),
    )
    assert found.target.tensors is None and "draft_path" not in named(found)


def test_before_there_are_sources_nobody_can_say_whether_a_model_drafts_for_itself(tmp_path: Path) -> None:
    described = instance(model_path=str(own(tmp_path / "t")), speculative={"algorithm": "NEXTN"})
    assert results(facts(described, None))["draft_path"]["deferred"]


@pytest.mark.parametrize("release", RELEASES)
def test_every_class_for_own_layers_is_an_eagle_draft_and_raises_no_alarm(release: str) -> None:
    sources = Sources(str(release_tree(release)))
    classes = Classes(sources)
    needed = interface.uses(sources, classes, "EAGLE")
    names = ["DeepseekV3ForCausalLM", "Glm4MoeForCausalLM", "MiMoForCausalLM", "Qwen3NextForCausalLM"]
    for name in names:
        found = drafts.own_draft(sources, name)
        assert found is not None, name
        model = interface.registered(sources, found.architecture)
        assert model is not None, found
        view = classes.view(model)
        assert drafts.takes_hidden_states(sources, view), found
        assert interface.judge(view, needed, classes, "draft")["missing"] == {}, found
    assert drafts.own_draft(sources, "LlamaForCausalLM") is None


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_an_ordinary_draft(llama_folder: Path, llama_draft: Path, tmp_path: Path, release: str) -> None:
    alone: dict[str, Any] = {"algorithm": "STANDALONE"}
    small = model_folders.llama(tmp_path / "small", hidden_size=2048, num_hidden_layers=8)
    assert check_llama(llama_folder, small, release, speculative=alone) == {}
    assert (
        "STANDALONE"
        in check_llama(llama_folder, small, release, speculative={"algorithm": "EAGLE"})["draft_algorithm"]["message"]
    )
    wrong = check_llama(llama_folder, llama_draft, release, speculative=alone)
    assert "set algorithm: EAGLE3" in wrong["draft_algorithm"]["message"]
    short = model_folders.llama(tmp_path / "short", max_position_embeddings=8192)
    assert check_llama(llama_folder, short, release, speculative=alone)["draft_context_length"]["severity"] == "error"
    assert "draft_path" in check_llama(llama_folder, None, release, speculative=alone)
    half = {**alone, "num_draft_tokens": None}
    assert "speculative_options" in check_llama(llama_folder, small, release, speculative=half)


def test_an_ordinary_draft_with_another_tokenizer_is_warned_of_and_padding_is_not(
    llama_folder: Path, tmp_path: Path
) -> None:
    alone: dict[str, Any] = {"algorithm": "STANDALONE"}
    other = model_folders.llama(tmp_path / "other", vocab_size=151936)
    found = check_llama(llama_folder, other, speculative=alone)["draft_vocabulary"]
    assert found["severity"] == "warning" and found["evidence"] == {"draft": 151936, "target": 128256}
    padded = model_folders.llama(tmp_path / "padded", vocab_size=128512)
    assert check_llama(llama_folder, padded, speculative=alone) == {}


def test_an_ordinary_draft_that_the_release_takes_for_a_prediction_layer(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.llama(tmp_path / "d", architectures=["Qwen3MoeForCausalLM"])
    found = check_llama(llama_folder, draft, "0.5.23", speculative={"algorithm": "STANDALONE"})
    assert "which this release loads as Qwen3MoeForCausalLMMTP" in found["draft_algorithm"]["message"]
    assert check_llama(llama_folder, draft, "0.5.9", speculative={"algorithm": "STANDALONE"}) == {}


def test_a_draft_of_the_first_kind_by_its_fc(llama_folder: Path, tmp_path: Path) -> None:
    def found(width: int) -> dict[str, Any]:
        changes = {"architectures": ["LlamaForCausalLMEagle"], "max_position_embeddings": 131072}
        config = model_folders.eagle3_config(4096, 128256, None, **changes)
        tensors: model_folders.Shapes = {"fc.weight": ("BF16", [4096, width]), "layers.0.a": ("BF16", [4])}
        draft = model_folders.folder(tmp_path / str(width), config, [tensors])
        return check_llama(llama_folder, draft, speculative={"algorithm": "EAGLE"})

    assert found(8192) == {}
    assert found(12288)["draft_fc_shape"]["evidence"] == {"found": [4096, 12288], "expected": [4096, 8192]}


@pytest.mark.parametrize(
    ("architecture", "changes", "name"),
    [
        # of the classes that draft with latent attention, none asks for draft_vocab_size
        ("Eagle3DeepseekV2ForCausalLM", {"draft_vocab_size": ...}, None),
        ("Eagle3DeepseekV2ForCausalLM", {"num_hidden_layers": 2}, "draft_layers"),
        ("LlamaForCausalLMEagle3", {"draft_vocab_size": ...}, "draft_vocabulary"),
        ("LlamaForCausalLMEagle3", {"num_hidden_layers": 2}, None),
    ],
)
def test_what_a_draft_class_insists_on(
    llama_folder: Path, tmp_path: Path, architecture: str, changes: dict[str, Any], name: str | None
) -> None:
    config = model_folders.eagle3_config(
        4096, 128256, None, architectures=[architecture], max_position_embeddings=131072
    )
    tensors = model_folders.eagle3_tensors(config)
    config = {key: value for key, value in {**config, **changes}.items() if value is not ...}
    draft = model_folders.folder(tmp_path / "d", config, [tensors])
    assert set(check_llama(llama_folder, draft, "0.5.23")) == ({name} if name else set())


@pytest.mark.parametrize(
    ("algorithm", "release", "found"),
    [
        ("EAGLE4", "0.5.9", {"options", "speculative_algorithm"}),
        ("EAGLE4", "0.5.23", {"speculative_algorithm"}),
        ("NGRAM", "0.5.9", set()),
        ("DSPARK", "0.5.23", set()),
        ("DSPARK", "0.5.15", {"speculative_algorithm"}),
    ],
)
def test_an_algorithm_that_the_release_has_not(
    llama_folder: Path, algorithm: str, release: str, found: set[str]
) -> None:
    wrong = check_llama(llama_folder, None, release, speculative={"algorithm": algorithm})
    assert set(wrong) == found
    if algorithm == "EAGLE4":
        assert "did you mean 'EAGLE'" in wrong["speculative_algorithm"]["message"]


@pytest.mark.parametrize("algorithm", ["EAGLE3", "NGRAM"])
@pytest.mark.parametrize(
    ("release", "refused"), [("0.5.9", True), ("0.5.15", True), ("0.5.16", False), ("0.5.23", False)]
)
def test_without_a_gpu(llama_folder: Path, llama_draft: Path, algorithm: str, release: str, refused: bool) -> None:
    draft = llama_draft if algorithm == "EAGLE3" else None
    changes: dict[str, Any] = {"gpus": ["none"], "args": {"device": "cpu"}, "speculative": {"algorithm": algorithm}}
    found = check_llama(llama_folder, draft, release, **changes)
    assert ("speculative_algorithm" in found) is refused


@pytest.mark.parametrize(
    ("algorithm", "args", "env", "release", "refused"),
    [
        ("EAGLE3", {"pp_size": 2}, {}, "0.5.9", True),
        ("EAGLE3", {"pp_size": 2}, {"SGLANG_ENABLE_PP_SPEC": "1"}, "0.5.23", True),
        ("EAGLE", {"pp_size": 2}, {"SGLANG_ENABLE_PP_SPEC": "1"}, "0.5.23", False),
        ("EAGLE", {"pp_size": 2, "disaggregation_mode": "prefill"}, {}, "0.5.23", False),
        ("EAGLE", {"pp_size": 2}, {}, "0.5.23", True),
        ("NGRAM", {"tp_size": 8, "dp_size": 2, "enable_dp_attention": True}, {}, "0.5.9", True),
        ("NGRAM", {"tp_size": 4, "dp_size": 2}, {}, "0.5.9", False),
        ("STANDALONE", {"tp_size": 8, "attn_dp_size": 2}, {}, "0.5.23", True),
        ("EAGLE3", {"tp_size": 8, "attn_dp_size": 2}, {}, "0.5.23", False),
    ],
)
def test_algorithms_and_parallelism(
    llama_folder: Path, algorithm: str, args: dict[str, Any], env: dict[str, str], release: str, refused: bool
) -> None:
    found = check_llama(llama_folder, None, release, args=args, env=env, speculative={"algorithm": algorithm})
    assert ("speculative_algorithm" in found) is refused
