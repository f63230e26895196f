# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What ``sglang_bench`` does: measure, compare, object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InferopsError
from ..running import Runner
from ..server import lease
from . import run as bench


def run(runner: Runner, params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """The module's result; nothing is sent in check mode.

    :raises InferopsError: for options that make no sense, a server that does not run, a request that fails, and, with
        ``gate``, for figures that are not good enough.
    """
    _validate(params)
    if check_mode:
        return {"changed": False, "levels": [], "accept_length": None, "accept_length_most": None, "problems": []}
    names = ("prompts", "concurrency", "requests", "output_len", "repeat", "sampling", "timeout")
    options = bench.Options(**{name: params[name] for name in names})
    renewed = lease.Renewed(params["instance"], params.get("run"))
    renewed.tick()
    result: dict[str, Any] = bench.measure(
        bench.target(runner, params["instance"]), options, runner, lambda dummy: renewed.tick()
    )
    base = params["compare_with"]
    result["problems"] = bench.gate(result, base, params["min_speed_ratio"], params["min_accept_length"])
    if base:
        result["verdicts"] = bench.compare(base, result)
    if params["gate"] and result["problems"]:
        raise InferopsError(f"instance {params['instance']!r}: " + "; ".join(result["problems"]), **result)
    return {"changed": False, **result}


def _validate(params: Mapping[str, Any]) -> None:
    for name in ("requests", "output_len", "repeat"):
        if params[name] < 1:
            raise InferopsError(f"{name} is {params[name]}; it must be at least 1")
    if not params["concurrency"] or min(params["concurrency"]) < 1:
        raise InferopsError(f"concurrency is {params['concurrency']}; it must name numbers of at least 1")
    base = params["compare_with"]
    if base is not None and not isinstance(base.get("levels"), list):
        raise InferopsError("compare_with is no result of this module: it has no 'levels'")
