"""Clients of a gateway: streaming and non-streaming requests without a pause, each accounted for.

Run by itself: python3 tests/integration/fleet_load.py URL SECONDS [CLIENTS]
"""

from __future__ import annotations

import collections
import http.client
import json
import re
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ROUTED = "x-smg-routed-worker-id"
_LENGTH = re.compile(rb'"finish_reason": ?"length"')


@dataclass
class Outcome:
    """One request: ``error`` is empty when it was answered whole."""

    began: float
    seconds: float
    worker: str
    stream: bool
    error: str = ""


@dataclass
class Load:
    """``clients`` threads, every second of them streaming; a request is never repeated by the client. ``pause`` is in
    seconds, between two requests of a client."""

    url: str
    clients: int = 8
    tokens: int = 150
    model: str = "/srv/models/tiny-llama"
    pause: float = 0.0
    done: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._client, args=(n % 2 == 0,), daemon=True) for n in range(self.clients)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _client(self, stream: bool) -> None:
        while not self._ended.is_set():
            self.done.append(self._one(stream))
            self._ended.wait(max(self.pause, 0.2 if self.done[-1].error else 0.0))

    def _one(self, stream: bool) -> Outcome:
        began = time.time()
        outcome = Outcome(began, 0.0, "", stream)
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": f"{uuid.uuid4().hex} tell me more"}],
            "max_tokens": self.tokens,
            "ignore_eos": True,
            "stream": stream,
        }
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            outcome.worker = answer.getheader(ROUTED) or ""
            raw = answer.read()
            if answer.status != 200:
                outcome.error = f"status {answer.status}: {raw[:200]!r}"
            elif stream and not raw.rstrip().endswith(b"data: [DONE]"):
                outcome.error = f"cut after {len(raw)} bytes"
            elif stream and len(_LENGTH.findall(raw)) != 1:
                outcome.error = "the stream has no end"
            elif not stream and json.loads(raw)["usage"]["completion_tokens"] != self.tokens:
                outcome.error = "too few tokens"
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcome.error = f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        outcome.seconds = time.time() - began
        return outcome

    @property
    def lost(self) -> list[Outcome]:
        return [outcome for outcome in self.done if outcome.error]

    def summary(self) -> str:
        workers = collections.Counter(outcome.worker for outcome in self.done)
        streams = sum(outcome.stream for outcome in self.done)
        return f"{len(self.done)} requests ({streams} streams), {len(self.lost)} lost; by worker: {dict(workers)}"


if __name__ == "__main__":
    with Load(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 8) as load:
        time.sleep(float(sys.argv[2]))
    print(load.summary())
    for lost in load.lost[:20]:
        print(time.strftime("%H:%M:%S", time.localtime(lost.began)), lost)
