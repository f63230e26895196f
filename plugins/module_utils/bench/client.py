# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A streaming client of ``/generate``: one request with its times, and many at once."""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..http_call import connect, headers


@dataclass(frozen=True)
class Timed:
    """One request: seconds on the clock of ``time.monotonic``.

    ``verifies`` is the number of verify steps with speculation, 0 without. ``error`` is empty when it ended well.
    """

    began: float
    first: float
    last: float
    tokens: int
    verifies: int = 0
    error: str = ""

    @property
    def ttft_s(self) -> float:
        return self.first - self.began

    @property
    def itl_s(self) -> float | None:
        """Mean time between tokens after the first; a step of speculation brings several tokens at once."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None


def generate(url: str, body: Mapping[str, Any], key: str | None, timeout: float) -> Timed:
    """Send one streaming request and read it to its end."""
    began = time.monotonic()
    connection, path = connect(f"{url}/generate", timeout)
    try:
        connection.request("POST", path, json.dumps({**body, "stream": True}), headers(key, body))
        answer = connection.getresponse()
        if answer.status != 200:
            return Timed(began, began, began, 0, error=f"status {answer.status}: {answer.read(300)!r}")
        return _read(answer, began)
    except (OSError, http.client.HTTPException) as error:
        return Timed(began, began, began, 0, error=str(error) or type(error).__name__)
    finally:
        connection.close()


def _read(answer: http.client.HTTPResponse, began: float) -> Timed:
    """Only the last chunk is parsed: each repeats the whole text, and parsing all would slow the client down."""
    first = last = 0.0
    chunk, done = b"", False
    for line in answer:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        last = time.monotonic()
        first = first or last
        chunk = data
    try:
        said = json.loads(chunk)
        meta = said["meta_info"]
    except (ValueError, KeyError, TypeError):
        return Timed(began, began, began, 0, error=f"the stream ended with {chunk[:200]!r}")
    tokens = int(meta["completion_tokens"])
    if not done or not meta.get("finish_reason"):
        return Timed(began, first, last, tokens, error=f"the stream was cut after {tokens} tokens")
    return Timed(began, first, last, tokens, int(meta.get("spec_verify_ct") or 0))


def many(
    url: str, bodies: Sequence[Mapping[str, Any]], concurrency: int, key: str | None, timeout: float
) -> list[Timed]:
    """All requests, ``concurrency`` at a time."""
    todo: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    for body in bodies:
        todo.put(body)
    found: list[Timed] = []

    def work() -> None:
        while True:
            try:
                body = todo.get_nowait()
            except queue.Empty:
                return
            found.append(generate(url, body, key, timeout))

    threads = [threading.Thread(target=work) for dummy in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
