# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Import patched modules before their files are written: the environment's own Python has the last word.

The new texts are served from memory, under the names and paths that they will have. SGLang's model registry swallows
every exception of an import and says "Ignore import error", so a start would not tell.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from typing import Any

from .edits import promises


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the new text of a module, whatever lies in its file and in its bytecode cache."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> Any:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds modules as usual, and gives those with a new text a loader of it."""

    def __init__(self, texts: dict[str, bytes]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin in self.texts:
            spec.loader = _Loader(name, spec.origin, self.texts[spec.origin])
        return spec


def problems(definitions: list[dict[str, Any]], texts: dict[str, bytes], keys: dict[str, str]) -> dict[str, list[str]]:
    """What is wrong after importing each module: those that are ``unimportable``, and ``missing`` attributes.

    ``keys`` maps the paths of all modules to ``package/file``, ``texts`` paths to new texts; others are as they are.
    """
    sys.meta_path.insert(0, _Finder(texts))
    unimportable: list[str] = []
    missing: list[str] = []
    for key in keys.values():
        if not key.endswith(".py"):
            continue
        name = key[: -len(".py")].replace("/", ".")
        name = name[: -len(".__init__")] if name.endswith(".__init__") else name
        try:
            module = importlib.import_module(name)
        except Exception as error:  # whatever a module raises while it is imported is what we want to know
            unimportable.append(f"{name} cannot be imported: {type(error).__name__}: {error}")
            continue
        missing += [
            f"{name} has no {attribute}" for attribute in _attributes(definitions, key) if not _has(module, attribute)
        ]
    return {"unimportable": unimportable, "missing": missing}


def _attributes(definitions: list[dict[str, Any]], key: str) -> list[str]:
    edits = [edit for definition in definitions for edit in definition["edits"]]
    return [
        promise
        for edit in edits
        if edit["kind"] == "add_methods" and f"{edit['package']}/{edit['file']}" == key
        for promise in promises(edit)
    ]


def _has(module: Any, dotted: str) -> bool:
    value = module
    for part in dotted.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
