"""The interface check on real releases: no false alarm where EAGLE-3 is supported, every lack named where it is not."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source import interface
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.classes import Classes
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.package import Sources
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.source.uses import DRAFT, TARGET
from releases import RELEASES, release_tree

CAPTURE, SHARE = "set_eagle3_layers_to_capture", "get_embed_and_head"
#: Defines the one method and, upstream in all these releases, not the other: it dies with EAGLE-3, so it is no false
#: alarm. (It is served as Qwen3-MoE's base class, which has both.)
HALF_SUPPORTED = {"Qwen2MoeForCausalLM"}


@pytest.mark.index
@pytest.mark.parametrize("release", [RELEASES[0], "0.5.9", "0.5.13", "0.5.16", RELEASES[-1]])
def test_verdicts_over_every_class_of_a_release(release: str) -> None:
    """The oracle is the text: which classes define the capture method, themselves or through what they inherit."""
    sources = Sources(str(release_tree(release)))
    classes = Classes(sources)
    needed = interface.uses(sources, classes, "EAGLE3")
    assert {use.name for use in needed if use.owner == TARGET and use.certain} == {CAPTURE, SHARE}
    supported, refused = set(), set()
    for name in sources.modules_below(interface.MODELS):
        module = sources.module(name) if "EntryClass" in sources.text(name) else None
        for found in interface.entry_classes(sources, module) if module is not None else []:
            verdict = interface.judge(classes.view(found), needed, classes)
            if not verdict["missing"] and not verdict["mismatched"] and not verdict["unknown"]:
                supported.add(found.node.name)
            elif verdict["missing"]:
                refused.add(found.node.name)
                assert all(sites for sites in verdict["missing"].values())
    written = Written(Path(sources.root))
    defining = {name for name in supported | refused if (name, CAPTURE) in written.methods}
    assert defining - HALF_SUPPORTED <= supported, "a false alarm"
    assert not {name for name in supported if not written.has(name, CAPTURE)}
    assert {"LlamaForCausalLM", "DeepseekV3ForCausalLM", "Qwen3ForCausalLM", "GptOssForCausalLM"} <= supported
    assert {"GemmaForCausalLM", "BertModel", *HALF_SUPPORTED} <= refused
    assert len(refused) > 100


class Written:
    """Which class names have which methods in the models' files, by reading lines: another way than that under test."""

    def __init__(self, root: Path) -> None:
        self.methods: set[tuple[str, str]] = set()
        self.bases: dict[str, set[str]] = {}
        for path in (root / "sglang/srt/models").rglob("*.py"):
            owner = ""
            for line in path.read_text(encoding="utf-8-sig").splitlines():
                if match := re.match(r"class (\w+)(?:\((.*))?", line):
                    owner = match.group(1)
                    self.bases.setdefault(owner, set()).update(re.findall(r"\w+", match.group(2) or ""))
                elif match := re.match(r"    (?:async )?def (\w+)\(", line):
                    self.methods.add((owner, match.group(1)))
                elif match := re.match(r"    (\w+),$", line):
                    self.bases.setdefault(owner, set()).add(match.group(1))

    def has(self, name: str, method: str, seen: frozenset[str] = frozenset()) -> bool:
        if name in seen or name not in self.bases:
            return False
        return (name, method) in self.methods or any(self.has(b, method, seen | {name}) for b in self.bases[name])


@pytest.mark.index
def test_kimi_k25_on_059_lacks_two_methods_and_both_are_named_with_their_call_sites() -> None:
    sources = Sources(str(release_tree("0.5.9")))
    classes = Classes(sources)
    found = interface.registered(sources, "KimiK25ForConditionalGeneration")
    assert found is not None
    missing = interface.judge(classes.view(found), interface.uses(sources, classes, "EAGLE3"), classes)["missing"]
    assert set(missing) == {CAPTURE, SHARE}
    for name, sites in missing.items():
        for site in sites:
            path, line = re.match(r"(\S+):(\d+) in ", site).groups()  # type: ignore[union-attr]
            assert name in (Path(sources.root) / path).read_text().splitlines()[int(line) - 1]
    assert any("cuda_graph_runner" in site for site in missing[CAPTURE])
    assert any("eagle_worker" in site for site in missing[SHARE])


@pytest.mark.index
@pytest.mark.parametrize("release", ["0.5.10", "0.5.13", "0.5.23"])
def test_kimi_k25_is_complete_from_0510_on(release: str) -> None:
    sources = Sources(str(release_tree(release)))
    classes = Classes(sources)
    found = interface.registered(sources, "KimiK25ForConditionalGeneration")
    assert found is not None
    verdict = interface.judge(classes.view(found), interface.uses(sources, classes, "EAGLE3"), classes)
    assert not verdict["missing"] and not verdict["mismatched"] and not verdict["unknown"]


