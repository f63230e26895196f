# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""In what order a fleet is changed: pure functions from hosts and wishes to a plan, and from a plan to the rest of it.

A *unit* is what is changed at once: a host, or all hosts of a replica that spans several. Units go in *batches*; the
first batches are the canary. The plan is a JSON value that is kept in a file: it is what is shown, what the play works
off, where each unit's state is noted, and what a resumed rollout reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest

#: What can be wished for, with what is done where nothing is said (docs/rollout.md).
DEFAULTS: dict[str, Any] = {
    "canary": 1,
    "batch": "25%",
    "min_routable": "50%",
    "max_failures": 0,
    "max_parallel_loads": 0,
    "allow_outage": False,
    "allow_cut": False,
    "drain_timeout": 600,
    "soak": 20,
    "hold": 60,
    "until": 0,
    "bench": True,
    "bench_concurrency": [1],
    "bench_repeat": 5,
    "bench_output_len": 64,
    "min_speed_ratio": 0.9,
    "min_accept_length": 0.0,
}
PLANNED, STARTED, DONE = "planned", "started", "done"
#: Not to be changed by this rollout; its workers count as those that stay.
LEFT = "left"
RESTORED, OUT, BUSY, UNREACHABLE = "restored", "out", "busy", "unreachable"
#: States of a unit that count as failures. ``restored`` serves as before; ``out`` gets no requests; ``busy`` was left
#: to another run that works on it.
FAILED = (RESTORED, OUT, BUSY, UNREACHABLE)


def wishes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The wishes with their defaults.

    :raises InferopsError: for a key that does not exist or a value of another kind.
    """
    for key in given:
        if key not in DEFAULTS:
            raise InferopsError(
                f"sglang_rollout has the unknown key {key!r}{nearest(str(key), DEFAULTS)}; known: {', '.join(DEFAULTS)}"
            )
    found = {**DEFAULTS, **given}
    for key in ("max_failures", "max_parallel_loads", "drain_timeout", "soak", "hold", "until"):
        if isinstance(found[key], bool) or not isinstance(found[key], (int, float)) or found[key] < 0:
            raise InferopsError(f"sglang_rollout.{key} is {found[key]!r}; it must be a number that is not negative")
    return found


def units_of(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The units, in the order of their first hosts.

    Each host has ``name``, ``replica`` (its name, or nothing), ``gateways`` and ``workers`` (URLs behind them, if any);
    the first host of a replica is its rank 0, which alone is a worker.
    """
    units: dict[str, dict[str, Any]] = {}
    for host in hosts:
        name = host.get("replica") or host["name"]
        parts = {key: list(host.get(key) or []) for key in ("gateways", "workers")}
        unit = units.setdefault(name, {"name": name, "hosts": [], **parts, "state": PLANNED})
        unit["hosts"].append(host["name"])
    return list(units.values())


