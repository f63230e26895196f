# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Which rank a number means: SGLang counts the processes that a host starts, torch those of all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def started(number: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    """The name of the process that this host started as number so-and-so (``scheduler_3``), if it has been heard of."""
    if _size(arguments, "dp_size") > 1:
        return ""  # there it is the controller that is started, or one among equals of several groups
    tensor, pipeline, nodes = (_size(arguments, name) for name in ("tp_size", "pp_size", "nnodes"))
    node = int(arguments.get("node_rank", "0"))
    hosts = max(nodes // pipeline, 1)  # that share a stage of the pipeline
    here = max(tensor // hosts, 1)
    stage = max(pipeline // nodes, 1) * (node // hosts) + number // here
    return _named(stage, here * (node % hosts) + number % here, ranks, arguments)


def of_world(number: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    """The name of the process that torch and Gloo know by a number, if it has been heard of."""
    stage, tensor = divmod(number, _size(arguments, "tp_size"))
    return _named(stage, tensor, ranks, arguments)


def in_world(rank: str, arguments: Mapping[str, str]) -> int | None:
    """The number by which torch and Gloo know a rank (``PP1 TP2``)."""
    tensor, stage = re.search(r"\bTP(\d+)", rank), re.search(r"\bPP(\d+)", rank)
    if tensor is None:
        return None
    return int(tensor[1]) + (int(stage[1]) * _size(arguments, "tp_size") if stage else 0)


def _named(stage: int, tensor: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    wanted = stage * _size(arguments, "tp_size") + tensor
    found = [rank for rank in ranks if in_world(rank, arguments) == wanted]
    return found[0] if len(found) == 1 else ""


def _size(arguments: Mapping[str, str], name: str) -> int:
    text = arguments.get(name, "1")
    return int(text) if text.isdigit() and int(text) > 0 else 1
