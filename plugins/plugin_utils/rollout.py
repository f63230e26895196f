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
RESTORED, OUT, BUSY, UNREACHABLE = "restored", "out", "busy", "unreachable"
#: States of a unit that count as failures. ``restored`` serves as before; ``out`` gets no requests; ``busy`` was left
#: to another run that works on it.
FAILED = (RESTORED, OUT, BUSY, UNREACHABLE)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


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


def described(name: str, variables: Mapping[str, Any], gateway: bool) -> dict[str, Any]:
    """What the planning must know of a host, from its variables.

    :raises InferopsError: for a server that the gateway could not reach.
    """
    urls = variables.get("sglang_worker_urls")
    if urls is None and gateway:
        urls = [_url(name, instance, key) for key, instance in (variables.get("sglang_instances") or {}).items()]
    return {
        "name": name,
        "replica": variables.get("sglang_replica") or None,
        "workers": list(urls or []) if gateway else [],
    }


def _url(host: str, instance: Mapping[str, Any], name: str) -> str:
    if instance.get("host", _LOOPBACK[0]) in _LOOPBACK:
        raise InferopsError(
            f"instance {name!r} of {host} listens on loopback, where the gateway cannot reach it; set its 'host' to an "
            "address of the host (0.0.0.0), or name its URL in sglang_worker_urls"
        )
    return f"http://{host}:{instance.get('port', 30000)}"


