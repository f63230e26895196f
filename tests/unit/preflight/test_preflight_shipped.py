"""The shipped configuration of eight RTX PRO 6000, on the sources of 0.5.9 with its patches and without."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import check, models, run
from preflight_samples import GIB, facts, kimi, named
from releases import release_tree

pytestmark = pytest.mark.index
ROOT = Path(__file__).resolve().parents[3]


def test_the_sample_is_the_shipped_inventory(kimi_folder: Path, kimi_draft: Path) -> None:
    """What these tests check is what is shipped, on other folders."""
    file = ROOT / "inventories/rtx-pro-6000-8x/group_vars/sglang.yml"
    shipped = yaml.safe_load(file.read_text())["sglang_instances"]["kimi"]
    sample = kimi(kimi_folder, kimi_draft)
    assert shipped["speculative"].pop("draft_model_path") and sample["speculative"].pop("draft_model_path")
    for key in ("speculative", "args", "env"):
        assert sample[key] == shipped[key]
    assert shipped["acknowledge"] == ["mla_topk_tree_mask"] and shipped["api_key"]


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
        "api_keys_shown",
    }
    interface = wrong["target_interface"]
    assert set(interface["evidence"]["missing"]) == {"set_eagle3_layers_to_capture", "get_embed_and_head"}
    assert "kimi_k25_eagle3_delegation" in interface["message"]
    assert "sm120_symm_mem" in wrong["symmetric_memory"]["message"]
    assert "sm120_multimem" in wrong["symmetric_memory"]["message"]
    assert "deepseek_eagle3_aux_after_allreduce" in wrong["eagle3_aux_after_allreduce"]["message"]
    assert "redact_api_keys" in wrong["api_keys_shown"]["message"]
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
    assert model.bytes > 500 * GIB and len(model.weights.sizes) == 64
    assert read_bytes() - before < 100 << 20
