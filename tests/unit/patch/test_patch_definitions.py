"""Definitions: from names, files and inline mappings; and what is wrong with them, in words that help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import patch_trees as trees
import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.patch import worker
from ansible_collections.inferops.sglang.plugins.module_utils.patch.release import contains
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue
from releases import RELEASES, release_tree

ROOT = Path(__file__).resolve().parents[3]
INLINE = {"name": "mine", "title": "t", "why": "w", "edits": [{"add_import": {"file": "a.py", "code": "import os"}}]}


def message(*entries: Any) -> str:
    with pytest.raises(InferopsError) as raised:
        catalogue.load(entries, ROOT)
    return raised.value.message


def broken(**fields: Any) -> str:
    """The message for an edit of kind ``add_dict_entry`` with other fields."""
    edit = {"file": "srt/a.py", "dict": "D", "key": 12, "value": "[]", **fields}
    return message({**INLINE, "edits": [{"add_dict_entry": {k: v for k, v in edit.items() if v is not None}}]})


def test_names_files_and_inline_definitions_are_loaded_in_order(tmp_path: Path) -> None:
    path = tmp_path / "from_file.yml"
    path.write_text(yaml.safe_dump({key: value for key, value in INLINE.items() if key != "name"}))
    loaded = catalogue.load(["sm120_multimem", INLINE, str(path)], ROOT)
    assert [one["name"] for one in loaded] == ["sm120_multimem", "mine", "from_file"]
    assert loaded[1]["edits"] == [
        {
            "kind": "add_import",
            "package": "sglang",
            "distribution": "sglang",
            "file": "a.py",
            "releases": "",
            "code": "import os",
        }
    ]


def test_the_digest_is_of_what_a_patch_does() -> None:
    (one,) = catalogue.load([INLINE], ROOT)
    (retitled,) = catalogue.load([{**INLINE, "title": "another", "proven": ["here"]}], ROOT)
    (other,) = catalogue.load([{**INLINE, "applies_to": ">=0.5.9"}], ROOT)
    assert catalogue.digest(one) == catalogue.digest(retitled) != catalogue.digest(other)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("sm120_symmem", "unknown patch 'sm120_symmem'; did you mean 'sm120_symm_mem'?"),
        ("no/such.yml", "cannot read the patch file no/such.yml: No such file or directory"),
        (7, "inline patch 1: a patch must be a mapping with name, title, why and edits, not a whole number (7)"),
        ({**INLINE, "titel": "x"}, "inline patch 1: unknown field 'titel'; did you mean 'title'?"),
        ({**INLINE, "why": None}, "'why' is missing"),
        ({**INLINE, "name": "No Name"}, "'No Name' is no patch name"),
        ({**INLINE, "default": "yes"}, "'default' must be true or false, not a text ('yes')"),
        ({**INLINE, "applies_to": "0.5.9+"}, "applies_to: '0.5.9+' is no range of releases"),
        ({**INLINE, "edits": {}}, "'edits' is missing"),
        ({**INLINE, "edits": [{"add_method": {}}]}, "unknown kind of edit 'add_method'; did you mean 'add_methods'?"),
        ({**INLINE, "edits": [{"replace": {"file": "a.py", "old": "a", "new": "b"}}]}, "(replace): 'count' is missing"),
        ({**INLINE, "edits": [{"replace": {"file": "a.py", "old": "a", "new": "a", "count": 1}}]}, "are the same"),
        ({**INLINE, "edits": [{"replace": {"file": "a.py", "old": "a", "new": "b", "count": 0}}]}, "at least 1, not 0"),
        ({**INLINE, "edits": [{"add_methods": {"file": "a.py", "class": "A", "code": "x = 1"}}]}, "must hold methods"),
        ({**INLINE, "edits": [{"add_methods": {"file": "a.py", "class": "A", "code": "def f("}}]}, "not valid Python"),
        ({**INLINE, "edits": [{"add_import": {"file": "a.py", "code": "from a import *"}}]}, "name what is needed"),
        ({**INLINE, "edits": [{"add_import": {"file": "a.json", "code": "import a"}}]}, "works on Python files"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(entry: Any, said: str) -> None:
    assert said in message(entry)


def test_edits_are_checked_field_by_field() -> None:
    assert "edit 1 (add_dict_entry): unknown field 'valeu'; did you mean 'value'?" in broken(valeu=1)
    assert "'dict' is missing" in broken(dict=None)
    assert "'exact' must be true or false" in broken(exact="maybe")
    assert "'key' is not a Python expression: 'fp 8'" in broken(key="fp 8")
    for path in ("/etc/passwd", "../a.py", "srt/../../a.py", "srt//a.py", "./a.py", "srt\\a.py"):
        assert "must be a relative path inside the package" in broken(file=path)
    assert "must be the name of a top-level package" in broken(package="../sglang")


def test_one_name_twice_is_refused() -> None:
    assert "the patch 'mine' is given twice" in message(INLINE, INLINE)


@pytest.mark.parametrize(
    ("clause", "inside", "outside"),
    [
        (
            ">=0.5.9,<0.5.14",
            ["0.5.9", "0.5.9.post1", "0.5.13.post1", "0.5.14.dev3", "0.5.14rc1"],
            ["0.5.9rc1", "0.5.14"],
        ),
        ("==0.5.10", ["0.5.10", "0.5.10+local"], ["0.5.10.post1", "0.5.1"]),
        ("!=0.5.10", ["0.5.9"], ["0.5.10"]),
        ("<=0.5.13", ["0.5.13", "0.5.13.dev1", "0.5.13a1"], ["0.5.13.post1"]),
        ("", ["0.1", "99"], []),
        (">0.5.9", ["0.5.10", None, "unknown", "0.0.0.dev0"], ["0.5.9", "0.5"]),
    ],
)
def test_ranges(clause: str, inside: list[str | None], outside: list[str]) -> None:
    assert [contains(clause, version) for version in inside] == [True] * len(inside)
    assert [contains(clause, version) for version in outside] == [False] * len(outside)


@pytest.mark.index
@pytest.mark.parametrize("release", [RELEASES[2], RELEASES[-1]])
def test_the_example_of_the_documentation_works(release: str) -> None:
    block = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/patches.md").read_text(), re.DOTALL)[0]
    (definition,) = catalogue.load([{"name": "longer_health_timeout", **yaml.safe_load(block)}], ROOT)
    answer = worker.plan(trees.request(release_tree(release), definition))
    assert answer["changed"] and trees.states(answer) == [("longer_health_timeout", "present", "inferops")]
