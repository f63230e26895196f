"""Where this machine gets Debian packages from: its own apt configuration, whatever that is."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator

from . import settings
from .shell import run

_FORMAT = "$(SITE) $(COMPONENT)"


def sites(indextargets: str) -> list[str]:
    """The distinct web sites of ``main`` packages in the output of ``apt-get indextargets``, in apt's order."""
    found: dict[str, None] = {}
    for line in indextargets.splitlines():
        site, dummy, component = line.partition(" ")
        if component.strip() == "main" and site.startswith(("http://", "https://")):
            found.setdefault(site.rstrip("/"))
    return list(found)


def proxies() -> dict[str, str]:
    """apt's own proxies as environment variables; the ones already in the environment win."""
    wanted = {}
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        value = run(["apt-config", "dump", "--format", "%v", f"Acquire::{scheme}::Proxy"]).strip()
        if value and value.upper() != "DIRECT" and name not in os.environ:
            wanted[name] = value
    return wanted


def _serves_the_suite(site: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({**urllib.request.getproxies(), **_by_scheme()}))
    try:
        with opener.open(f"{site}/dists/{settings.SUITE}/Release", timeout=20) as answer:
            head = answer.read(4096).decode("utf-8", "replace").splitlines()
    except (urllib.error.URLError, OSError):
        return False
    return "Origin: Debian" in head and f"Codename: {settings.SUITE}" in head


def _by_scheme() -> dict[str, str]:
    return {name.split("_")[0]: value for name, value in proxies().items()}


def _configured() -> Iterator[str]:
    yield from sites(run(["apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"]))


def debian_mirror() -> str | None:
    """The first configured site that serves the hosts' Debian release; None leaves it to debootstrap's own default
    (on an Ubuntu machine, say, whose mirrors carry no Debian)."""
    return next((site for site in _configured() if _serves_the_suite(site)), None)