def units_of(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The units, in the order of their first hosts.

    Each host has ``name``, ``replica`` (its name, or nothing) and ``workers`` (URLs behind the gateway, if any); the
    first host of a replica is its rank 0, which alone is a worker.
    """
    units: dict[str, dict[str, Any]] = {}
    for host in hosts:
        name = host.get("replica") or host["name"]
        unit = units.setdefault(
            name, {"name": name, "hosts": [], "workers": list(host.get("workers") or []), "state": PLANNED}
        )
        unit["hosts"].append(host["name"])
    return list(units.values())


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
    limit = _limit(len(units), options, notes)
    open_ = units if only is None else [unit for unit in units if set(unit["hosts"]) & set(only)]
    for unit in units:
        unit["state"] = PLANNED if unit in open_ else DONE
    canary, rest = _canary(open_, options["canary"])
    batches = _cut(canary, [limit]) + _cut(rest, [min(limit, size) for size in sizes(options["batch"], len(units))])
    return _planned(units, batches, {unit["name"] for unit in canary}, options, notes)


def resume(old: Mapping[str, Any], hosts: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The plan for what an earlier one left: what failed or was cut off comes first, one at a time, as a canary.

    :raises InferopsError: as :func:`plan` does.
    """
    options = wishes(given)
    known = {unit["name"]: unit for unit in old["units"]}
    units = units_of(hosts)
    notes = [
        f"{name} is no longer in the inventory and is left as it is" for name in known if name not in _names(units)
    ]
    limit = _limit(len(units), options, notes)
    for unit in units:
        unit["state"] = DONE if known.get(unit["name"], {}).get("state") == DONE else PLANNED
    open_ = [unit for unit in units if unit["state"] == PLANNED]
    touched = [unit for unit in open_ if known.get(unit["name"], {}).get("state", PLANNED) != PLANNED]
    if not touched and len(open_) == len(units):
        return plan(hosts, given)
    rest = [unit for unit in open_ if unit not in touched]
    batches = _cut(touched, [1]) + _cut(rest, [min(limit, size) for size in sizes(options["batch"], len(units))])
    return {**_planned(units, batches, set(_names(touched)), options, notes), "figures": old.get("figures", {})}


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
    routable = 0 if options["allow_outage"] else count(options["min_routable"], len(units), up=True)
    return {
        "format": 1,
        "options": {**options, "min_routable": routable},
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


def _canary(units: list[dict[str, Any]], wish: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The canary and the rest: the first so many, or those with these names (of units or of hosts)."""
    if isinstance(wish, int) and not isinstance(wish, bool):
        return units[:wish], units[wish:]
    names = [wish] if isinstance(wish, str) else list(wish)
    chosen = []
    for name in names:
        unit = next((unit for unit in units if name == unit["name"] or name in unit["hosts"]), None)
        if unit is None:
            raise InferopsError(
                f"the canary {name!r} is none of the hosts to roll ({', '.join(_names(units))})"
                + nearest(str(name), _names(units))
            )
        if unit not in chosen:
            chosen.append(unit)
    return chosen, [unit for unit in units if unit not in chosen]


def _limit(total: int, options: Mapping[str, Any], notes: list[str]) -> int:
    """How many units may be away at once."""
    limit = total
    if not options["allow_outage"]:
        routable = count(options["min_routable"], total, up=True)
        limit = total - routable
        if limit < 1:
            raise InferopsError(
                f"with {total} worker(s) and min_routable {options['min_routable']!r} ({routable} of {total}) none may "
                "be taken out; lower min_routable, add a worker, or accept an outage with allow_outage: true"
            )
    loads = int(options["max_parallel_loads"])
    if loads and loads < limit:
        limit = loads
        notes.append(f"at most {loads} at once, because of max_parallel_loads")
    return limit


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


def mark(
    kept: Mapping[str, Any], unit: str, state: str, at: float, note: str = "", figures: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The plan with a unit's new state, an event that tells of it, and measurements that others are compared with."""
    units = [{**entry, "state": state, "note": note} if entry["name"] == unit else entry for entry in kept["units"]]
    event = {"at": round(at, 1), "unit": unit, "state": state, "note": note}
    measured = dict(kept["figures"])
    for name, result in (figures or {}).items():
        measured[name] = {key: result[key] for key in ("levels", "accept_length", "accept_length_most")}
    return {**kept, "units": units, "events": [*kept["events"], event], "figures": measured}


def must_stop(kept: Mapping[str, Any], now: float = 0) -> str | None:
    """Why the rollout must not go on, if it must not: a failed canary, more failures than are accepted, or its end."""
    failed = [unit for unit in kept["units"] if unit["state"] in FAILED]
    canaries = [unit["name"] for unit in failed if unit.get("canary")]
    if canaries:
        return f"the canary failed ({', '.join(canaries)})"
    if len(failed) > kept["options"]["max_failures"]:
        return f"{len(failed)} failed ({', '.join(_names(failed))}), {kept['options']['max_failures']} are accepted"
    if 0 < kept["options"].get("until", 0) <= now and any(unit["state"] == PLANNED for unit in kept["units"]):
        return "the time that it had (until) is over"
    return None


def lines(kept: Mapping[str, Any]) -> list[str]:
    """The plan, or what became of it, as text."""
    options = kept["options"]
    out = [
        f"Rollout of {len(kept['units'])} unit(s) in {len(kept['batches'])} batch(es); at least "
        f"{options['min_routable']} stay routable; soak {options['soak']}, hold {options['hold']} s"
    ]
    by_name = {unit["name"]: unit for unit in kept["units"]}
    for number, batch in enumerate(kept["batches"], 1):
        kind = "canary" if by_name[batch[0]].get("canary") else "batch"
        out.append(f"  {number:>2}. {kind}: {', '.join(_line(by_name[name]) for name in batch)}")
    done = [unit for unit in kept["units"] if "batch" not in unit]
    if done:
        out.append(f"  done before: {', '.join(_names(done))}")
    return [*out, *(f"  note: {note}" for note in kept["notes"])]


def _line(unit: Mapping[str, Any]) -> str:
    hosts = "" if unit["hosts"] == [unit["name"]] else f" [{' + '.join(unit['hosts'])}]"
    state = "" if unit["state"] == PLANNED else f" {unit['state']}"
    note = f" ({unit['note']})" if unit.get("note") else ""
    return f"{unit['name']}{hosts}{state}{note}"
