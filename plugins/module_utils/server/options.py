# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The options of an SGLang release: what it knows, what an instance gives, and how that is written as arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InferopsError, nearest
from ..files import read_json
from ..running import Runner

ERROR, WARNING = "error", "warning"

#: Options that releases spell differently: earlier name, later name, and what else the change means.
#: From the parsers of 0.5.9 to 0.5.23. (``cuda-graph-max-bs`` is gone from 0.5.20 on, and ambiguous since.)
RENAMES: tuple[tuple[str, str, str], ...] = (
    ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode", "for decoding"),
    ("--cuda-graph-bs", "--cuda-graph-bs-decode", "for decoding"),
    ("--nsa-prefill-backend", "--dsa-prefill-backend", ""),
    ("--nsa-decode-backend", "--dsa-decode-backend", ""),
    ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy", ""),
    ("--stream-output", "--incremental-streaming-output", ""),
    ("--enable-dp-attention", "--attn-dp-size", "with a number as its value"),
    ("--hybrid-kvcache-ratio", "--swa-full-tokens-ratio", "with a ratio as its value"),
)


@dataclass(frozen=True)
class Problem:
    """What is wrong with one option, in words."""

    option: str
    message: str
    severity: str = ERROR


def dump(runner: Runner, python: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The option schema of the release in the environment of ``python`` (see ``options_worker``).

    The import sees no GPU and no hub, so it starts no CUDA context and reaches no network.

    :raises InferopsError: when the release's parser cannot be imported there.
    """
    from .. import interpreter

    env = {**(environment or {}), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    schema: dict[str, Any] = interpreter.call(runner, python, "server.options_worker:dump", {}, env=env)
    return schema


def load(path: str) -> dict[str, Any] | None:
    """The schema that is kept in a build, or ``None`` where there is none."""
    schema: dict[str, Any] | None = read_json(path)
    return schema


def check(args: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """What the release of ``schema`` would refuse, misread or call deprecated in ``args``."""
    return render(args, schema)[1]


def render(args: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[list[str], list[Problem]]:
    """``args`` as command line arguments, in an order that does not depend on theirs, and what is wrong with them.

    Names are written out as the release declares them, so that an unambiguous prefix stays one.
    """
    table = _table(schema)
    words: list[str] = []
    problems: list[Problem] = []
    dests: dict[str, str] = {}
    for key in sorted(args, key=lambda k: k.lstrip("-").replace("_", "-")):
        try:
            name, option = find(key, schema, table)
            if option["dest"] in dests:
                raise InferopsError(f"{key!r} and {dests[option['dest']]!r} are the same option; keep one")
            dests[option["dest"]] = key
            words += write(name, option, args[key])
        except InferopsError as error:
            problems.append(Problem(key, f"{error.message} (SGLang {schema['release']})"))
            continue
        if option["retired"] is not None:
            problems.append(Problem(key, f"{name} is retired in SGLang {schema['release']}: {option['retired']}"))
        elif option["deprecated"] is not None:
            instead = f"; use {option['deprecated']}" if option["deprecated"] else ""
            problems.append(Problem(key, f"{name} is deprecated in SGLang {schema['release']}{instead}", WARNING))
    return words, problems


def find(
    key: str, schema: Mapping[str, Any], table: Mapping[str, dict[str, Any]] | None = None
) -> tuple[str, dict[str, Any]]:
    """The option that ``key`` means, and its spelling: a long name, an alias, a field name or a unique prefix.

    :raises InferopsError: when there is none or more than one.
    """
    table = _table(schema) if table is None else table
    name = "--" + key.lstrip("-").replace("_", "-")
    for spelling in (name, "--" + key.lstrip("-")):
        if spelling in table:
            return spelling, table[spelling]
    for option in schema["options"]:
        if option["dest"] == key.lstrip("-").replace("-", "_"):
            return option["names"][0], option
    begins = {known: option for known, option in table.items() if known.startswith(name)}
    if len({option["dest"] for option in begins.values()}) == 1:
        return min(begins.items(), key=lambda pair: len(pair[0]))
    renamed = _renamed(name, table)
    if begins:
        raise InferopsError(f"{name} is ambiguous: it could be {', '.join(sorted(begins))}{renamed}")
    raise InferopsError(f"{name} does not exist" + (renamed or nearest(name, table)))


def write(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    """One option with its value as arguments; nothing for a flag that is off or a value that is ``None``.

    :raises InferopsError: when the release would not take the value.
    """
    if value is None:
        return []
    kind = option["kind"]
    if kind in ("flag", "boolean"):
        return _flag(name, option, value)
    if kind == "list":
        return _several(name, option, value)
    if kind == "append":
        return [f"{name}={_one(name, option, item)}" for item in (value if isinstance(value, list) else [value])]
    if kind == "optional" and value is True:
        return [name]
    return [f"{name}={_one(name, option, value)}"]


def _flag(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        value = value.lower() in ("true", "yes")
    if not isinstance(value, bool):
        raise InferopsError(f"{name} takes no value, but {value!r} was given; set it to true or false")
    if value:
        return [name]
    return [next(n for n in option["names"] if n.startswith("--no-"))] if option["kind"] == "boolean" else []


def _several(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    texts = [_one(name, option, item) for item in items]
    nargs = option["nargs"]
    if isinstance(nargs, int) and len(texts) != nargs:
        raise InferopsError(f"{name} takes {nargs} values, but {len(texts)} were given")
    if nargs == "+" and not texts:
        raise InferopsError(f"{name} takes at least one value, but the list is empty")
    for text in texts:
        # argparse takes a word that begins with '-' for an option, except what it knows as a number
        if text.startswith("-") and not re.fullmatch(r"-\d+|-\d*\.\d+", text):
            raise InferopsError(f"{name} cannot take {text!r} in its list: SGLang reads a word with '-' as an option")
    return [name, *texts]


def _one(name: str, option: Mapping[str, Any], value: Any) -> str:
    kind = option["type"]
    if isinstance(value, (dict, list)) or (kind == "json" and not isinstance(value, str)):
        if kind not in ("json", "str"):
            raise InferopsError(f"{name} takes one {kind}, but {value!r} was given")
        import json

        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = str(value)
    if "\0" in text:
        raise InferopsError(f"{name} holds a NUL character, which no argument can carry")
    if kind in ("int", "float") and not _is({"int": int, "float": float}[kind], text):
        raise InferopsError(f"{name} takes {'an' if kind == 'int' else 'a'} {kind}, but {text!r} was given")
    if kind == "human_readable_int" and not (_is(int, text) or re.fullmatch(r"\d+(\.\d+)?[kMGT]|\d+[KMGT]i", text)):
        raise InferopsError(
            f"{name} takes a whole number, with a unit if one likes (32k, 32Ki), but {text!r} was given"
        )
    if kind == "json" and not _is_json(text):
        raise InferopsError(f"{name} takes a JSON value, but {text!r} is not JSON")
    choices = option["choices"]
    if choices is not None and text not in [str(choice) for choice in choices]:
        known = [str(choice) for choice in choices]
        raise InferopsError(f"{name} cannot be {text!r}{nearest(text, known)}; known: {', '.join(known)}")
    return text


def _is(convert: Any, text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    import json

    return _is(json.loads, text)


def _table(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: option for option in schema["options"] for name in option["names"] if name.startswith("--")}


def _renamed(name: str, table: Mapping[str, Any]) -> str:
    """The advice for an option that this release spells differently, or an empty string."""
    for earlier, later, advice in RENAMES:
        for given, known in ((earlier, later), (later, earlier)):
            if name == given and known in table:
                return f"; this release has it as {known}" + (f" ({advice})" if advice else "")
    return ""
