"""Drafts that do not go with their target (CASES.md, group E), each in a folder made for it: refused or warned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_folders
import pytest
from preflight_samples import check_llama, facts, instance, llama, named
from releases import release_tree

pytestmark = pytest.mark.index
OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@pytest.mark.parametrize("release", ["0.5.9", "0.5.13", "0.5.23"])
def test_nothing_is_wrong_with_a_matching_pair(llama_folder: Path, llama_draft: Path, release: str) -> None:
    assert check_llama(llama_folder, llama_draft, release) == {}


def test_e3_eagle3_without_a_draft(llama_folder: Path) -> None:
    found = check_llama(llama_folder, None)
    assert set(found) == {"draft_path"} and found["draft_path"]["severity"] == "error"
    assert "second time" in found["draft_path"]["message"]


def test_a_draft_folder_that_is_not_there(llama_folder: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in check_llama(llama_folder, tmp_path / "gone")["draft_path"]["message"]


def test_e2_eagle_with_an_eagle3_draft(llama_folder: Path, llama_draft: Path) -> None:
    found = check_llama(llama_folder, llama_draft, speculative={"algorithm": "EAGLE"})
    assert found["draft_algorithm"]["severity"] == "error"
    assert found["draft_algorithm"]["evidence"] == {"architecture": "LlamaForCausalLMEagle3", "algorithm": "EAGLE"}


def test_eagle3_with_a_draft_of_the_first_kind(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(
        tmp_path / "d", 4096, 128256, None, architectures=["LlamaForCausalLMEagle"], max_position_embeddings=131072
    )
    assert "no EAGLE-3 model" in check_llama(llama_folder, draft)["draft_algorithm"]["message"]


def test_e1_draft_without_a_head_although_it_declares_its_vocabulary(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, drop=("lm_head.weight",))
    found = check_llama(llama_folder, draft)["draft_lm_head"]
    assert found["severity"] == "error" and found["evidence"]["draft_vocab_size"] == 32000


def test_a_draft_that_may_borrow_the_head_is_no_alarm(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, None, drop=("lm_head.weight",))
    assert check_llama(llama_folder, draft) == {}


def test_the_patch_that_lends_the_head_is_named_where_it_helps_and_known_where_it_is(
    llama_folder: Path, tmp_path: Path
) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 128256, drop=("lm_head.weight",))
    found = facts(llama(llama_folder, draft), release_tree("0.5.9"))
    assert "eagle3_draft_lm_head" in named(found)["draft_lm_head"]["message"]
    assert found.sources is not None
    found.sources["draft_class"]["checks_head"] = True
    assert "draft_lm_head" not in named(found)


def test_e4_fc_of_another_model(llama_folder: Path, tmp_path: Path) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000)
    tensors = model_folders.eagle3_tensors(config, target_hidden=2048)
    draft = model_folders.folder(tmp_path / "d", config, [tensors])
    found = check_llama(llama_folder, draft)["draft_fc_shape"]
    assert found["evidence"] == {"found": [4096, 6144], "expected": [4096, 12288]}
    assert "[4096, 6144]" in found["message"] and "[4096, 12288]" in found["message"]


def test_e4_an_original_layout_without_fc(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, drop=("fc.weight",))
    assert "no fc.weight" in check_llama(llama_folder, draft)["draft_fc_shape"]["message"]


def test_the_number_of_auxiliary_layers_counts_where_the_release_counts_them(
    llama_folder: Path, tmp_path: Path
) -> None:
    config = model_folders.eagle3_config(
        4096, 128256, 32000, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 15, 28, 30]}
    )
    draft = model_folders.folder(tmp_path / "d", config, [model_folders.eagle3_tensors(config, aux=4)])
    assert "draft_fc_shape" in check_llama(llama_folder, draft, "0.5.9")
    assert "draft_fc_shape" not in check_llama(llama_folder, draft, "0.5.23")


def test_names_that_the_class_drops_in_silence(llama_folder: Path, tmp_path: Path) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000)
    tensors = {k.replace("midlayer.", "layers.0."): v for k, v in model_folders.eagle3_tensors(config).items()}
    draft = model_folders.folder(tmp_path / "d", config, [tensors])
    assert "drop" in check_llama(llama_folder, draft, "0.5.9")["draft_tensors"]["message"]
    assert check_llama(llama_folder, draft, "0.5.23") == {}


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_e5_draft_with_a_short_context(llama_folder: Path, tmp_path: Path, release: str) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, max_position_embeddings=2048)
    refused = check_llama(llama_folder, draft, release)["draft_context_length"]
    assert refused["severity"] == "error" and refused["evidence"] == {"draft": 2048, "served": 131072}
    warned = check_llama(llama_folder, draft, release, env={OVERRIDE: "1"})["draft_context_length"]
    assert warned["severity"] == "warning" and "loss" in warned["message"]
    assert check_llama(llama_folder, draft, release, args={"context_length": 2048}) == {}


def test_e5_a_configuration_that_says_nothing_means_2048_tokens(llama_folder: Path, tmp_path: Path) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000)
    del config["max_position_embeddings"]
    draft = model_folders.folder(tmp_path / "d", config, [model_folders.eagle3_tensors(config)])
    assert check_llama(llama_folder, draft)["draft_context_length"]["evidence"]["draft"] == 2048


def test_e13_draft_of_several_layers(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, num_hidden_layers=2)
    assert "draft_layers" in check_llama(llama_folder, draft, "0.5.9")
    assert "draft_layers" not in check_llama(llama_folder, draft, "0.5.23")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"vocab_size": 32000}, "draft_vocabulary"),
        ({"hidden_size": 2048}, "draft_hidden_size"),
        ({"target_hidden_size": 2048}, "draft_hidden_size"),
    ],
)
def test_draft_of_another_model(llama_folder: Path, tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000)
    draft = model_folders.folder(tmp_path / "d", {**config, **changes}, [model_folders.eagle3_tensors(config)])
    assert name in check_llama(llama_folder, draft)


@pytest.mark.parametrize("lost", ["d2t", "draft_vocab_size"])
def test_draft_whose_vocabulary_cannot_be_mapped(llama_folder: Path, tmp_path: Path, lost: str) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000)
    tensors = {name: value for name, value in model_folders.eagle3_tensors(config).items() if name != lost}
    config.pop(lost, None)
    draft = model_folders.folder(tmp_path / "d", config, [tensors])
    assert lost in check_llama(llama_folder, draft)["draft_vocabulary"]["message"]


@pytest.mark.parametrize(
    ("changes", "rows", "words"),
    [
        # the checkpoint of a draft with a small vocabulary, the configuration of one with a whole
        ({"draft_vocab_size": None}, {"lm_head.weight": 32000}, "lm_head has 32000 rows and its vocab_size is 128256"),
        ({}, {"lm_head.weight": 16000}, "lm_head has 16000 rows and its draft_vocab_size is 32000"),
        ({}, {"embed_tokens.weight": 32000}, "embed_tokens has 32000 rows and its vocab_size is 128256"),
        ({}, {"embed_tokens.weight": 128256, "lm_head.weight": 32000}, None),
        ({"draft_vocab_size": None}, {"lm_head.weight": 128256}, None),
    ],
)
def test_tables_of_tokens_have_the_rows_of_their_vocabulary(
    llama_folder: Path, tmp_path: Path, changes: dict[str, Any], rows: dict[str, int], words: str | None
) -> None:
    config = model_folders.eagle3_config(4096, 128256, 32000, max_position_embeddings=131072)
    tensors = model_folders.eagle3_tensors(config)
    tensors.update({name: ("BF16", [count, 4096]) for name, count in rows.items()})
    draft = model_folders.folder(tmp_path / "d", {**config, **changes}, [tensors])
    found = check_llama(llama_folder, draft)
    assert (words in found["draft_vocabulary"]["message"]) if words else found == {}


@pytest.mark.parametrize("embedding", [True, False])
def test_a_draft_of_another_width_brings_its_embedding(llama_folder: Path, tmp_path: Path, embedding: bool) -> None:
    changes = {"target_hidden_size": 4096, "max_position_embeddings": 131072}
    config = model_folders.eagle3_config(2048, 128256, 32000, **changes)
    tensors = model_folders.eagle3_tensors(config, target_hidden=4096)
    if embedding:
        tensors["embed_tokens.weight"] = ("BF16", [128256, 2048])
    draft = model_folders.folder(tmp_path / "d", config, [tensors])
    assert set(check_llama(llama_folder, draft)) == (set() if embedding else {"draft_hidden_size"})


def test_graphs_that_capture_other_layers_than_the_draft_was_trained_on(llama_folder: Path, tmp_path: Path) -> None:
    def draft(ids: list[int]) -> Path:
        return model_folders.draft(
            tmp_path / str(ids[0]), 4096, 128256, 32000, eagle_config={"eagle_aux_hidden_state_layer_ids": ids}
        )

    found = check_llama(llama_folder, draft([3, 15, 28]))["draft_aux_layers"]
    assert found["severity"] == "warning" and "cuda_graph_runner" in found["message"]
    # the defaults of 32 layers (2, 16, 29), counted as the draft's configuration counts them
    assert check_llama(llama_folder, draft([1, 15, 28])) == {}
    assert check_llama(llama_folder, draft([3, 15, 28]), "0.5.13") == {}


def test_a_release_that_does_not_know_the_model(llama_folder: Path, llama_draft: Path, tmp_path: Path) -> None:
    target = model_folders.llama(tmp_path / "t", architectures=["NobodyForCausalLM"])
    assert check_llama(target, llama_draft)["model_class"]["severity"] == "error"
    assert named(facts(instance(model_path=str(target)), release_tree("0.5.9")))["model_class"]["severity"] == "warning"


def test_a_class_that_the_release_lacks_is_answered_with_one_that_it_has(llama_folder: Path, tmp_path: Path) -> None:
    def said(architecture: str, release: str) -> str:
        changes = {"architectures": [architecture], "max_position_embeddings": 131072}
        draft = model_folders.draft(tmp_path / f"{architecture}-{release}", 4096, 128256, 32000, **changes)
        return str(check_llama(llama_folder, draft, release)["draft_class"]["message"])

    # later than this release: the nearest name is another's, and never the one that is missing
    missing = said("Eagle3DeepseekV2ForCausalLM", "0.5.9")
    assert "did you mean 'Eagle3DeepseekV2ForCausalLM'" not in missing and "LlamaForCausalLMEagle3" in missing
    assert "did you mean 'LlamaForCausalLMEagle3'" in said("LlamaForCausalLMEagle_3", "0.5.23")
    assert "Eagle3DeepseekV2ForCausalLM" in said("NobodyKnows", "0.5.23")


def test_what_the_draft_class_lacks_is_named_with_its_call_sites(llama_folder: Path, llama_draft: Path) -> None:
    found = facts(llama(llama_folder, llama_draft), release_tree("0.5.9"))
    assert "draft_interface" not in named(found) and found.sources is not None
    found.sources["draft_interface"]["missing"] = {"get_hot_token_id": ["sglang/srt/x.py:7 in Worker.run"]}
    refused = named(found)["draft_interface"]
    assert refused["severity"] == "error"
    assert "get_hot_token_id (called at sglang/srt/x.py:7 in Worker.run)" in refused["message"]
