"""Parts of real sources, patched or as they are, made to run by themselves."""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.patch.derive import derive
from ansible_collections.inferops.sglang.plugins.module_utils.patch.release import contains
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue
from releases import release_tree

ROOT = Path(__file__).resolve().parents[3]


@cache
def source(release: str, file: str, patch: str | None = None) -> str:
    """The text of a file of a release, with one shipped patch or as it is."""
    raw = (release_tree(release) / "sglang" / file).read_bytes()
    if patch is None:
        return raw.decode()
    (definition,) = catalogue.load([patch], ROOT)
    edits = [edit for edit in definition["edits"] if edit["file"] == file and contains(edit["releases"], release)]
    derived = derive(raw, file, [(patch, edit) for edit in edits])
    assert derived.conflicts == {} and derived.data != raw
    return derived.data.decode()


@lru_cache(maxsize=8)
def tree(text: str) -> ast.Module:
    return ast.parse(text)


def node(text: str, *path: str) -> Any:
    """A class or function of a module, by its path of names."""
    found: Any = tree(text)
    for name in path:
        found = next(one for one in ast.walk(found) if getattr(one, "name", None) == name)
    return found


def run(body: list[Any], namespace: dict[str, Any]) -> dict[str, Any]:
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "extract", "exec"), namespace)
    return namespace
