# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the gateway and a worker say of themselves over HTTP."""

from __future__ import annotations

import re
import uuid
from typing import Any

from ..http_call import Answer, request
from .settings import Settings

#: smg names in this header of an answer the worker that gave it.
ROUTED = "x-smg-routed-worker-id"
_GAUGES = re.compile(r"^sglang:num_(?:running|queue)_reqs(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


def listed(gateway: Settings, url: str) -> dict[str, Any] | None:
    """The gateway's entry for a worker (``status``: ``ready``, ``not_ready``, ``draining``; ``load``), if it has one.

    :raises ConnectionError: when the gateway does not answer.
    """
    answer = request("GET", f"{gateway.url}/workers", key=gateway.admin_key)
    found = answer.json()
    if not answer.ok or not isinstance(found, dict):
        raise ConnectionError(answer.error or f"{gateway.url}/workers answers with status {answer.status}")
    entries = [worker for worker in found["workers"] if worker["url"] == url]
    # while a worker is replaced there may be two entries: the one that gets requests counts
    entries.sort(key=lambda worker: worker["status"] != "ready")
    return entries[0] if entries else None


def model_of(gateway: Settings, url: str) -> str | None:
    """The name under which a worker serves its model."""
    answer = request("GET", f"{url}/v1/models", key=gateway.worker_key)
    found = answer.json()
    return str(found["data"][0]["id"]) if answer.ok and isinstance(found, dict) and found.get("data") else None


def generation(gateway: Settings, model: str, timeout: float = 60.0) -> tuple[str | None, Answer]:
    """Ask the gateway for one token: the worker that answered, and the answer.

    The prompt is new each time: a gateway that routes by cached prefixes would ask the same worker for ever.
    """
    body = {
        "model": model,
        "text": f"{uuid.uuid4().hex} hello",
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
    }
    answer = request("POST", f"{gateway.url}/generate", body, key=gateway.worker_key, timeout=timeout)
    return (answer.headers.get(ROUTED) if answer.ok else None), answer


def in_flight(url: str, key: str | None = None) -> int | None:
    """How many requests run or wait on a worker by its own count; ``None`` where it does not say, 0 where none listens.

    The schedulers are asked: ``/v1/loads`` exists from 0.5.10 on (0.5.14 answers 500 when metrics are on),
    ``/get_load`` up to 0.5.20. Metrics come last: the gauges of running and queued requests stand still for up to 30 s
    once a server is idle. (``http_requests_active`` does not serve: a stream leaves that count with its first byte.)
    """
    answer = request("GET", f"{url}/v1/loads", key=key)
    if answer.refused:
        return 0
    found = answer.json()
    if answer.ok and isinstance(found, dict) and isinstance(found.get("loads"), list):
        return sum(int(load["num_running_reqs"]) + int(load["num_waiting_reqs"]) for load in found["loads"])
    answer = request("GET", f"{url}/get_load", key=key)
    found = answer.json()
    if answer.ok and isinstance(found, list):
        return sum(int(load["num_reqs"]) for load in found)
    metrics = request("GET", f"{url}/metrics", key=key)
    values = _GAUGES.findall(metrics.body.decode("utf-8", "replace")) if metrics.ok else []
    return int(sum(float(value) for value in values)) if values else None
