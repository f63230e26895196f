"""The mistakes that people make with EAGLE-3, each on a model folder made for it: refused or warned of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import calibration, check, models, run
from preflight_samples import GIB, facts, gpus, instance, kimi, named, results, schema
from releases import release_tree

pytestmark = pytest.mark.index
RECORDED = Path(__file__).resolve().parents[2] / "fixtures"
OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def llama(target: Path, draft: Path | None, **changes: Any) -> dict[str, Any]:
    """A Llama target with an EAGLE-3 draft; nothing is wrong with it unless ``changes`` make it so."""
    speculative = {"draft_model_path": str(draft) if draft else None, "num_steps": 3, "eagle_topk": 1}
    speculative.update({"num_draft_tokens": 4, **changes.pop("speculative", {})})
    args = {"attention_backend": "flashinfer", "disable_custom_all_reduce": True, **changes.pop("args", {})}
    return instance(**{"name": "llama", "model_path": str(target), "speculative": speculative, "args": args, **changes})


def check_llama(target: Path, draft: Path | None, release: str = "0.5.9", **changes: Any) -> dict[str, dict[str, Any]]:
    found = named(facts(llama(target, draft, **changes), release_tree(release), release))
    # for the tables of 0.5.9, which lack this card: known, and no matter of these tests
    found.pop("symmetric_memory", None)
    found.pop("eagle3_aux_after_allreduce", None)
    return found


@pytest.mark.parametrize("release", ["0.5.9", "0.5.13", "0.5.23"])
def test_nothing_is_wrong_with_a_matching_pair(llama_folder: Path, llama_draft: Path, release: str) -> None:
    assert check_llama(llama_folder, llama_draft, release) == {}


# The drafts of CASES.md, group E


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


@pytest.mark.parametrize(
    "given",
    [
        {"num_steps": 3, "eagle_topk": None, "num_draft_tokens": None},
        {"num_steps": None, "eagle_topk": 4, "num_draft_tokens": None},
        {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": None},
    ],
)
def test_e7_incomplete_options(llama_folder: Path, llama_draft: Path, given: dict[str, Any]) -> None:
    found = check_llama(llama_folder, llama_draft, speculative=given)
    assert "all three or none" in found["speculative_options"]["message"]
    assert found["speculative_options"]["evidence"] == given


def test_none_of_the_three_is_the_choice_of_the_release(llama_folder: Path, llama_draft: Path) -> None:
    chosen = {"num_steps": None, "eagle_topk": None, "num_draft_tokens": None}
    found = facts(llama(llama_folder, llama_draft, speculative=chosen), release_tree("0.5.9"))
    assert found.shape == (5, 4, 8)
    assert results(found)["speculative_effective"]["evidence"] == {
        "num_steps": 5,
        "eagle_topk": 4,
        "num_draft_tokens": 8,
    }


def test_e8_overlapped_worker_with_topk(llama_folder: Path, llama_draft: Path) -> None:
    wide = {"eagle_topk": 4, "num_draft_tokens": 8}
    env = {"SGLANG_ENABLE_SPEC_V2": "1"}
    assert "spec_v2_topk" in check_llama(llama_folder, llama_draft, speculative=wide, env=env)
    assert "spec_v2_topk" not in check_llama(llama_folder, llama_draft, "0.5.23", speculative=wide, env=env)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"attention_backend": "trtllm_mha"}, "trtllm_mha"),
        ({"decode_attention_backend": "trtllm_mha"}, "trtllm_mha"),
        ({"attention_backend": "triton", "page_size": 16}, "page size 16"),
    ],
)
def test_e8_topk_on_a_backend_that_forbids_it(
    llama_folder: Path, llama_draft: Path, args: dict[str, Any], word: str
) -> None:
    found = check_llama(llama_folder, llama_draft, args=args, speculative={"eagle_topk": 4, "num_draft_tokens": 8})
    assert word in found["attention_backend_topk"]["message"]
    assert check_llama(llama_folder, llama_draft, args=args) == {}


def test_e8_triton_takes_pages_and_topk_in_later_releases(llama_folder: Path, llama_draft: Path) -> None:
    args = {"attention_backend": "triton", "page_size": 16}
    wide = {"eagle_topk": 4, "num_draft_tokens": 8}
    assert check_llama(llama_folder, llama_draft, "0.5.23", args=args, speculative=wide) == {}


def test_e10_draft_tokens_that_are_changed_in_silence(llama_folder: Path, llama_draft: Path) -> None:
    found = check_llama(llama_folder, llama_draft, speculative={"num_draft_tokens": 24})["speculative_effective"]
    assert found["severity"] == "warning" and found["evidence"]["num_draft_tokens"] == 4


def test_more_draft_tokens_than_the_tree_has(llama_folder: Path, llama_draft: Path) -> None:
    wide = {"num_steps": 2, "eagle_topk": 2, "num_draft_tokens": 16}
    assert check_llama(llama_folder, llama_draft, speculative=wide)["speculative_tree"]["evidence"]["candidates"] == 6


def test_e13_draft_of_several_layers(llama_folder: Path, tmp_path: Path) -> None:
    draft = model_folders.draft(tmp_path / "d", 4096, 128256, 32000, num_hidden_layers=2)
    assert "draft_layers" in check_llama(llama_folder, draft, "0.5.9")
    assert "draft_layers" not in check_llama(llama_folder, draft, "0.5.23")


def test_e6_draft_inherits_a_backend_for_latent_attention(kimi_folder: Path, kimi_draft: Path) -> None:
    cards = gpus(8, "10.0", 180 * GIB, "nvlink")
    described = kimi(kimi_folder, kimi_draft, speculative={"eagle_topk": 1, "num_draft_tokens": 3})
    described["args"].pop("attention_backend")
    found = named(facts(described, release_tree("0.5.13"), "0.5.13", gpus=cards))
    assert "trtllm_mla" in found["draft_attention_backend"]["message"]
    described["args"]["speculative_draft_attention_backend"] = "trtllm_mha"
    assert "draft_attention_backend" not in named(facts(described, release_tree("0.5.13"), "0.5.13", gpus=cards))


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


# The shipped configuration


def test_the_shipped_configuration_on_patched_sources_names_what_it_accepts_and_no_more(
    kimi_folder: Path, kimi_draft: Path, patched_059: Path
) -> None:
    found = facts(kimi(kimi_folder, kimi_draft), patched_059)
    checks = check.run(run.TABLE, found, ["mla_topk_tree_mask"])
    wrong = {entry["name"]: entry for entry in checks if not entry["ok"]}
    assert set(wrong) == {"mla_topk_tree_mask", "allreduce_fusion_no_effect"}
    assert wrong["mla_topk_tree_mask"]["acknowledged"]
    assert "12.0" in wrong["allreduce_fusion_no_effect"]["message"]
    assert check.fatal(checks) == []


def test_the_shipped_configuration_without_its_patches_names_what_they_cure(
    kimi_folder: Path, kimi_draft: Path
) -> None:
    wrong = named(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9")))
    assert set(wrong) == {
        "mla_topk_tree_mask",
        "allreduce_fusion_no_effect",
        "target_interface",
        "symmetric_memory",
        "eagle3_aux_after_allreduce",
    }
    interface = wrong["target_interface"]
    assert set(interface["evidence"]["missing"]) == {"set_eagle3_layers_to_capture", "get_embed_and_head"}
    assert "kimi_k25_eagle3_delegation" in interface["message"]
    assert "sm120_symm_mem" in wrong["symmetric_memory"]["message"]
    assert "sm120_multimem" in wrong["symmetric_memory"]["message"]
    assert "deepseek_eagle3_aux_after_allreduce" in wrong["eagle3_aux_after_allreduce"]["message"]
    fatal = check.fatal(
        check.run(run.TABLE, facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9")), ["mla_topk_tree_mask"])
    )
    assert [entry["name"] for entry in fatal] == ["target_interface"]


def test_the_alternative_with_topk_1_needs_no_acknowledgement(
    kimi_folder: Path, kimi_draft: Path, patched_059: Path
) -> None:
    narrow = {"eagle_topk": 1, "num_draft_tokens": 3}
    wrong = named(facts(kimi(kimi_folder, kimi_draft, speculative=narrow), patched_059))
    assert set(wrong) == {"allreduce_fusion_no_effect"}


@pytest.mark.parametrize("release", ["0.5.9", "0.5.13", "0.5.23"])
def test_the_tree_mask_is_missing_in_all_these_releases(kimi_folder: Path, kimi_draft: Path, release: str) -> None:
    wrong = named(facts(kimi(kimi_folder, kimi_draft), release_tree(release), release))
    assert "eagle_topk: 1" in wrong["mla_topk_tree_mask"]["message"]
    on_triton = kimi(kimi_folder, kimi_draft, args={"attention_backend": "triton"})
    assert "mla_topk_tree_mask" not in named(facts(on_triton, release_tree(release), release))


def test_weights_are_never_read(kimi_folder: Path) -> None:
    """The data of these files is a hole of 551 GiB: reading it would show in what the process has read."""

    def read_bytes() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))

    before = read_bytes()
    model = models.read(str(kimi_folder), {})
    assert model.bytes > 500 * GIB and len(model.sizes) == 64
    assert read_bytes() - before < 100 << 20


# Cards


def test_fusion_in_force_on_hopper_with_captures_before_the_all_reduce(kimi_folder: Path, kimi_draft: Path) -> None:
    hopper = gpus(8, "9.0", 141 * GIB, "nvlink")
    wrong = named(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9"), gpus=hopper))
    assert wrong["eagle3_aux_after_allreduce"]["severity"] == "warning"
    assert "deepseek_v2.py" in wrong["eagle3_aux_after_allreduce"]["evidence"]["at"]
    assert "allreduce_fusion_no_effect" not in wrong and "symmetric_memory" not in wrong
    later = named(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.14"), "0.5.14", gpus=hopper))
    assert "eagle3_aux_after_allreduce" not in later


def test_symmetric_memory_asked_for_on_a_card_without_sizes(kimi_folder: Path, kimi_draft: Path) -> None:
    described = kimi(kimi_folder, kimi_draft, args={"enable_torch_symm_mem": True})
    assert named(facts(described, release_tree("0.5.9")))["symmetric_memory"]["severity"] == "error"
    assert "symmetric_memory" not in named(facts(described, release_tree("0.5.14"), "0.5.14"))


def test_an_open_gate_for_a_kernel_that_is_not_built(kimi_folder: Path, kimi_draft: Path) -> None:
    found = facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9"))
    assert found.sources is not None
    found.sources["fusion"] = [9, 10, 12]
    assert "sm120_allreduce_fusion" in named(found)["allreduce_fusion_kernel"]["message"]
    found.sources["flashinfer_fusion"] = [9, 10, 12]
    assert "allreduce_fusion_kernel" not in named(found)


def test_b9_custom_all_reduce_without_nvlink(kimi_folder: Path, kimi_draft: Path) -> None:
    described = kimi(kimi_folder, kimi_draft, args={"disable_custom_all_reduce": False})
    assert named(facts(described, release_tree("0.5.9")))["custom_all_reduce"]["severity"] == "warning"
    nvlink = gpus(8, "9.0", 141 * GIB, "nvlink")
    assert "custom_all_reduce" not in named(facts(described, release_tree("0.5.9"), gpus=nvlink))


# Memory


def test_weights_that_cannot_fit(kimi_folder: Path, kimi_draft: Path) -> None:
    small = gpus(8, "12.0", 48 * GIB)
    found = named(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9"), gpus=small))["gpu_memory"]
    assert "68.9 GiB of weights" in found["message"] and "48.0 GiB" in found["message"]


def test_a12_fraction_below_the_weights(kimi_folder: Path, kimi_draft: Path) -> None:
    described = kimi(kimi_folder, kimi_draft, args={"mem_fraction_static": 0.6})
    assert "must be above 0.7" in named(facts(described, release_tree("0.5.9")))["gpu_memory"]["message"]


def test_the_range_of_memory_says_what_it_is_made_of(kimi_folder: Path, kimi_draft: Path) -> None:
    found = results(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9")))["gpu_memory"]
    assert found["ok"] and "every rank keeps all" in found["message"]
    # 61 layers of (512 + 64) values of two bytes
    assert found["evidence"]["kv_bytes_per_token"] == 61 * 576 * 2


def test_e11_the_draft_counts_against_the_fraction_from_0514_on(llama_folder: Path, llama_draft: Path) -> None:
    model = models.read(str(llama_folder), {}).bytes
    draft = models.read(str(llama_draft), {}).bytes
    card = gpus(1, "12.0", 8 * model)
    described = llama(llama_folder, llama_draft, args={"mem_fraction_static": (model + draft / 2) / (8 * model)})
    assert "gpu_memory" not in named(facts(described, release_tree("0.5.13"), "0.5.13", gpus=card))
    assert "gpu_memory" in named(facts(described, release_tree("0.5.14"), "0.5.14", gpus=card))


@pytest.mark.parametrize(
    ("config", "args"),
    [({}, {"quantization": "fp8"}), ({"torch_dtype": "float32"}, {}), ({}, {"torchao_config": "int4wo-128"})],
)
def test_weights_that_shrink_while_they_are_loaded_are_no_error(
    tmp_path: Path, config: dict[str, Any], args: dict[str, Any]
) -> None:
    target = model_folders.llama(tmp_path / "t", **config)
    described = instance(model_path=str(target), args=args)
    small = gpus(1, "12.0", GIB)
    assert "gpu_memory" not in named(facts(described, release_tree("0.5.9"), gpus=small))
    plain = instance(model_path=str(model_folders.llama(tmp_path / "u")))
    assert "gpu_memory" in named(facts(plain, release_tree("0.5.9"), gpus=small))


@pytest.mark.parametrize(
    ("log", "weights", "draft", "tokens", "left"),
    [
        ("logs/gpu/eagle3_ok.log", 0.32, 0.18, 4021086, 61.65),
        ("logs/host/02_ready_eagle3_tp8_v0523.log", 72.55, 1.40, 1391616, 29.77),
    ],
)
def test_what_the_last_good_start_took_is_read_from_its_log(
    log: str, weights: float, draft: float, tokens: int, left: float
) -> None:
    path = RECORDED / log
    found = calibration.measure(path.read_text(errors="replace").splitlines(), str(path))
    assert found is not None
    assert (found.weights, found.draft, found.tokens, found.left) == (weights, draft, tokens, left)


def test_the_last_good_start_is_that_of_the_last_good_activation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llama_folder: Path, llama_draft: Path
) -> None:
    monkeypatch.setattr(layout, "ROOT", str(tmp_path / "opt"))
    monkeypatch.setattr(layout, "LOGS", str(tmp_path / "log"))
    described = llama(llama_folder, llama_draft)
    for number, outcome in ((1, "good"), (2, "good"), (3, "failed")):
        folder = tmp_path / "opt" / "llama" / "activations" / str(number)
        folder.mkdir(parents=True)
        (folder / "activation.json").write_text(json.dumps({"n": number, "outcome": outcome}))
        logs = tmp_path / "log" / "llama"
        logs.mkdir(parents=True, exist_ok=True)
        (logs / f"{number}.log").write_text(
            f"[2026-11-29 16:00:00] Load weight end. elapsed=1 s, type=A, avail mem=1 GB, mem usage={number}.50 GB.\n"
            "[2026-11-29 16:00:00] max_total_num_tokens=7, available_gpu_mem=2.00 GB\n"
        )
        record = {"activation": number, "started_at": number, "log": str(logs / f"{number}.log")}
        record["argv"] = ["python", f"--model-path={llama_folder}"]
        (logs / f"{number}.json").write_text(json.dumps(record))
    measured = calibration.last_good_start(described)
    assert measured is not None and measured.weights == 2.5
    found = facts(described, release_tree("0.5.9"))
    found.measured = measured
    assert "the last good start took 2.5 GiB" in results(found)["gpu_memory"]["message"]
    assert calibration.last_good_start({**described, "model_path": "/another"}) is None


def test_a9_host_memory_for_eight_ranks(kimi_folder: Path, kimi_draft: Path) -> None:
    found = named(facts(kimi(kimi_folder, kimi_draft), release_tree("0.5.9"), memory=16 * GIB))
    assert found["host_memory"]["severity"] == "warning"


# Before there is a build, and the table itself


def test_without_a_build_what_depends_on_it_is_deferred(kimi_folder: Path, kimi_draft: Path) -> None:
    found = results(facts(kimi(kimi_folder, kimi_draft), None))
    assert {name for name, entry in found.items() if entry["deferred"]} == {
        "build",
        "options",
        "model_class",
        "target_interface",
        "draft_interface",
    }
    assert found["draft_lm_head"]["ok"] and not found["draft_lm_head"]["deferred"]


def test_options_that_the_release_does_not_know(llama_folder: Path, llama_draft: Path) -> None:
    found = check_llama(llama_folder, llama_draft, args={"cuda_graph_maxbs": 8})
    assert "cuda-graph-max-bs" in found["options"]["message"]


def test_an_acknowledged_name_that_is_no_check_is_refused_with_the_nearest() -> None:
    with pytest.raises(InferopsError, match="did you mean 'mla_topk_tree_mask'"):
        check.refuse_unknown(["mla_topk_treemask"], run.TABLE, "kimi")


def test_names_are_unique_and_every_check_is_documented() -> None:
    names = [item.name for item in run.TABLE]
    assert len(names) == len(set(names))
    page = (Path(__file__).resolve().parents[3] / "docs" / "preflight.md").read_text()
    for item in run.TABLE:
        assert f"| `{item.name}` | {item.severity} | {item.what} |" in page, item.name


def test_options_are_known_by_the_name_that_sglang_gives_them() -> None:
    found = facts(instance(model_path="/none", args={"tp": 4, "--mem-fraction-static": 0.5}), None)
    assert found.options == {"tp": 4, "mem_fraction_static": 0.5}
    from ansible_collections.inferops.sglang.plugins.module_utils.preflight import gather

    assert gather.by_destination({"tp": 4, "attention-backend": "fa3"}, schema("0.5.9")) == {
        "tp_size": 4,
        "attention_backend": "fa3",
    }


def test_hub_name_offline(tmp_path: Path) -> None:
    described = instance(model_path="meta-llama/Llama-3.1-8B", env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)})
    assert "offline" in named(facts(described, None))["model_path"]["message"]
    online = results(facts(instance(model_path="meta-llama/Llama-3.1-8B", env={"HF_HOME": str(tmp_path)}), None))
    assert online["model_path"]["deferred"]
    base = tmp_path / "hub" / "models--meta-llama--Llama-3.1-8B"
    model_folders.llama(base / "snapshots" / "abc")
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text("abc")
    assert models.read("meta-llama/Llama-3.1-8B", {"HF_HOME": str(tmp_path)}).architecture == "LlamaForCausalLM"
