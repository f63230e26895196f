# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Measure a server that runs: repeated runs at each concurrency, and under what conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import systemd
from ..errors import InferopsError
from ..gpu import facts
from ..http_call import request
from ..layout import Instance
from ..readiness import http, unit
from ..running import Runner
from . import client, figures, prompts

#: An accept length below this means that no draft token is ever right: one token a step, as without speculation.
USELESS = 1.05
#: Of a running server's own state, what limits a measurement. Nothing else of ``/server_info`` may be returned: it
#: holds the API keys.
LIMITS = (
    "max_running_requests",
    "effective_max_running_requests_per_dp",
    "max_total_num_tokens",
    "chunked_prefill_size",
)


@dataclass(frozen=True)
class Options:
    """``requests`` is per run and at least twice the concurrency; ``repeat`` counts runs that count, after one that
    does not. ``timeout`` is the longest wait for the next token, in seconds."""

    prompts: Sequence[str] = ()
    concurrency: Sequence[int] = (1, 4)
    requests: int = 4
    output_len: int = 128
    repeat: int = 5
    sampling: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 300.0


@dataclass(frozen=True)
class Target:
    """A running server: where it answers, its key, and what its launcher noted of the start."""

    url: str
    key: str | None = None
    start: unit.Start | None = None


def target(runner: Runner, name: str) -> Target:
    """The server of an instance that runs on this host.

    :raises InferopsError: when it does not run.
    """
    instance = Instance(name)
    seen = unit.of_properties(systemd.show(runner, [instance.unit])[instance.unit])
    start = unit.start_of(instance, seen.invocation) if seen.invocation and seen.pid else None
    if start is None:
        raise InferopsError(f"instance {name!r} does not run ({instance.unit} is {seen.state}): nothing to measure")
    return Target(f"http://{_bracketed(http.reachable(start.host))}:{start.port}", http.api_key(instance), start)


def measure(
    server: Target, options: Options, runner: Runner | None = None, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """The figures of each concurrency (``levels``), the accept length over all of them, and the ``conditions``.

    :raises InferopsError: when a request fails: figures with failures in them compare with nothing.
    """
    levels: list[dict[str, Any]] = []
    before = conditions(server, runner)
    for concurrency in options.concurrency:
        runs = []
        for number in range(options.repeat + 1):
            run = _run(server, options, concurrency)
            if number:  # the first one warms caches and kernels up
                runs.append(run)
            say(f"concurrency {concurrency}, run {number} of {options.repeat}: {run['output_tok_s']:.1f} tok/s")
        names = ("output_tok_s", "ttft_ms", "itl_ms", "accept_length")
        level: dict[str, Any] = {name: figures.summary([run[name] for run in runs]) for name in names}
        levels.append({"concurrency": concurrency, **level})
    lengths = [level["accept_length"]["median"] for level in levels if level["accept_length"]]
    steps = (server.start.speculative or {}).get("num_steps") if server.start else None
    return {
        "levels": levels,
        "accept_length": min(lengths) if lengths else None,
        "accept_length_most": int(steps) + 1 if steps is not None and lengths else None,
        "conditions": {"before": before, "after": conditions(server, runner), "limits": limits(server)},
    }


def _run(server: Target, options: Options, concurrency: int) -> dict[str, Any]:
    count = max(options.requests, 2 * concurrency)
    sampling = {"temperature": 0.6, "top_p": 0.95, **options.sampling}
    sampling.update(max_new_tokens=options.output_len, ignore_eos=True)
    texts = prompts.fresh(options.prompts or prompts.SHIPPED, count)
    done = client.many(
        server.url,
        [{"text": text, "sampling_params": sampling} for text in texts],
        concurrency,
        server.key,
        options.timeout,
    )
    errors = [one.error for one in done if one.error]
    if errors:
        raise InferopsError(
            f"{len(errors)} of {count} requests to {server.url} failed at concurrency {concurrency}, the first with: "
            f"{errors[0]}; nothing is concluded from such a run"
        )
    return figures.of_run(done)


def conditions(server: Target, runner: Runner | None) -> list[dict[str, Any]]:
    """Clocks, power and what slows each GPU down, where there are GPUs."""
    if runner is None:
        return []
    return [
        {"index": gpu["index"], "name": gpu["name"], **{key: gpu[key] for key in ("clocks", "power", "temperature_c")}}
        for gpu in facts.query(runner)["gpus"]
    ]


def limits(server: Target) -> dict[str, Any]:
    """What bounds the server now (EAGLE on 0.5.9 caps running requests at 48 unless told otherwise)."""
    answer = request("GET", f"{server.url}/server_info", key=server.key)
    said = answer.json() if answer.ok else None
    if not isinstance(said, dict):
        return {}
    inner = (said.get("internal_states") or [{}])[0]
    return {key: inner.get(key, said.get(key)) for key in LIMITS if inner.get(key, said.get(key)) is not None}


def compare(base: Mapping[str, Any], changed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The verdict at each concurrency that both have been measured at."""
    theirs = {level["concurrency"]: level for level in base["levels"]}
    return [
        {
            "concurrency": level["concurrency"],
            **figures.verdict(theirs[level["concurrency"]]["output_tok_s"]["runs"], level["output_tok_s"]["runs"]),
        }
        for level in changed["levels"]
        if level["concurrency"] in theirs
    ]


def gate(
    changed: Mapping[str, Any], base: Mapping[str, Any] | None, min_ratio: float, min_accept_length: float
) -> list[str]:
    """What is wrong with figures, in words: slower than before beyond the noise, or a draft that is never right."""
    problems = []
    for found in compare(base, changed) if base else []:
        if found["ratio"] < min_ratio and found["decision"] == figures.OFF:
            problems.append(
                f"at concurrency {found['concurrency']} it makes {found['ratio']:.2f} times the tokens per second of "
                f"what it is compared with; at least {min_ratio:g} is wanted"
            )
    accept = changed.get("accept_length")
    if accept is not None and accept < max(min_accept_length, USELESS):
        wanted = f"at least {min_accept_length:g} is wanted" if min_accept_length else "the draft is hardly ever right"
        problems.append(f"accept length {accept:.2f} of at most {changed['accept_length_most']}: {wanted}")
    return problems


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