@pytest.mark.index
@pytest.mark.parametrize("release", ["0.5.9", "0.5.16", "0.5.23"])
def test_the_draft_class_has_what_is_asked_of_it(release: str) -> None:
    sources = Sources(str(release_tree(release)))
    classes = Classes(sources)
    needed = interface.uses(sources, classes, "EAGLE3")
    assert "hot_token_id" in {use.name for use in needed if use.owner == DRAFT}
    found = interface.registered(sources, "LlamaForCausalLMEagle3")
    assert found is not None
    verdict = interface.judge(classes.view(found), needed, classes, DRAFT)
    assert not verdict["missing"] and not verdict["mismatched"]


# What follows is a small package of its own: each test says one thing about how uses and classes are read.

WORKER = """
class EAGLEWorker:
    def __init__(self, target_worker):
        self.target_worker = target_worker
        embed, head = self.target_worker.model_runner.model.get_embed_and_head()
"""


def package(root: Path, worker: str = WORKER, model: str = "", helper: str = "", runner: str = "") -> Sources:
    files = {
        "sglang/__init__.py": "",
        "sglang/srt/__init__.py": "",
        "sglang/srt/models/__init__.py": "",
        "sglang/srt/models/base.py": "import torch.nn as nn\nclass Base(nn.Module):\n    pass\n",
        "sglang/srt/models/it.py": "from torch import nn\nfrom sglang.srt.models.base import Base\n"
        + textwrap.dedent(model)
        + "\nEntryClass = It\n",
        "sglang/srt/speculative/__init__.py": "",
        "sglang/srt/speculative/helper.py": textwrap.dedent(helper),
        "sglang/srt/speculative/eagle_worker.py": "from sglang.srt.speculative import helper\n"
        "from sglang.srt.speculative.helper import *\n" + textwrap.dedent(worker),
        "sglang/srt/speculative/spec_info.py": "class SpeculativeAlgorithm:\n    pass\n",
        "sglang/srt/model_executor/__init__.py": "",
        "sglang/srt/model_executor/model_runner.py": textwrap.dedent(runner) or "class ModelRunner:\n    pass\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        ast.parse(text)
    return Sources(str(root))


def verdict(root: Path, model: str, **parts: str) -> dict[str, Any]:
    sources = package(root, model=model, **parts)
    classes = Classes(sources)
    found = interface.registered(sources, "It")
    assert found is not None
    return interface.judge(classes.view(found), interface.uses(sources, classes, "EAGLE3"), classes)


HAS = "    def get_embed_and_head(self):\n        return 1, 2\n"


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("class It(nn.Module):\n    pass", True),
        ("class It(nn.Module):\n" + HAS, False),
        ("class Mixin:\n" + HAS + "class It(nn.Module, Mixin):\n    pass", False),
        ("class Other(Base):\n" + HAS + "class It(Other):\n    pass", False),
        (
            "if True:\n    class Other(Base):\n    " + HAS.replace("\n", "\n    ") + "\nclass It(Other):\n    pass",
            False,
        ),
        ("class It(nn.Module):\n    if True:\n    " + HAS.replace("\n", "\n    "), False),
        ("class It(nn.Module):\n    pass\nIt.get_embed_and_head = lambda self: (1, 2)", False),
        ("class It(nn.Module):\n    pass\nsetattr(It, 'get_embed_and_head', None)", False),
        ("class It(nn.Module):\n    def __init__(self):\n        self.get_embed_and_head = print", False),
        ("class It(nn.Module):\n    get_embed_and_head = property(print)", False),
    ],
)
def test_a_class_has_what_it_and_its_bases_define(tmp_path: Path, model: str, missing: bool) -> None:
    assert bool(verdict(tmp_path, model)["missing"]) is missing


def test_a_class_with_getattr_is_unknown_and_not_refused(tmp_path: Path) -> None:
    found = verdict(tmp_path, "class It(nn.Module):\n    def __getattr__(self, name):\n        return 1")
    assert not found["missing"]
    assert found["unknown"] == [SHARE]


def test_a_base_of_another_project_does_not_know_the_names_that_sglang_made_up(tmp_path: Path) -> None:
    found = verdict(tmp_path, "from transformers import PreTrainedModel\nclass It(PreTrainedModel):\n    pass")
    assert found["missing"]


def test_attributes_of_a_base_whose_constructor_is_never_called_do_not_count(tmp_path: Path) -> None:
    model = """
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.get_embed_and_head = print
    class It(Other):
        def __init__(self):
            nn.Module.__init__(self)
    """
    assert verdict(tmp_path, model)["missing"]


