"""One private bridge, and a stable address on it for every host. There is no way from it to the world."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path

from . import settings
from .files import write
from .locking import lock
from .shell import SandboxError, run, succeeds

Network = ipaddress.IPv4Network
_CHOSEN = settings.STATE / "network"


def choose(candidates: Iterable[str], routes: Iterable[str]) -> Network:
    """The first candidate that overlaps with none of the routes. Raises SandboxError when there is none."""
    taken = [ipaddress.ip_network(route, strict=False) for route in routes if route != "default"]
    for candidate in map(ipaddress.IPv4Network, candidates):
        if not any(candidate.overlaps(route) for route in taken if isinstance(route, Network)):
            return candidate
    raise SandboxError(f"every network of {settings.NETWORKS} is in use on this machine; free one of them")


def network() -> Network:
    """The sandbox's network, chosen once and kept."""
    if not _CHOSEN.exists():
        routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "main"]) or "[]")
        write(_CHOSEN, f"{choose(settings.NETWORKS, (route['dst'] for route in routes))}\n")
    return Network(_CHOSEN.read_text(encoding="utf-8").strip())


def gateway() -> str:
    """The controller's own address on the bridge."""
    return str(network()[1])


def free_address(subnet: Network, taken: Iterable[str]) -> str:
    """The lowest address that no host has. Raises SandboxError when the network is full."""
    used = set(taken)
    for number in range(settings.FIRST_HOST, subnet.num_addresses - 1):
        if str(subnet[number]) not in used:
            return str(subnet[number])
    raise SandboxError(f"all addresses of {subnet} are taken; remove hosts with `down`")


def ensure_bridge() -> None:
    """The bridge is there, up, and carries the controller's address."""
    with lock("state"):
        subnet = network()
        if not Path("/sys/class/net", settings.BRIDGE).exists():
            run(["ip", "link", "add", settings.BRIDGE, "type", "bridge"])
        run(["ip", "address", "replace", f"{subnet[1]}/{subnet.prefixlen}", "dev", settings.BRIDGE])
        run(["ip", "link", "set", settings.BRIDGE, "up"])


def remove_bridge() -> None:
    """Take the bridge away."""
    if succeeds(["ip", "link", "show", settings.BRIDGE]):
        run(["ip", "link", "delete", settings.BRIDGE])
