# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Put a worker behind the gateway, take the load off it, take it away; each with the proof that it is so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..changes import Plan
from ..errors import InferopsError
from . import probe, workers
from .settings import Settings

#: A worker counts as empty when it has said so twice, this many seconds apart: a request that the gateway sent just
#: before it heard of the drain may still be on its way.
QUIET_S = 0.5
_POLL_S = 0.25
#: In the list; a drained worker stays drained, and nothing is waited for.
KNOWN = "known"


@dataclass
class Clock:
    """Time, so that tests need not wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def until_routable(gateway: Settings, url: str, timeout: float, clock: Clock) -> float:
    """Wait until a generation through the gateway was answered by the worker ``url``; seconds that it took.

    :raises InferopsError: when that does not happen in time; it says how far it came.
    """
    began = clock.now()
    seen = "the gateway does not list the worker"
    while True:
        try:
            entry = probe.listed(gateway, url)
            if entry is not None and entry["status"] == "ready":
                routed, seen = _try(gateway, url)
                if routed:
                    return clock.now() - began
            elif entry is not None:
                seen = f"the gateway says of the worker: {entry['status']}"
        except ConnectionError as error:
            seen = f"the gateway does not answer: {error}"
        if clock.now() - began >= timeout:
            raise InferopsError(
                f"worker {url} is not routable after {timeout:g} s: {seen}; check that the gateway's host reaches it "
                f"(curl {url}/health there) and the gateway's log (journalctl -u sglang-gateway)",
                routable=False,
                in_flight=None,
                drained_s=None,
            )
        clock.sleep(_POLL_S)


def _try(gateway: Settings, url: str) -> tuple[bool, str]:
    model = probe.model_of(gateway, url)
    if model is None:
        return False, f"{url}/v1/models names no model"
    routed, answer = probe.generation(gateway, model)
    if routed is None:
        return False, f"a generation through the gateway failed: {answer.error or f'status {answer.status}'}"
    return routed == url, f"generations through the gateway reach other workers ({routed})"


@dataclass(frozen=True)
class Drained:
    """``in_flight`` is what still ran at the end of the wait; ``None`` when the worker did not say."""

    in_flight: int | None
    seconds: float


def until_empty(gateway: Settings, url: str, timeout: float, clock: Clock) -> Drained:
    """Wait until the gateway sends the worker nothing new and what runs there has ended; ``timeout`` is in seconds."""
    began = clock.now()
    quiet_since: float | None = None
    while True:
        routed, running = _load(gateway, url)
        now = clock.now()
        quiet_since = None if routed or running != 0 else (now if quiet_since is None else quiet_since)
        if quiet_since is not None and now - quiet_since >= QUIET_S:
            return Drained(0, now - began)
        if now - began >= timeout:
            return Drained(running, now - began)
        clock.sleep(_POLL_S)


def _load(gateway: Settings, url: str) -> tuple[bool, int | None]:
    """(whether the gateway still sends it requests, how many run there): the greater of both sides' counts."""
    own = probe.in_flight(url, gateway.worker_key)
    try:
        entry = probe.listed(gateway, url)
    except ConnectionError:
        return False, own
    if entry is None:
        return False, own
    counts = [count for count in (own, entry["load"]) if count is not None]
    return entry["status"] == "ready", max(counts) if counts else None


def until_gone(gateway: Settings, url: str, timeout: float, clock: Clock) -> None:
    """Wait until the gateway no longer lists the worker; a gateway that does not answer lists nobody.

    :raises InferopsError: when it still does after ``timeout`` seconds.
    """
    began = clock.now()
    while True:
        try:
            if probe.listed(gateway, url) is None:
                return
        except ConnectionError:
            return
        if clock.now() - began >= timeout:
            raise InferopsError(f"the gateway still lists worker {url} {timeout:g} s after it was taken away")
        clock.sleep(_POLL_S)


class TooFew(InferopsError):
    """Not enough other workers are known to be ready."""


def _write(
    gateway: Settings, changes: Plan, allow: Callable[[Mapping[str, str]], None], wait: float, clock: Clock
) -> None:
    """Write the list. What is not allowed may be a moment later: a gateway that restarts, a worker that comes up.

    The list is not held meanwhile: others may be what is waited for.

    :raises TooFew: when it is not after ``wait`` seconds.
    """
    began = clock.now()
    while True:
        try:
            return workers.apply(gateway.workers, gateway.manifest, changes, allow)
        except TooFew:
            if clock.now() - began >= wait:
                raise
        clock.sleep(4 * _POLL_S)


def _enough(gateway: Settings, kept: Mapping[str, str], url: str, state: str, min_routable: int) -> None:
    """Refuse to take a worker out when too few others would be left.

    :raises TooFew: then; it names the ones that are ready.
    """
    if state == workers.PRESENT or state == KNOWN or min_routable < 1:
        return
    others = [other for other, how in kept.items() if how == workers.PRESENT and other != url]
    try:
        entries = [probe.listed(gateway, other) for other in others]
    except ConnectionError as error:
        raise TooFew(f"worker {url} is not taken out: the gateway does not say who else is ready ({error})") from error
    ready = [other for other, entry in zip(others, entries) if entry is not None and entry["status"] == "ready"]
    if len(ready) < min_routable:
        raise TooFew(
            f"worker {url} is not taken out: {len(ready)} other(s) would be left ({', '.join(ready) or 'none'}), and "
            f"min_routable is {min_routable}; bring the missing ones back first (gateway_worker with state: present)"
        )


def ensure(
    gateway: Settings,
    url: str,
    state: str,
    *,
    drain_timeout: float,
    routable_timeout: float,
    min_routable: int = 0,
    check: bool = False,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Bring the worker to ``state``: the module's result.

    :raises InferopsError: for a URL of another form, or when the state is not reached in time (a drain is not an
        error: ``in_flight`` says what still runs).
    """
    clock = clock or Clock()
    url = workers.check_url(url)
    observed = workers.observe(gateway.workers)
    wanted = observed.get(url, workers.PRESENT) if state == KNOWN else state
    changes = workers.plan(observed, {url: wanted})
    result = {"changed": changes.changed, "diff": changes.diff(), "url": url, "state": state}
    result.update(in_flight=None, drained_s=None, routable=None)
    if check:
        return result
    if changes.changed:
        _write(
            gateway,
            changes,
            lambda kept: _enough(gateway, kept, url, state, min_routable),
            routable_timeout,
            clock,
        )
    else:
        workers.settle(gateway.workers, gateway.manifest)
    if state == KNOWN:
        return result
    if state == workers.PRESENT:
        until_routable(gateway, url, routable_timeout, clock)
        result["routable"] = True
    elif state == workers.DRAINED:
        drained = until_empty(gateway, url, drain_timeout, clock)
        result.update(in_flight=drained.in_flight, drained_s=round(drained.seconds, 2), routable=False)
    else:
        until_gone(gateway, url, drain_timeout, clock)
        result["routable"] = False
    return result
