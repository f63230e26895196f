# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the plans of hosts and gateways to one report. Pure; docs/drift.md describes the value."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.changes import NONE, REBUILD, RESTART

FORMAT = 1
IN_SYNC, DRIFTED, CORRECTED = "in_sync", "drifted", "corrected"
UNREACHABLE, FAILED = "unreachable", "failed"
STATES = (IN_SYNC, CORRECTED, DRIFTED, UNREACHABLE, FAILED)
_WEIGHT = (NONE, RESTART, REBUILD)
#: What of an instance is told beside its differences.
_INSTANCE = ("state", "release", "build_id", "activation", "outcome", "url", "active_since")
_START = ("ready_after_s", "phases")


def build(
    planned: Mapping[str, Mapping[str, Any] | None],
    gateways: Sequence[Mapping[str, Any]] = (),
    *,
    now: float,
    correct: bool = False,
    earlier: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report.

    ``planned`` are the results of ``sglang_plan`` by host; ``gateways`` those of ``gateway_plan``, each with its
    ``host``. With ``earlier``, the report of the same run before it corrected, what is gone since is ``corrected``.
    """
    hosts = {name: _host(result) for name, result in planned.items()}
    for result in gateways:
        _add_gateway(hosts, result)
    if earlier is not None:
        for name, host in earlier["hosts"].items():
            _add_corrected(hosts.get(name), host)
    for host in hosts.values():
        host["state"] = _state(host)
        host["consequence"] = _heaviest(host["differences"])
    return {
        "format": FORMAT,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "correct": correct,
        "summary": _summary(hosts),
        "hosts": hosts,
    }


def with_state(report: Mapping[str, Any], *states: str) -> list[str]:
    """The hosts that are in one of these states."""
    return [name for name, host in report["hosts"].items() if host["state"] in states]


def correctable(report: Mapping[str, Any]) -> list[str]:
    """The hosts with something that a rollout puts right."""
    return [name for name, host in report["hosts"].items() if any(not _of_gateway(d) for d in _correctable(host))]


def open_keys(report: Mapping[str, Any]) -> list[str]:
    """The gateways whose keys others may read, or they themselves may not."""
    return [name for name, host in report["hosts"].items() if any(_of_gateway(d) for d in _correctable(host))]


def disturbing(report: Mapping[str, Any]) -> bool:
    """Whether putting right means a restart anywhere."""
    return any(d["consequence"] != NONE for host in report["hosts"].values() for d in _correctable(host))


def _correctable(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What can be put right on a host. One that does not answer would only keep a rollout from the others, though its
    gateway may have something to say of it."""
    return [] if host["state"] in (UNREACHABLE, FAILED) else list(_open(host, can=True))


def _of_gateway(difference: Mapping[str, Any]) -> bool:
    """Whether it is the gateway's own difference, and not a server's that it does not know."""
    return difference["resource"].startswith("gateway/") and difference["what"].startswith("permissions of ")


def left(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The differences of a host that are still there."""
    return list(_open(host))


def _open(host: Mapping[str, Any], can: bool | None = None) -> Iterable[Mapping[str, Any]]:
    for difference in host["differences"]:
        if not difference["corrected"] and can in (None, difference["correctable"]):
            yield difference


def _host(result: Mapping[str, Any] | None) -> dict[str, Any]:
    host: dict[str, Any] = {"state": None, "message": None, "differences": [], "deferred": [], "instances": {}}
    if result is None or result.get("unreachable"):
        host["state"] = UNREACHABLE
        host["message"] = _said(result or {}, "no answer")
    elif result.get("failed") or "plan" not in result:
        host["state"] = FAILED
        host["message"] = _said(result, "the comparison did not run")
    else:
        host["differences"] = _differences(result)
        host["deferred"] = list(result.get("deferred") or [])
        host["instances"] = {
            name: _instance(instance) for name, instance in result["observed"].get("instances", {}).items()
        }
    return host


def _said(result: Mapping[str, Any], otherwise: str) -> str:
    """The message of a failure, without what Ansible itself puts before it."""
    return str(result.get("msg") or otherwise).strip().removeprefix("Task failed: ").removeprefix("Module failed: ")


def _differences(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {**change, "correctable": can, "corrected": False}
        for part, can in (("plan", True), ("noticed", False))
        for change in result.get(part) or []
    ]


def _instance(seen: Mapping[str, Any]) -> dict[str, Any]:
    start = seen.get("start")
    told = {key: seen.get(key) for key in _INSTANCE}
    return {**told, "start": {key: start.get(key) for key in _START} if start else None}


def _add_gateway(hosts: dict[str, dict[str, Any]], result: Mapping[str, Any]) -> None:
    """A server that its gateway does not know is a difference of the server's host; the rest is the gateway's own."""
    gateway = str(result["host"])
    own = hosts.setdefault(gateway, _host({"plan": [], "observed": {}}))
    if "plan" not in result:
        found = _host(result)
        said = [own["message"], f"gateway: {found['message']}"]
        own["message"] = "; ".join(filter(None, said))
        if own["state"] != FAILED:  # a mistake in the description stays one
            own["state"] = found["state"]
        return
    for difference in _differences(result):
        owner = result["owners"].get(difference["what"].rpartition(" ")[2], gateway)
        difference["resource"] = f"{difference['resource']}/{gateway}"
        if owner in hosts:  # of hosts that were not looked at nothing is said
            hosts[owner]["differences"].append(difference)


def _add_corrected(host: dict[str, Any] | None, earlier: Mapping[str, Any]) -> None:
    if host is None or host["state"] is not None:
        return
    there = {(difference["resource"], difference["what"]) for difference in host["differences"]}
    gone = [d for d in earlier["differences"] if d["correctable"] and (d["resource"], d["what"]) not in there]
    host["differences"] = [{**difference, "corrected": True} for difference in gone] + host["differences"]


def _state(host: Mapping[str, Any]) -> str:
    if host["state"] is not None:
        return str(host["state"])
    if left(host):
        return DRIFTED
    return CORRECTED if host["differences"] else IN_SYNC


def _heaviest(differences: Sequence[Mapping[str, Any]]) -> str:
    open_ = [difference["consequence"] for difference in differences if not difference["corrected"]]
    return max(open_, key=_WEIGHT.index, default=NONE)


def _summary(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    states = [host["state"] for host in hosts.values()]
    every = [difference for host in hosts.values() for difference in host["differences"]]
    return {
        "hosts": len(hosts),
        **{state: states.count(state) for state in STATES},
        "differences": sum(not difference["corrected"] for difference in every),
        "corrections": sum(difference["corrected"] for difference in every),
        "consequence": _heaviest(every),
    }
