"""The table of checks itself: what is deferred, acknowledged and documented, and how options are named."""

from __future__ import annotations

from pathlib import Path

import model_folders
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import check, gather, models, run
from preflight_samples import check_llama, facts, instance, kimi, named, results, schema

pytestmark = pytest.mark.index


def test_without_a_build_what_depends_on_it_is_deferred(kimi_folder: Path, kimi_draft: Path) -> None:
    found = results(facts(kimi(kimi_folder, kimi_draft), None))
    assert {name for name, entry in found.items() if entry["deferred"]} == {
        "build",
        "options",
        "model_class",
        "speculative_algorithm",
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
    pinned = instance(model_path="meta-llama/Llama-3.1-8B", args={"revision": "abc"}, env={"HF_HOME": str(tmp_path)})
    (base / "refs" / "main").unlink()
    assert results(facts(pinned, None))["model_path"]["evidence"] == {"architecture": "LlamaForCausalLM"}
