"""The shipped catalogue: its definitions, and every one of them over every release from the package index."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import patch_trees as trees
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.files import sha256
from ansible_collections.inferops.sglang.plugins.module_utils.patch import worker
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue
from releases import RELEASES, cache_root, release_tree

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "patches.md"
NAMES = catalogue.shipped(ROOT)
BEGIN, END = "<!-- table: written by tests/unit/patch/test_patch_catalogue.py -->", "<!-- end of table -->"
WORDS = {"present": "applies", "not_needed": "not needed"}


def expected(name: str, release: str) -> str:
    """The state of a shipped patch on a release, as the sources say (read, and checked here)."""
    number = int(release.rpartition(".")[2])
    present = {
        "kimi_k25_eagle3_delegation": number == 9,
        "sm120_symm_mem": number <= 13,
        "sm120_multimem": number <= 13,
        "deepseek_eagle3_aux_after_allreduce": number <= 13,
        "sm120_allreduce_fusion": number >= 8,
        "redact_api_keys": True,
        "eagle3_draft_lm_head": True,
    }
    return "present" if present[name] else "not_needed"


def flashinfer_of(release: Path) -> Path:
    """The flashinfer that a release of SGLang pins."""
    (metadata,) = release.glob("sglang-*.dist-info/METADATA")
    found = re.search(r"^Requires-Dist: flashinfer_python(?:\[\w+\])?==(\S+)$", metadata.read_text(), re.MULTILINE)
    assert found
    return release_tree(found[1], "flashinfer-python")


def linked_copy(source: Path, target: Path) -> Path:
    """A copy of hard links, as uv makes an environment; what is written through one would show in the cache."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


@pytest.fixture(scope="module")
def compiles() -> Iterator[Callable[[Path], None]]:
    """Checks that a file compiles. Releases share most of their files, and releases never change, so what this Python
    has once compiled is remembered beside the releases, by its SHA-256."""
    memory = cache_root() / "releases" / f".compiles-{sys.version_info[0]}.{sys.version_info[1]}"
    known = set(memory.read_text().split()) if memory.exists() else set()
    fresh: list[str] = []

    def check(path: Path) -> None:
        data = path.read_bytes()
        digest = sha256(data)
        if digest not in known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(data, str(path), "exec", dont_inherit=True)
            known.add(digest)
            fresh.append(digest)

    yield check
    with open(memory, "a") as stream:
        stream.write("".join(digest + "\n" for digest in fresh))


def test_the_shipped_list_is_what_the_tests_know() -> None:
    definitions = catalogue.load(NAMES, ROOT)
    assert {one["name"] for one in definitions if one["default"]} == {
        "kimi_k25_eagle3_delegation",
        "sm120_symm_mem",
        "sm120_multimem",
        "deepseek_eagle3_aux_after_allreduce",
        "redact_api_keys",
    }
    unproven = [one["name"] for one in definitions if not one["proven"]]
    assert unproven == ["sm120_allreduce_fusion"], "a shipped patch says what of it has been shown"


def table() -> str:
    """Release x patch, from what ``test_the_whole_catalogue_on_a_release`` checks on the sources."""
    rows = [["release", *(f"`{name}`" for name in NAMES)], ["---"] * (len(NAMES) + 1)]
    rows += [[release, *(WORDS[expected(name, release)] for name in NAMES)] for release in RELEASES]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def test_the_table_in_the_documentation() -> None:
    """Set INFEROPS_WRITE_DOCS=1 to write it."""
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    there, end, behind = rest.partition(END)
    assert begin and end
    if os.environ.get("INFEROPS_WRITE_DOCS"):
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table()}\n{END}{behind}")
    else:
        assert there.strip() == table()


@pytest.mark.index
@pytest.mark.parametrize("release", RELEASES)
def test_the_whole_catalogue_on_a_release(release: str, tmp_path: Path, compiles: Callable[[Path], None]) -> None:
    pristine = release_tree(release)
    root = linked_copy(pristine, tmp_path / "site-packages")
    flash = flashinfer_of(pristine)
    other = tmp_path / "flashinfer"
    other.mkdir()
    linked_copy(flash / "flashinfer" / "jit", other / "flashinfer" / "jit")
    for info in flash.glob("*.dist-info"):
        linked_copy(info, other / info.name)
    definitions = catalogue.load(NAMES, ROOT)
    request = {"root": str(root), "roots": {"flashinfer": str(other)}, "definitions": definitions}
    before = trees.snapshot(root), trees.snapshot(other)

    answer = worker.apply(request)
    assert answer["error"] is None
    assert {one["name"]: one["state"] for one in answer["patches"]} == {name: expected(name, release) for name in NAMES}
    again = worker.apply(request)
    assert again["error"] is None and not again["changed"] and not again["pending"]
    assert worker.integrity({**request, "packages": {"sglang": "sglang"}}) == []
    for path in [*root.rglob("*.py"), *other.rglob("*.py")]:
        compiles(path)
    gone = worker.apply({**request, "state": "absent"})
    assert gone["error"] is None and gone["changed"]
    assert (trees.snapshot(root), trees.snapshot(other)) == before
    assert before[0] == trees.snapshot(pristine), "a hard link was written through"
