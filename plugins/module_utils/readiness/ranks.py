# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Which rank a number means: SGLang counts the processes that a host starts, torch those of all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def started(number: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    """The name of the process that this host started as number so-and-so (``scheduler_3``), if it has been heard of."""
    if size(arguments, "dp_size") > 1:
        return ""  # there it is the controller that is started, or one among equals of several groups
    tensor, pipeline, nodes = (size(arguments, name) for name in ("tp_size", "pp_size", "nnodes"))
    node = size(arguments, "node_rank", 0)
    hosts = max(nodes // pipeline, 1)  # that share a stage of the pipeline
    here = max(tensor // hosts, 1)
    stage = max(pipeline // nodes, 1) * (node // hosts) + number // here
    return _named(stage, here * (node % hosts) + number % here, ranks, arguments)


def of_world(number: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    """The name of the process that torch and Gloo know by a number, if it has been heard of."""
    stage, tensor = divmod(number, size(arguments, "tp_size"))
    return _named(stage, tensor, ranks, arguments)


def in_world(rank: str, arguments: Mapping[str, str]) -> int | None:
    """The number by which torch and Gloo know a rank (``PP1 TP2``)."""
    tensor, stage = re.search(r"\bTP(\d+)", rank), re.search(r"\bPP(\d+)", rank)
    if tensor is None:
        return None
    return int(tensor[1]) + (int(stage[1]) * size(arguments, "tp_size") if stage else 0)


def _named(stage: int, tensor: int, ranks: Iterable[str], arguments: Mapping[str, str]) -> str:
    wanted = stage * size(arguments, "tp_size") + tensor
    found = [rank for rank in ranks if in_world(rank, arguments) == wanted]
    return found[0] if len(found) == 1 else ""


def size(arguments: Mapping[str, str], name: str, least: int = 1) -> int:
    """A number among the arguments that a server has printed."""
    text = arguments.get(name, "")
    return max(int(text), least) if text.isdigit() else least