def pools(units: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """How many workers each unit has behind each gateway. Where there is none at all, each unit counts as one."""
    found: dict[str, list[int]] = {}
    for unit in units:
        for gateway in unit["gateways"]:
            found.setdefault(gateway, []).append(len(unit["workers"]))
    return found or {"": [1] * len(units)}


def plan(
    hosts: Sequence[Mapping[str, Any]], given: Mapping[str, Any], only: Sequence[str] | None = None
) -> dict[str, Any]:
    """The whole plan for hosts that have none yet. With ``only``, units without any of these hosts are left alone; they
    count as workers that stay.

    :raises InferopsError: when there is nobody to roll, a canary that does not exist, or too few workers to keep
        ``min_routable`` of them routable.
    """
    options = wishes(given)
    units = units_of(hosts)
    if not units:
        raise InferopsError("there is no host to roll: the pattern in sglang_hosts matches none")
    notes: list[str] = []
    limit = _limit(units, options, notes)
    open_ = units if only is None else [unit for unit in units if set(unit["hosts"]) & set(only)]
    for unit in units:
        unit["state"] = PLANNED if unit in open_ else LEFT
    canary, rest = _canary(open_, options["canary"], units)
    batches = _cut(canary, [limit]) + _cut(rest, [min(limit, size) for size in sizes(options["batch"], len(units))])
    return _planned(units, batches, {unit["name"] for unit in canary}, options, notes)


def resume(
    old: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The plan for what an earlier one left: what failed or was cut off comes first, one at a time, as a canary.

    So does a canary that was not reached. What the earlier one was to leave alone is still left alone.

    With ``only``, what is left of other hosts waits for a later one.

    :raises InferopsError: as :func:`plan` does.
    """
    options = wishes(given)
    known = {unit["name"]: unit for unit in old["units"]}
    units = units_of(hosts)
    notes = [
        f"{name} is no longer in the inventory and is left as it is" for name in known if name not in _names(units)
    ]
    limit = _limit(units, options, notes)
    for unit in units:
        before = known.get(unit["name"], {})
        unit["state"] = before["state"] if before.get("state") in (DONE, LEFT) else PLANNED
        if unit["state"] == PLANNED:
            unit.update({key: before[key] for key in ("was", "replaced") if key in before})
    open_ = [unit for unit in units if unit["state"] == PLANNED]
    if only is not None:
        open_ = [unit for unit in open_ if set(unit["hosts"]) & set(only)]
    if all(known.get(unit["name"], {}).get("state", PLANNED) in (PLANNED, LEFT) for unit in units):
        # nothing was begun: it needs its canary as any rollout does
        anew = plan(hosts, given, [host for unit in open_ for host in unit["hosts"]])
        waiting = [unit["name"] for unit in units if unit["state"] == PLANNED]
        for unit in anew["units"]:
            unit["state"] = PLANNED if unit["name"] in waiting else unit["state"]
        return anew
    first = [unit for unit in open_ if _goes_first(known.get(unit["name"], {}))]
    rest = [unit for unit in open_ if unit not in first]
    batches = _cut(first, [1]) + _cut(rest, [min(limit, size) for size in sizes(options["batch"], len(units))])
    return {**_planned(units, batches, set(_names(first)), options, notes), "figures": old.get("figures", {})}


def _goes_first(known: Mapping[str, Any]) -> bool:
    return known.get("state", PLANNED) != PLANNED or bool(known.get("canary"))


def _planned(
    units: list[dict[str, Any]],
    batches: list[list[dict[str, Any]]],
    canary: set[str],
    options: dict[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    for number, batch in enumerate(batches, 1):
        for unit in batch:
            unit.update(batch=number, canary=unit["name"] in canary)
    routable = {
        gateway: 0 if options["allow_outage"] else count(options["min_routable"], sum(pool), up=True)
        for gateway, pool in pools(units).items()
    }
    for unit in units:
        # where its workers are registered, and how many others must stay there
        unit["entries"] = [
            {"gateway": gateway, "url": url, "min_routable": routable[gateway]}
            for url in unit["workers"]
            for gateway in unit["gateways"]
        ]
    return {
        "format": 1,
        "options": options,
        # by gateway; nothing's name stands for no gateway
        "routable": routable,
        "units": units,
        "batches": [_names(batch) for batch in batches],
        "hosts": [host for batch in batches for unit in batch for host in unit["hosts"]],
        # Ansible's ``serial`` counts hosts; an empty list would mean all at once
        "serial": [sum(len(unit["hosts"]) for unit in batch) for batch in batches] or [1],
        "notes": notes,
        # what the canary was measured at after the change, by instance
        "figures": {},
        "events": [],
    }


def _names(units: Sequence[Mapping[str, Any]]) -> list[str]:
    return [unit["name"] for unit in units]


def _canary(
    units: list[dict[str, Any]], wish: Any, fleet: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The canary and the rest: the first so many, or those with these names (of units or of hosts).

    Where those of the ``fleet`` that are named are to be left alone, the first unit takes their place.
    """
    if isinstance(wish, int) and not isinstance(wish, bool):
        return units[:wish], units[wish:]
    names = [wish] if isinstance(wish, str) else list(wish)
    for name in names:
        if not _named(name, fleet):
            raise InferopsError(
                f"the canary {name!r} is none of the hosts to roll ({', '.join(_names(fleet))})"
                + nearest(str(name), _names(fleet))
            )
    chosen = [unit for name in names for unit in _named(name, units)]
    chosen = [unit for at, unit in enumerate(chosen) if unit not in chosen[:at]] or units[: bool(names)]
    return chosen, [unit for unit in units if unit not in chosen]


def _named(name: str, units: Sequence[Any]) -> list[Any]:
    return [unit for unit in units if name == unit["name"] or name in unit["hosts"]]


def _limit(units: Sequence[Mapping[str, Any]], options: Mapping[str, Any], notes: list[str]) -> int:
    """How many units may be away at once."""
    limit = len(units)
    if not options["allow_outage"]:
        limit = min(_spare(gateway, pool, options["min_routable"]) for gateway, pool in pools(units).items())
    loads = int(options["max_parallel_loads"])
    if loads and loads < limit:
        limit = loads
        notes.append(f"at most {loads} at once, because of max_parallel_loads")
    return limit


def _spare(gateway: str, pool: Sequence[int], wish: Any) -> int:
    """How many units a gateway can do without, whichever they are."""
    total = sum(pool)
    routable = count(wish, total, up=True)
    left, spare = total, 0
    for workers in sorted(pool, reverse=True):
        left -= workers
        if left < routable:
            break
        spare += 1
    if spare < 1:
        raise InferopsError(
            f"with {total} worker(s){f' behind {gateway}' if gateway else ''} and min_routable {wish!r} ({routable} of "
            f"{total}) none may be taken out; lower min_routable, add a worker, or accept an outage with "
            "allow_outage: true"
        )
    return spare


def count(wish: Any, total: int, up: bool = False) -> int:
    """A number of units from a count or a percentage (``25%``) of all; at least 1 for a share, rounded up on request.

    :raises InferopsError: when it is neither.
    """
    text = str(wish).strip()
    if text.endswith("%") and text[:-1].strip().isdigit():
        share = total * int(text[:-1]) / 100
        return (math.ceil(share) if up else max(1, math.floor(share))) if share else 0
    if text.isdigit() and not isinstance(wish, bool):
        return int(text)
    raise InferopsError(f"{wish!r} is no number of hosts; give a count (2) or a share (25%)")


def sizes(wish: Any, total: int) -> list[int]:
    """Sizes of batches; the last one holds for all that follow."""
    found = [count(entry, total) for entry in (wish if isinstance(wish, (list, tuple)) else [wish])]
    if not found or min(found) < 1:
        raise InferopsError(f"sglang_rollout.batch is {wish!r}; each batch must hold at least one host")
    return found


def _cut(units: list[dict[str, Any]], wanted: Sequence[int]) -> list[list[dict[str, Any]]]:
    """``units`` in pieces of the wanted sizes; the last size repeats."""
    pieces, at, index = [], 0, 0
    while at < len(units):
        size = wanted[min(index, len(wanted) - 1)]
        pieces.append(units[at : at + size])
        at, index = at + size, index + 1
    return pieces


def mark(kept: Mapping[str, Any], unit: str, state: str, at: float, note: str = "", **learned: Any) -> dict[str, Any]:
    """The plan with a unit's new state, an event that tells of it, and what was ``learned``:

    ``was``, the activations that were in force before it was touched (by host, then instance), and ``replaced``, what
    they were measured at: of both the first word counts, until they are in force again; ``figures``, what the canary
    came to.
    """
    event = {"at": round(at, 1), "unit": unit, "state": state, "note": note}
    units = [
        {**_remember(entry, state, learned), "state": state, "note": note} if entry["name"] == unit else entry
        for entry in kept["units"]
    ]
    figures = {**kept["figures"], **_figures(learned.get("figures"))}
    return {**kept, "units": units, "events": [*kept["events"], event], "figures": figures}


def _remember(unit: Mapping[str, Any], state: str, learned: Mapping[str, Any]) -> dict[str, Any]:
    if state in (RESTORED, DONE):
        return {key: value for key, value in unit.items() if key not in ("was", "replaced")}
    new = {"was": learned.get("was") or {}, "replaced": _figures(learned.get("replaced"))}
    return {**unit, **{key: {**value, **unit.get(key, {})} for key, value in new.items() if value or key in unit}}


def _figures(results: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of results of ``sglang_bench``, by instance, what others are compared with."""
    names = ("levels", "accept_length", "accept_length_most")
    return {name: {key: result[key] for key in names} for name, result in (results or {}).items()}


def must_stop(kept: Mapping[str, Any], now: float = 0) -> str | None:
    """Why the rollout must not go on, if it must not: a failed canary, more failures than are accepted, or its end.

    Asked before a batch: what was begun and has not said how it ended has failed, too.
    """
    failed = [unit for unit in kept["units"] if unit["state"] in (STARTED, *FAILED)]
    canaries = [unit["name"] for unit in failed if unit.get("canary")]
    if canaries:
        return f"the canary failed ({', '.join(canaries)})"
    if len(failed) > kept["options"]["max_failures"]:
        return f"{len(failed)} failed ({', '.join(_names(failed))}), {kept['options']['max_failures']} are accepted"
    if 0 < kept["options"].get("until", 0) <= now and any(unit["state"] == PLANNED for unit in unfinished(kept)):
        return "the time that it had (until) is over"
    return None


def unfinished(kept: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The units that this rollout was to change and that are not done."""
    return [unit for unit in kept["units"] if "batch" in unit and unit["state"] != DONE]


def lines(kept: Mapping[str, Any]) -> list[str]:
    """The plan, or what became of it, as text."""
    options = kept["options"]
    routable = " and ".join(
        f"{number}{f' behind {gateway}' if len(kept['routable']) > 1 and gateway else ''}"
        for gateway, number in kept["routable"].items()
    )
    out = [
        f"Rollout of {sum(map(len, kept['batches']))} unit(s) in {len(kept['batches'])} batch(es); at least {routable} "
        f"stay routable; soak {options['soak']}, hold {options['hold']} s"
    ]
    by_name = {unit["name"]: unit for unit in kept["units"]}
    for number, batch in enumerate(kept["batches"], 1):
        kind = "canary" if by_name[batch[0]].get("canary") else "batch"
        out.append(f"  {number:>2}. {kind}: {', '.join(_line(by_name[name]) for name in batch)}")
    others = [unit for unit in kept["units"] if "batch" not in unit]
    for kind, these in (("done before", True), ("left alone", False)):
        named = [unit["name"] for unit in others if (unit["state"] == DONE) == these]
        if named:
            out.append(f"  {kind}: {', '.join(named)}")
    return [*out, *(f"  note: {note}" for note in kept["notes"])]


def _line(unit: Mapping[str, Any]) -> str:
    hosts = "" if unit["hosts"] == [unit["name"]] else f" [{' + '.join(unit['hosts'])}]"
    state = "" if unit["state"] == PLANNED else f" {unit['state']}"
    note = f" ({unit['note']})" if unit.get("note") else ""
    return f"{unit['name']}{hosts}{state}{note}"
