# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the inventory says of a fleet: which servers stand behind which gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired
from ansible_collections.inferops.sglang.plugins.plugin_utils.described import kind

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
HostVars = Mapping[str, Mapping[str, Any]]


def gateways(variables: Mapping[str, Any]) -> list[str]:
    """The hosts of the gateways in front of a host: ``sglang_gateway`` is one name or a list of them.

    :raises InferopsError: when it is neither.
    """
    found = variables.get("sglang_gateway") or []
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InferopsError(f"sglang_gateway is {kind(found)}; wanted the name of a gateway's host, or a list of them")
    return list(dict.fromkeys(names))


def described(name: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """What the planning must know of a host, from its variables.

    :raises InferopsError: for a server that the gateway could not reach.
    """
    doors = gateways(variables)
    urls = variables.get("sglang_worker_urls")
    if urls is None and doors:
        servers = desired.instances(
            variables.get("sglang_instances") or {}, variables.get("sglang_instances_override") or {}
        )
        urls = [_url(name, server) for server in servers]
    return {
        "name": name,
        "replica": variables.get("sglang_replica") or None,
        "gateways": doors,
        "workers": list(urls or []) if doors else [],
    }


def _url(host: str, server: Mapping[str, Any]) -> str:
    if server.get("host", _LOOPBACK[0]) in _LOOPBACK:
        raise InferopsError(
            f"instance {server['name']!r} of {host} listens on loopback, where the gateway cannot reach it; set its "
            "'host' to an address of the host (0.0.0.0), or name its URL in sglang_worker_urls"
        )
    return f"http://{host}:{server.get('port', 30000)}"


def whole(hostvars: HostVars, wanted: Sequence[str], group: Sequence[str] = ()) -> list[str]:
    """``wanted``, and then the hosts that serve beside them: behind one of their gateways, or, where a wanted host has
    none, those of ``group`` that have none either."""
    return list(_doors(hostvars, wanted, group))


def by_gateway(hostvars: HostVars, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The gateways in front of ``wanted``, each with all hosts whose servers it is to have."""
    doors = _doors(hostvars, wanted)
    found: dict[str, list[str]] = {gateway: [] for name in wanted for gateway in doors[name]}
    for name, gateways_of in doors.items():
        for gateway in gateways_of:
            if gateway in found:
                found[gateway].append(name)
    return found


def _doors(hostvars: HostVars, wanted: Sequence[str], group: Sequence[str] = ()) -> dict[str, list[str]]:
    """The hosts of :func:`whole`, each with its gateways. A host's variables cost a millisecond: each is asked once."""
    doors = {name: gateways(hostvars[name]) for name in wanted}
    theirs = {gateway for found in doors.values() for gateway in found}
    alone = set(group) if not all(doors.values()) else set()
    for name in [name for name in (hostvars if theirs else group) if name not in doors]:
        variables = hostvars[name]
        found = gateways(variables)
        beside = theirs.intersection(found) if found else name in alone
        if beside and any(variables.get(key) for key in ("sglang_instances", "sglang_worker_urls")):
            doors[name] = found
    return doors