BARE = "class It(nn.Module):\n    pass"
TARGET_MODEL = "self.target_worker.model_runner.model"


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("if hasattr(M, 'x'):\n    M.x()", False),
        ("if not hasattr(M, 'x'):\n    return\nM.x()", False),
        ("if not hasattr(M, 'x'):\n    raise ValueError('x')\nM.x()", True),
        ("y = M.x() if hasattr(M, 'x') else None", False),
        ("y = hasattr(M, 'x') and M.x()", False),
        ("y = getattr(M, 'x', None)", False),
        ("y = getattr(M, 'x')", True),
        ("assert hasattr(M, 'x')", True),
        ("try:\n    M.x()\nexcept AttributeError:\n    pass", False),
        ("try:\n    M.x()\nexcept AttributeError:\n    raise", True),
        ("try:\n    M.x()\nexcept KeyError:\n    pass", True),
        ("runner = self.target_worker.model_runner\nmodel = runner.model\nmodel.x", True),
        ("model = M\nmodel = object()\nmodel.x", False),
        ("if self.unknown:\n    M.x()", False),
        ("if self.speculative_algorithm.is_eagle3():\n    M.x()", True),
        ("if not self.speculative_algorithm.is_eagle3():\n    M.x()", False),
        ("if self.speculative_algorithm.is_ngram():\n    M.x()", False),
        ("if hasattr(M, 'a'):\n    return M.a()\nM.x()", True),
        ("if hasattr(M, 'forward'):\n    return M.forward()\nM.x()", False),
        ("self.draft_runner.model.x()", False),
        ("M.named_parameters()", False),
        ("use(M)", True),
        ("helper.use(model=M)", True),
        ("careful(M)", False),
        ("self.other(M)", True),
        ("for i in range(3):\n    M.x", True),
        ("with torch.no_grad():\n    M.x", True),
        ("f = lambda: M.x", True),
    ],
)
def test_a_use_counts_when_nothing_guards_it(tmp_path: Path, body: str, missing: bool) -> None:
    worker = (
        "class EAGLEWorker:\n    def other(self, thing):\n        thing.x\n    def start(self):\n"
        + textwrap.indent(body.replace("M", TARGET_MODEL), "        ")
        + "\n"
    )
    helper = (
        "def use(model):\n    return model.x\n"
        "def careful(model):\n    if hasattr(model, 'x'):\n        return model.x\n    return None\n"
    )
    worker = "from sglang.srt.speculative.helper import careful, use\n" + worker
    found = verdict(tmp_path, BARE, worker=worker, helper=helper)
    assert set(found["missing"]) == ({"x"} if missing else set())


def test_a_way_that_is_taken_only_where_something_is_lacking_asks_nothing_of_those_who_have_it(tmp_path: Path) -> None:
    worker = f"""
    class EAGLEWorker:
        def start(self):
            if hasattr({TARGET_MODEL}, 'better'):
                return {TARGET_MODEL}.better()
            return {TARGET_MODEL}.x()
    """
    assert not verdict(tmp_path / "a", "class It(nn.Module):\n    def better(self): ...", worker=worker)["missing"]
    assert verdict(tmp_path / "b", BARE, worker=worker)["missing"]


def test_what_plain_serving_asks_for_too_is_no_matter_of_speculation(tmp_path: Path) -> None:
    runner = """
    class ModelRunner:
        def initialize(self):
            self.model.load_everything()
            if self.eagle_use_aux_hidden_state:
                self.model.capture()
    """
    found = verdict(tmp_path, BARE, worker="class EAGLEWorker: ...", runner=runner)
    assert list(found["missing"]) == ["capture"]


@pytest.mark.parametrize(
    ("signature", "fits"),
    [
        ("self", True),
        ("self, ids=None", True),
        ("self, *ids", True),
        ("self, ids", False),
        ("self, *, ids", False),
        ("self, *, ids=None", True),
    ],
)
def test_a_method_that_cannot_be_called_as_it_is_called_does_not_do(tmp_path: Path, signature: str, fits: bool) -> None:
    found = verdict(tmp_path, f"class It(nn.Module):\n    def get_embed_and_head({signature}): ...")
    assert bool(found["mismatched"]) is not fits


def test_a_method_that_delegates_to_a_class_without_it_is_seen_through(tmp_path: Path) -> None:
    model = """
    class Inner(nn.Module):
        pass
    class It(nn.Module):
        def __init__(self):
            self.language_model = None
            self.language_model = Inner()
        def get_embed_and_head(self):
            return self.language_model.get_embed_and_head()
    """
    found = verdict(tmp_path, model)
    assert "Inner does not have" in found["mismatched"][SHARE]


def test_a_file_that_does_not_parse_is_named_and_not_hidden(tmp_path: Path) -> None:
    sources = package(tmp_path, model=BARE)
    (tmp_path / "sglang/srt/models/it.py").write_text("class It(:\n")
    with pytest.raises(SyntaxError):
        interface.registered(sources, "It")
