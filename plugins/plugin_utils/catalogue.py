# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The patch catalogue, on the controller: names, files and inline definitions become checked definitions.

Definitions travel to the hosts as parameters: neither the YAML files nor PyYAML are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest
from ansible_collections.inferops.sglang.plugins.module_utils.patch.definition import normalise
from ansible_collections.inferops.sglang.plugins.module_utils.patch.fingerprint import digest

__all__ = ["digest", "load", "plain_yaml", "shipped"]


def plain_yaml(text: str) -> Any:
    """The value of a YAML text; by the parser in C, where PyYAML has it: every host asks anew."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def shipped(collection_root: str | Path) -> list[str]:
    """The names of the patches that the collection ships, in order of the alphabet."""
    return sorted(path.stem for path in (Path(collection_root) / "patches").glob("*.yml"))


def load(names_or_inline: Iterable[Any], collection_root: str | Path) -> list[dict[str, Any]]:
    """Checked definitions, in the order given.

    Each entry is the name of a shipped patch, the path of a YAML file (it ends in ``.yml`` or ``.yaml``), or a
    definition itself (a mapping).

    :raises InferopsError: when a name is unknown, a file cannot be read, or a definition is wrong; and when two
        entries have one name.
    """
    result: list[dict[str, Any]] = []
    for number, entry in enumerate(names_or_inline, 1):
        if isinstance(entry, str):
            definition = _from_file(_path_of(entry, Path(collection_root)))
        else:
            definition = normalise(entry, f"inline patch {number}")
        if any(other["name"] == definition["name"] for other in result):
            raise InferopsError(f"the patch {definition['name']!r} is given twice; remove one of the two")
        result.append(definition)
    return result


def _path_of(entry: str, collection_root: Path) -> Path:
    if entry.endswith((".yml", ".yaml")):
        return Path(entry).expanduser()
    names = shipped(collection_root)
    if entry not in names:
        raise InferopsError(
            f"unknown patch {entry!r}{nearest(entry, names)} (shipped: {', '.join(names) or 'none'}; "
            "a patch of your own is given as a path that ends in .yml, or inline as a mapping)"
        )
    return collection_root / "patches" / f"{entry}.yml"


def _from_file(path: Path) -> dict[str, Any]:
    try:
        raw = plain_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InferopsError(f"cannot read the patch file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InferopsError(f"the patch file {path} is not valid YAML: {error}") from error
    if isinstance(raw, dict):
        raw = {"name": path.stem, **raw}
    return normalise(raw, str(path))
