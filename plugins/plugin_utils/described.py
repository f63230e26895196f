# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether servers are described in the right form: known keys, values of the right kind and in their range.

Ansible checks modules' options too, but says neither which instance it means nor what comes near; so this runs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.errors import nearest
from ansible_collections.inferops.sglang.plugins.module_utils.server.spec import INSTANCE_OPTIONS
from ansible_collections.inferops.sglang.plugins.plugin_utils import ranges

_WANTED = {
    "str": "a text",
    "path": "a path",
    "int": "a whole number",
    "bool": "true or false",
    "dict": "a mapping of names to values",
    "list": "a list",
}
_TRUTHS = ("yes", "no", "on", "off", "true", "false", "1", "0", "y", "n", "t", "f")


def problems(instances: Sequence[Any]) -> list[str]:
    """What is wrong with the form of the instances, in words; each names the instance and the key."""
    return [problem for instance in instances for problem in _instance(instance)]


def kind(value: Any) -> str:
    """What a value of an inventory is, in words that do not name Python's or Ansible's classes."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {str(value)!r}"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def listed(value: Any) -> list[Any]:
    """The elements of a list option, which may be written as one value or with commas, as for every Ansible module."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [value] if isinstance(value, (int, float)) else list(value or [])


def _instance(instance: Any) -> Iterable[str]:
    if not isinstance(instance, Mapping):
        yield f"an instance is {kind(instance)}; wanted a mapping with 'model_path', 'lock' and the like"
        return
    where = f"instance {str(instance.get('name', '?'))!r}"
    yield from _options(instance, INSTANCE_OPTIONS, where)
    yield from (f"{where}: {problem}" for problem in ranges.problems(instance))


def _options(given: Mapping[str, Any], options: Mapping[str, Any], where: str) -> Iterable[str]:
    yield from _unknown(given, options, where)
    for key, option in options.items():
        value = given.get(key)
        if value is None:
            if option.get("required"):
                yield f"{where} has no '{key}', which every instance needs"
        elif not _fits(value, option):
            shown = "of another kind" if option.get("no_log") else kind(value)
            yield f"{where}: '{key}' is {shown}; wanted {_WANTED[option['type']]}{_hint(key, value)}"
        elif "options" in option and isinstance(value, Mapping):
            yield from _options(value, option["options"], f"{where}, '{key}'")
        elif option["type"] == "list":
            yield from _elements(listed(value), key, where)


def _elements(values: Sequence[Any], key: str, where: str) -> Iterable[str]:
    for number, value in enumerate(values):
        # a patch of one's own may stand in the inventory as a mapping
        if isinstance(value, Mapping) and key in ("patches", "definitions"):
            continue
        if (
            not isinstance(value, (str, int))
            or isinstance(value, bool)
            or (key != "gpus" and not isinstance(value, str))
        ):
            yield f"{where}: element {number} of '{key}' is {kind(value)}; wanted a text"


def _fits(value: Any, option: Mapping[str, Any]) -> bool:
    wanted = option["type"]
    if wanted == "bool":
        return isinstance(value, bool) or str(value).lower() in _TRUTHS
    if isinstance(value, bool):
        return False
    if wanted == "int":
        return isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit())
    if wanted == "dict":
        return isinstance(value, Mapping)
    if wanted == "list":
        return not isinstance(value, Mapping)
    return isinstance(value, (str, int, float))


def _hint(key: str, value: Any) -> str:
    if key == "speculative" and isinstance(value, str):
        return " (algorithm: EAGLE3, draft_model_path: …)"
    return (
        " (YAML reads yes, no, on and off as truth values; put the text in quotes)" if isinstance(value, bool) else ""
    )


def _unknown(given: Mapping[str, Any], known: Iterable[str], where: str) -> list[str]:
    names = list(known)
    return [
        f"{where} has the unknown key {key!r}"
        + (nearest(str(key), names) or f"; an option of SGLang itself belongs under 'args'. Known: {', '.join(names)}")
        for key in given
        if key not in names
    ]
