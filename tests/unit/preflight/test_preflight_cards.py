"""Features and memory that depend on the card: all-reduce, symmetric memory, what fits and what the last start took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import calibration, models
from preflight_samples import GIB, facts, gpus, instance, kimi, llama, named, results
from releases import release_tree

pytestmark = pytest.mark.index
RECORDED = Path(__file__).resolve().parents[2] / "fixtures"


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
    [
        ({}, {"quantization": "fp8"}),
        ({"torch_dtype": "float32"}, {}),
        ({}, {"torchao_config": "int4wo-128"}),
        ({}, {"cpu_offload_gb": 64}),
        ({}, {"kt_num_gpu_experts": 8}),
        ({}, {"offload_group_size": 4}),
        ({}, {"json_model_override_args": {"num_hidden_layers": 2}}),
    ],
)
def test_weights_that_shrink_or_stay_elsewhere_are_no_error(
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
