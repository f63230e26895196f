# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Whether a request to the server's own address would go through a proxy, as Python's ``requests`` decides it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def used(environment: Mapping[str, str], host: str) -> tuple[str, str] | None:
    """The variable and value of the proxy that a plain HTTP request to ``host`` would take; ``None`` for none.

    Small letters come before capitals, the scheme's own variable before ``all_proxy``. Which address the server asks
    differs: early releases ask the literal bind address (0.0.0.0 too), later ones 127.0.0.1 for it.
    """
    addresses = [host, "127.0.0.1"] if host in ("0.0.0.0", "::") else [host]
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        value = environment.get(name)
        if value:
            exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
            return None if all(_exempt(address, exempt) for address in addresses) else (name, _without_password(value))
    return None


def _exempt(host: str, no_proxy: str) -> bool:
    entries = [entry.strip() for entry in no_proxy.split(",") if entry.strip()]
    if "*" in entries:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return any(host == entry or host.endswith("." + entry.lstrip(".")) for entry in entries)
    for entry in entries:
        try:
            if address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def _without_password(url: str) -> str:
    """A proxy's address without the credentials that it may hold."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
